"""What follows the product on every generation: z completed, its rows' statistics over the cluster, y and z stored part by part.

Plain functions of the context, called by the role that holds the accumulators: what a plan leaves out is left out while tracing.
A box of N columns is a part: part p of this CTA is box rank · parts + p of y, z, residual and of the vectors along N.
"""

from typing import Any

from cute_kernels import tile


def box(ctx: Any, part: int) -> Any:
    """The number of a part among all CTAs' of the cluster."""
    return ctx.rank * len(ctx.staging.parts) + part


def complete(ctx: Any, row: Any, part: int, product: Any) -> Any:
    """z of a part of the product, in place: the bias and the residual added in float32."""
    problem = ctx.plan.problem
    if problem.bias_dtype:
        ctx.apply(product, lambda v, b: v + b, columns=(ctx.read_columns(ctx.bias, box(ctx, part)),))
    if problem.residual:
        ctx.apply(product, lambda v, r: v + r, tiles=(ctx.read(ctx.residual, row, box(ctx, part)),))
    return product


def statistics(ctx: Any, row: Any, letter: Any, pieces: Any) -> tuple[Any, Any, Any]:
    """Mean (a pair; None for rms) and rstd of the rows whose columns here are `pieces`, written where asked for; the mail's next slot."""
    problem = ctx.plan.problem
    mean, square, letter = tile.mean_and_square(ctx, letter, pieces, problem.n, problem.centre)
    rstd = ctx.rsqrt(square + problem.eps)
    if problem.return_stats:
        ctx.write_rows(ctx.rstd, row, rstd)
        if problem.centre:
            ctx.write_rows(ctx.mean, row, mean[0] + mean[1])
    return mean, rstd, letter


def keep(ctx: Any, row: Any, part: int, z: Any) -> None:
    """A part of z as it is, where asked for: before the statistics, so that registers need not hold z and z − mean at once."""
    if ctx.plan.problem.return_z:
        ctx.staging.acquire()
        send(ctx, ctx.z, row, part, z)


def store(ctx: Any, row: Any, parts: Any, mean: Any, rstd: Any) -> None:
    """y, normalised part by part."""
    for part, z in enumerate(parts):
        # Acquired first: the threads meet there, so that one part's vectors at a time wait in registers.
        ctx.staging.acquire()
        normalise(ctx, part, z, mean, rstd)
        send(ctx, ctx.y, row, part, z)


def normalise(ctx: Any, part: int, z: Any, mean: Any, rstd: Any) -> None:
    """(z − mean) · rstd · norm_weight + norm_bias in place, as far as each is there."""
    problem = ctx.plan.problem
    if mean is None:
        ctx.apply(z, lambda v, r: v * r, rows=(rstd,))
    else:
        ctx.apply(z, lambda v, m, left, r: (v - m - left) * r, rows=(*mean, rstd))
    if problem.norm_weight_dtype:
        ctx.apply(z, lambda v, w: v * w, columns=(ctx.read_columns(ctx.norm_weight, box(ctx, part)),))
    if problem.norm_bias_dtype:
        ctx.apply(z, lambda v, b: v + b, columns=(ctx.read_columns(ctx.norm_bias, box(ctx, part)),))


def send(ctx: Any, tensor: Any, row: Any, part: int, values: Any) -> None:
    """A part on its way to `tensor`, into the buffer that has been acquired."""
    staging = ctx.staging
    staging.put(part, values)
    staging.publish()
    staging.store(tensor, part, row, box(ctx, part))
