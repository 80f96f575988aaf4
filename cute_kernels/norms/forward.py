"""y = norm(x) · weight, rows in registers. Memory-bound, and uses no feature of one generation: one program for all.

normalise  every warp    reads its slice of the rows, sums over the CTA and the cluster, scales, writes

    mail   normalise <-(row sums: DSMEM)-> normalise of the other CTAs, for rows longer than one CTA holds
"""

from typing import Any

from cute_kernels import tile


@tile.jit
def normalise(ctx: Any) -> None:
    problem, mail = ctx.plan.problem, ctx.mail
    letter = mail.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x = ctx.read(ctx.x, index, ctx.rank)
        weight = ctx.read_columns(ctx.weight, ctx.rank) if problem.weight_dtype else None  # in flight with x
        squares = ctx.row_sum(x, lambda v: v * v)
        squares, letter = tile.sum_over_cluster(mail, letter, squares)
        rstd = ctx.rsqrt(squares / problem.n + problem.eps)
        scale(ctx, x, rstd, weight)
        ctx.write(ctx.y, index, ctx.rank, x)
    mail.drain(letter)


def scale(ctx: Any, x: Any, rstd: Any, weight: Any) -> None:
    """x · rstd · (offset + weight), or without a weight x · rstd."""
    offset = ctx.plan.problem.weight_offset
    if weight is None:
        ctx.apply(x, lambda v, r: v * r, rows=(rstd,))
    else:
        ctx.apply(x, lambda v, r, w: v * r * (w + offset), rows=(rstd,), columns=(weight,))
