"""y = norm(x [+ residual]) · weight [+ bias], rows in registers. Memory-bound, and uses no feature of one generation: one program for all.

normalise  every warp    reads its slice of the rows, sums over the CTA and the cluster, scales, writes

    mail   normalise <-(row sums: DSMEM)-> normalise of the other CTAs, for rows longer than one CTA holds
"""

from typing import Any

from cute_kernels import tile


@tile.jit
def normalise(ctx: Any) -> None:
    problem, mail = ctx.plan.problem, ctx.mail
    letter = mail.start()
    weight, bias = read_parameters(ctx)
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x = read_sum(ctx, index)
        mean, square, letter = tile.mean_and_square(ctx, letter, (x,), problem.n, problem.centre)
        rstd = ctx.rsqrt(square + problem.eps)
        write_extras(ctx, index, x, mean, rstd)
        scale(ctx, x, mean, rstd, weight, bias)
        ctx.write(ctx.y, index, ctx.rank, x)
    mail.drain(letter)


# What a plan leaves out is left out while tracing: these are plain functions, and their conditions static.


def read_sum(ctx: Any, index: Any) -> Any:
    """The rows to normalise: x, or x + residual in float32."""
    x = ctx.read(ctx.x, index, ctx.rank)
    if ctx.plan.problem.residual:
        ctx.apply(x, lambda v, r: v + r, tiles=(ctx.read(ctx.residual, index, ctx.rank),))
    return x


def read_parameters(ctx: Any) -> tuple[Any, Any]:
    """The weight and the bias of this CTA's columns, None where there is none."""
    problem = ctx.plan.problem
    weight = ctx.read_columns(ctx.weight, ctx.rank) if problem.weight_dtype else None
    bias = ctx.read_columns(ctx.bias, ctx.rank) if problem.bias_dtype else None
    return weight, bias


def write_extras(ctx: Any, index: Any, x: Any, mean: Any, rstd: Any) -> None:
    """The sum that is normalised, and the statistics, where they are asked for."""
    problem = ctx.plan.problem
    if problem.return_sum:
        ctx.write(ctx.sum, index, ctx.rank, x)
    if problem.return_stats:
        ctx.write_rows(ctx.rstd, index, rstd)
        if problem.centre:
            ctx.write_rows(ctx.mean, index, mean[0] + mean[1])


def scale(ctx: Any, x: Any, mean: Any, rstd: Any, weight: Any, bias: Any) -> None:
    """x = (x − mean) · rstd · (offset + weight) + bias, as far as each is there."""
    offset = ctx.plan.problem.weight_offset
    if mean is None:
        ctx.apply(x, lambda v, r: v * r, rows=(rstd,))
    else:
        ctx.apply(x, lambda v, m, left, r: (v - m - left) * r, rows=(*mean, rstd))
    if weight is not None:
        ctx.apply(x, (lambda v, w: v * (w + offset)) if offset else (lambda v, w: v * w), columns=(weight,))
    if bias is not None:
        ctx.apply(x, lambda v, b: v + b, columns=(bias,))
