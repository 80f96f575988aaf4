"""Parts of sums that CTAs left behind, added in their order: a token's result depends on its own parts alone, in whatever batch.

add  4 warps    a few threads a token: all its parts are loaded at once

A sum over the first dimension by PyTorch takes an order that depends on how many tokens there are.
"""

from typing import Any

from cute_kernels import tile


@tile.jit
def add(ctx: Any) -> None:
    columns, index = ctx.plan.problem.columns, ctx.first
    ctx.write_table(ctx.total, index, ctx.read_table(ctx.parts, index, 0, columns))
