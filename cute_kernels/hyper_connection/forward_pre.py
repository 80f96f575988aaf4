"""What goes into a layer, layer_input = Σ_j pre_j · X_j, and the coefficients of its streams. Memory-bound; one program for all generations.

Sums of squares given, in parts:
collapse      4 warps          starts to load its slice of every stream, then finds pre of its token in the mixes, weighs and writes
coefficients  1 warp or more   post and the Sinkhorn matrix of the tile's tokens, in the first of the CTAs that share them

Nobody waits for anybody, and a CTA handles one tile, so there is no loop. pre costs a thread a few loads and n sigmoids, less than a
barrier behind somebody who computes it; and Sinkhorn, which is long, runs while streams are on their way.

Sums of squares not given:
collapse_normed   4 warps      the same on a token in registers, its squares summed over the cluster; then the coefficients, one warp a token

    mail   collapse_normed <-(sums of squares: DSMEM)-> collapse_normed of the other CTAs
"""

from typing import Any

from cute_kernels import tile
from cute_kernels.hyper_connection import coefficients as of
from cute_kernels.hyper_connection import streams


@tile.jit
def collapse(ctx: Any) -> None:
    index = ctx.first
    x = streams.read(ctx, "x", index)
    (mixes,), squares = of.read(ctx, index, of.PRE), of.read_squares(ctx, index)
    write_layer_input(ctx, index, x, of.gates(ctx, mixes, of.inverse_rms(ctx, squares)))


@tile.jit
def coefficients(ctx: Any) -> None:
    if ctx.rank == 0:
        write_coefficients(ctx, ctx.first, of.read_squares(ctx, ctx.first))


@tile.jit
def collapse_normed(ctx: Any) -> None:
    mail, index = ctx.mail, ctx.first
    letter = mail.start()
    x = streams.read(ctx, "x", index)
    (mixes,) = of.read(ctx, index, of.PRE)
    own = ctx.row_sum(x[0], streams.squares, tiles=x[1:])
    squares, letter = tile.sum_over_cluster(mail, letter, own)
    write_layer_input(ctx, index, x, of.gates(ctx, mixes, of.inverse_rms(ctx, squares)))
    mail.drain(letter)
    if ctx.rank == 0 and ctx.leads:
        write_coefficients(ctx, index, squares)


def write_layer_input(ctx: Any, index: Any, x: tuple[Any, ...], pre: tuple[Any, ...]) -> None:
    """Σ_j pre_j · X_j."""
    ctx.write(ctx.layer_input, index, ctx.rank, *ctx.combine(streams.one_sum, x, rows=pre))


def write_coefficients(ctx: Any, index: Any, squares: Any) -> None:
    """post = post_mult · σ(z) and Sinkhorn's matrix."""
    problem = ctx.plan.problem
    n = problem.n
    post, comb = of.read(ctx, index, of.POST, of.COMB)
    rstd = of.inverse_rms(ctx, squares)
    ctx.write_table(ctx.post, index, tuple(of.sigmoid(ctx, z) * problem.post_mult for z in of.logits(post, rstd)))
    z = of.logits(comb, rstd)
    matrix = sinkhorn(ctx, tuple(z[i * n : (i + 1) * n] for i in range(n)))
    ctx.write_table(ctx.comb, index, tuple(value for row in matrix for value in row))


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
