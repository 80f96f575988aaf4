"""y = norm(x · weightᵀ + bias + residual) on Hopper: the norm in the epilogue of the product, over the CTAs of a cluster.

load      1 warp         see load.py
multiply  2 warpgroups   each owns the accumulators of its 64 rows: multiplies, normalises over the cluster, stores part by part

    operands   load -(x, weight: TMA)-> multiply       a stage a step of K
    mail       multiply <-(row sums: DSMEM)-> multiply of the other CTAs, member to member
"""

from typing import Any

from cute_kernels import tile
from cute_kernels.linear_norm import epilogue


@tile.jit
def multiply(ctx: Any) -> None:
    ring, mail, product = ctx.operands, ctx.mail, ctx.product
    accumulator = product.accumulator()
    slot, letter = ring.start(), mail.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        ring.wait(slot)
        product.multiply(accumulator, slot, fresh=True)
        previous = slot
        slot = ring.advance(slot)
        for k in range(1, ctx.plan.problem.steps):
            ring.wait(slot)
            product.multiply(accumulator, slot)
            product.wait(1)
            ring.release(previous)
            previous = slot
            slot = ring.advance(slot)
        product.wait(0)
        ring.release(previous)
        letter = finish(ctx, index * ctx.members + ctx.member, accumulator, letter)
    ctx.staging.drain()
    mail.drain(letter)


def finish(ctx: Any, row: Any, accumulator: Any, letter: Any) -> Any:
    """The epilogue, all of it in the accumulator's registers; returns the mail's next slot."""
    parts = [ctx.part(accumulator, part) for part in ctx.staging.parts]
    for part, product in enumerate(parts):
        epilogue.keep(ctx, row, part, epilogue.complete(ctx, row, part, product))
    mean, rstd, letter = epilogue.statistics(ctx, row, letter, (accumulator,))
    epilogue.store(ctx, row, parts, mean, rstd)
    return letter
