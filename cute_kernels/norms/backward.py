"""dx of y = norm(x [+ residual]) · weight + bias, and the weight's and bias's gradients as partial sums. One program for all generations.

differentiate  every warp    reads x, dy and the rows' statistics once, and writes dx; sums of dy · x̂ and of dy over its rows stay in
                             registers from tile to tile, and leave as one row of partials a cluster, to be added in a fixed order

    mail   differentiate <-(row sums: DSMEM)-> differentiate of the other CTAs, for rows longer than one CTA holds

With x̂ = (x − mean) · rstd and ĝ = dy · (offset + weight):  dx = rstd · (ĝ − mean(ĝ) − x̂ · mean(ĝ · x̂)), without mean(ĝ) for rms.
The saved mean is rounded, by more than x̂ can bear where |mean| ≫ std: dx is computed with what is left of x̂'s mean taken out.
"""

from typing import Any

from cute_kernels import tile
from cute_kernels.norms.forward import read_sum


@tile.jit
def differentiate(ctx: Any) -> None:
    problem, mail = ctx.plan.problem, ctx.mail
    letter = mail.start()
    dweight = ctx.zero_columns(ctx.dweight) if problem.dweight else None
    dbias = ctx.zero_columns(ctx.dbias) if problem.dbias else None
    weight = read_weight(ctx)
    for index in range(ctx.first, ctx.tiles, ctx.step):
        unit, dy = read_sum(ctx, index), ctx.read(ctx.dy, index, ctx.rank)
        prefetch(ctx, index + ctx.step)
        rstd = ctx.read_rows(ctx.rstd, index)
        standardise(ctx, index, unit, rstd)
        accumulate(ctx, dweight, dbias, unit, dy)
        letter = differentiate_rows(ctx, index, letter, unit, dy, rstd, weight) if problem.dx else letter
    write_partials(ctx, dweight, dbias)
    mail.drain(letter)


# What a plan leaves out is left out while tracing: these are plain functions, and their conditions static.


def read_weight(ctx: Any) -> Any:
    """The weight of this CTA's columns, for all tiles; None where there is none or nobody wants dx."""
    problem = ctx.plan.problem
    return ctx.read_columns(ctx.weight, ctx.rank) if problem.weight_dtype and problem.dx else None


def prefetch(ctx: Any, index: Any) -> None:
    """What the next tile reads, while this one is computed; a CTA of one tile has none. Addresses of four tensors would take too many
    registers."""
    if ctx.plan.persistent:
        ctx.prefetch(ctx.x, index, ctx.rank)
        ctx.prefetch(ctx.dy, index, ctx.rank)


def standardise(ctx: Any, index: Any, x: Any, rstd: Any) -> None:
    """x̂ in place of x."""
    if ctx.plan.problem.centre:
        ctx.apply(x, lambda v, m, r: (v - m) * r, rows=(ctx.read_rows(ctx.mean, index), rstd))
    else:
        ctx.apply(x, lambda v, r: v * r, rows=(rstd,))


def accumulate(ctx: Any, dweight: Any, dbias: Any, unit: Any, dy: Any) -> None:
    """Add the tile's share of the parameters' gradients."""
    if dweight is not None:
        ctx.add_columns(dweight, dy, lambda g, u: g * u, tiles=(unit,))
    if dbias is not None:
        ctx.add_columns(dbias, dy, lambda g: g)


def differentiate_rows(ctx: Any, index: Any, letter: Any, unit: Any, gradient: Any, rstd: Any, weight: Any) -> Any:
    """Write dx of the tile; `gradient` comes as dy. Returns the mail's next slot."""
    problem = ctx.plan.problem
    if weight is not None:
        offset = problem.weight_offset
        ctx.apply(gradient, (lambda g, w: g * (w + offset)) if offset else (lambda g, w: g * w), columns=(weight,))
    if problem.centre:
        sums = ctx.row_sums(gradient, lambda g, u: (g * u, g, u), tiles=(unit,))
        (along, total, left), letter = tile.sums_over_cluster(ctx.mail, letter, sums)
        mean, rest = total / problem.n, left / problem.n
        rows = (rstd, mean, rest, along / problem.n - mean * rest)
        ctx.apply(gradient, lambda g, r, m, s, a, u: (g - m - (u - s) * a) * r, rows=rows, tiles=(unit,))
    else:
        own = ctx.row_sum(gradient, lambda g, u: g * u, tiles=(unit,))
        along, letter = tile.sum_over_cluster(ctx.mail, letter, own)
        along = along / problem.n
        ctx.apply(gradient, lambda g, r, a, u: (g - u * a) * r, rows=(rstd, along), tiles=(unit,))
    if problem.dsum:
        ctx.apply(gradient, lambda g, d: g + d, tiles=(ctx.read(ctx.dsum, index, ctx.rank),))
    ctx.write(ctx.dx, index, ctx.rank, gradient)
    return letter


def write_partials(ctx: Any, dweight: Any, dbias: Any) -> None:
    """This cluster's row of the parameters' gradients."""
    if dweight is not None:
        ctx.write_columns(ctx.dweight, ctx.first, ctx.rank, dweight)
    if dbias is not None:
        ctx.write_columns(ctx.dbias, ctx.first, ctx.rank, dbias)
