"""What goes into a layer, layer_input = Σ_j pre_j · X_j, and the coefficients of its streams. Memory-bound; one program for all generations.

collapse      4 warps          starts to load its slice of every stream, then finds pre of its token in the mixes, weighs and writes
coefficients  1 warp or more   post and the Sinkhorn matrix of the tile's tokens, in the first of the CTAs that share them

Nobody waits for anybody, and a CTA handles one tile, so there is no loop. pre costs a thread a few loads and n sigmoids, less than a barrier behind somebody who computes it; and
Sinkhorn, which is long, runs while streams are on their way.
"""

from typing import Any

from cute_kernels import tile
from cute_kernels.hyper_connection import coefficients as of
from cute_kernels.hyper_connection import streams


@tile.jit
def collapse(ctx: Any) -> None:
    problem, index = ctx.plan.problem, ctx.first
    x = streams.read(ctx, "x", index)
    (mixes,) = of.read(ctx, index, of.PRE)
    pre = tuple(of.sigmoid(ctx, z) + problem.pre_eps for z in mixes)
    (layer_input,) = ctx.combine(lambda *values: (streams.weighted_sum(*values),), x, rows=pre)
    ctx.write(ctx.layer_input, index, ctx.rank, layer_input)


@tile.jit
def coefficients(ctx: Any) -> None:
    problem, index = ctx.plan.problem, ctx.first
    n = problem.n
    if ctx.rank == 0:
        gates, logits = of.read(ctx, index, of.POST, of.COMB)
        ctx.write_table(ctx.post, index, tuple(of.sigmoid(ctx, z) * problem.post_mult for z in gates))
        comb = sinkhorn(ctx, tuple(logits[i * n : (i + 1) * n] for i in range(n)))
        ctx.write_table(ctx.comb, index, tuple(value for row in comb for value in row))


@tile.jit
def sinkhorn(ctx: Any, logits: of.Matrix) -> of.Matrix:
    """Softmax of the rows + eps; columns divided by their sums, then rows and columns in turn."""
    eps = ctx.plan.problem.sinkhorn_eps
    columns = of.transposed(tuple(tuple(value + eps for value in row) for row in of.softmax(ctx, logits)))
    columns = of.divide_by_sums(ctx, columns)
    for _ in range(ctx.plan.problem.repeats - 1):
        rows = of.divide_by_sums(ctx, of.transposed(columns))
        columns = of.divide_by_sums(ctx, of.transposed(rows))
    return of.transposed(columns)
