"""y = norm(x · weightᵀ + bias + residual) on Blackwell: accumulators in tensor memory, so the next tile is multiplied while this one is normalised.

load      1 warp        see load.py
multiply  1 warp        one thread of it issues the products
epilogue  4 warps       a row of the tile each thread: reads the accumulator once for each pass, a part at a time, so that no part
                        stays in registers: a pass for each sum, one for z where asked for, one for y

    operands      load -(x, weight: TMA)-> multiply              a stage a step of K
    accumulators  multiply -(tcgen05.commit)-> epilogue           a stage a tile, in tensor memory
    mail          epilogue <-(row sums: DSMEM)-> epilogue of the other CTAs
"""

from collections.abc import Iterator
from typing import Any

from cute_kernels import tile
from cute_kernels.linear_norm import epilogue as norm


@tile.jit
def multiply(ctx: Any) -> None:
    ring, accumulators, product = ctx.operands, ctx.accumulators, ctx.product
    slot, turn = ring.start(), accumulators.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        accumulators.acquire(turn)
        for k in range(ctx.plan.problem.steps):
            ring.wait(slot)
            product.multiply(turn, slot, fresh=k == 0)
            ring.release_after_mma(slot)
            slot = ring.advance(slot)
        accumulators.publish_after_mma(turn)
        turn = accumulators.advance(turn)
    accumulators.drain(turn)
    ctx.tmem.free()


@tile.jit
def epilogue(ctx: Any) -> None:
    accumulators, mail = ctx.accumulators, ctx.mail
    turn, letter = accumulators.start(), mail.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        accumulators.wait(turn)
        letter = finish(ctx, index, turn, letter)
        accumulators.release(turn)
        turn = accumulators.advance(turn)
    ctx.staging.drain()
    mail.drain(letter)


def finish(ctx: Any, row: Any, turn: Any, letter: Any) -> Any:
    """The tile's statistics, z and y; returns the mail's next slot."""
    parts = Parts(ctx, row, turn)
    keep(ctx, row, parts)
    mean, rstd, letter = norm.statistics(ctx, row, letter, parts)
    norm.store(ctx, row, parts, mean, rstd)
    return letter


def keep(ctx: Any, row: Any, parts: Any) -> None:
    """z, where asked for, in a pass of its own: only there are the parts read for nothing else."""
    if ctx.plan.problem.return_z:
        for part, z in enumerate(parts):
            norm.keep(ctx, row, part, z)


class Parts:
    """z part by part, read anew each time it is walked."""

    def __init__(self, ctx: Any, row: Any, turn: Any) -> None:
        self.ctx, self.row, self.turn = ctx, row, turn

    def __iter__(self) -> Iterator[Any]:
        for part in self.ctx.staging.parts:
            yield norm.complete(self.ctx, self.row, part, self.ctx.tmem.read(self.turn, part))
