"""Gradients of out_j = f · post_j + Σ_i comb_ij · X_i. Memory-bound; one program for all generations.

differentiate  every warp    reads f, X and the streams' gradients once; writes df and dX once, and its slice's part of the coefficients' gradients

Parts of a sum over columns leave as a row of a table for each CTA of a token, to be added in their order: nothing is exchanged or waited for.
"""

from typing import Any

from cute_kernels import tile
from cute_kernels.hyper_connection import streams


@tile.jit
def differentiate(ctx: Any) -> None:
    index = ctx.first
    dout, made = streams.read(ctx, "dout", index), read_made(ctx, index)
    write_df(ctx, index, dout)
    write_dx(ctx, index, dout)
    write_parts(ctx, index, dout, made)


# What a plan leaves out is left out while tracing: these are plain functions, and their conditions static.


def read_made(ctx: Any, index: Any) -> tuple[Any, ...]:
    """f and the streams, for the coefficients' gradients."""
    if not ctx.plan.problem.dtables:
        return ()
    return ctx.read(ctx.f, index, ctx.rank), *streams.read(ctx, "x", index)


def write_df(ctx: Any, index: Any, dout: tuple[Any, ...]) -> None:
    """df = Σ_j post_j dO_j."""
    if ctx.plan.problem.df:
        post = ctx.read_table(ctx.post, index, 0, ctx.plan.problem.n)
        ctx.write(ctx.df, index, ctx.rank, *ctx.combine(streams.one_sum, dout, rows=post))


def write_dx(ctx: Any, index: Any, dout: tuple[Any, ...]) -> None:
    """dX_i = Σ_j comb_ij dO_j."""
    n = ctx.plan.problem.n
    if ctx.plan.problem.dx:
        comb = ctx.read_table(ctx.comb, index, 0, n * n)
        streams.write(ctx, "dx", index, ctx.combine(mixed_back, dout, rows=comb))


def write_parts(ctx: Any, index: Any, dout: tuple[Any, ...], made: tuple[Any, ...]) -> None:
    """This CTA's part of dpost and dcomb."""
    if made:
        ctx.write_table(ctx.parts, index, ctx.row_sums(dout[0], products, tiles=(*dout[1:], *made)))


def mixed_back(*values: Any) -> tuple[Any, ...]:
    """Every stream's gradient. `values` are the n gradients that come in, then comb."""
    n = streams.count(values, beside=1)
    dout, comb = values[:n], values[n:]
    return tuple(streams.weighted_sum(*dout, *comb[i * n : (i + 1) * n]) for i in range(n))


def products(*values: Any) -> tuple[Any, ...]:
    """dpost_j = Σ f · dO_j and dcomb_ij = Σ X_i · dO_j of an element. `values` are the n gradients, then f and the n streams."""
    n = len(values) // 2
    return tuple(value * dout for value in values[n:] for dout in values[:n])
