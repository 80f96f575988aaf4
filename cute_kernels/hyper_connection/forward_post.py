"""out_j = f · post_j + Σ_i comb_ij · X_i: what a layer made, and the mixed streams. Memory-bound; one program for all generations.

mix  every warp    reads f, its slice of every stream and the token's coefficients, all in flight at once; writes every stream once

No thread waits for another. A CTA handles one tile and ends, so there is no loop: its loads overlap another's stores, and no register
holds what a next tile would need.
"""

from typing import Any

from cute_kernels import tile
from cute_kernels.hyper_connection import streams


@tile.jit
def mix(ctx: Any) -> None:
    n, index = ctx.plan.problem.n, ctx.first
    f, x = ctx.read(ctx.f, index, ctx.rank), streams.read(ctx, "x", index)
    post, comb = ctx.read_table(ctx.post, index, 0, n), ctx.read_table(ctx.comb, index, 0, n * n)
    streams.write(ctx, "out", index, ctx.combine(mixed, (f, *x), rows=(*post, *comb)))


def mixed(f: Any, *values: Any) -> tuple[Any, ...]:
    """Every stream that comes out. `values` are the n streams that go in, post and comb."""
    n = streams.count(values, beside=2)
    x, post, comb = values[:n], values[n : 2 * n], values[2 * n :]
    return tuple(streams.weighted_sum(f, *x, post[j], *comb[j::n]) for j in range(n))
