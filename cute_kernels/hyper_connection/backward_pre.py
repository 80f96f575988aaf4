"""Gradients of layer_input = Σ_j pre_j · X_j. Memory-bound; one program for all generations.

spread  every warp    reads X and the gradient dU of layer_input once, finds pre as the forward does; writes dX_j = pre_j · dU once, and its
                      slice's part of dpre_j = Σ X_j · dU

What follows from dpre is a few numbers a token, and not done here.
"""

from typing import Any

from cute_kernels import tile
from cute_kernels.hyper_connection import coefficients as of
from cute_kernels.hyper_connection import streams


@tile.jit
def spread(ctx: Any) -> None:
    index = ctx.first
    dlayer, x = ctx.read(ctx.dlayer_input, index, ctx.rank), read_streams(ctx, index)
    write_dx(ctx, index, dlayer)
    write_parts(ctx, index, dlayer, x)


# What a plan leaves out is left out while tracing: these are plain functions, and their conditions static.


def read_streams(ctx: Any, index: Any) -> tuple[Any, ...]:
    """X, for pre's gradient."""
    return streams.read(ctx, "x", index) if ctx.plan.problem.dtables else ()


def write_dx(ctx: Any, index: Any, dlayer: Any) -> None:
    """dX_j = pre_j · dU."""
    if ctx.plan.problem.dx:
        (mixes,), squares = of.read(ctx, index, of.PRE), of.read_squares(ctx, index)
        pre = of.gates(ctx, mixes, of.inverse_rms(ctx, squares))
        streams.write(ctx, "dx", index, ctx.combine(spread_out, (dlayer,), rows=pre))


def write_parts(ctx: Any, index: Any, dlayer: Any, x: tuple[Any, ...]) -> None:
    """This CTA's part of dpre."""
    if x:
        ctx.write_table(ctx.parts, index, ctx.row_sums(dlayer, spread_out, tiles=x))


def spread_out(first: Any, *others: Any) -> tuple[Any, ...]:
    """The first times each of the others."""
    return tuple(first * other for other in others)
