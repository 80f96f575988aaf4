"""y = norm(x · weightᵀ + bias + residual) on Hopper: the norm in the epilogue of the product, over the CTAs of a cluster.

Two schedules. Operands shared, for any K:

load      1 warp          see load.py
multiply  2 warpgroups    each owns the accumulators of its 64 rows of a tile: multiplies, normalises over the cluster, stores part by part

    operands   load -(x, weight: TMA)-> multiply       a stage a step of K
    mail       multiply <-(row sums: DSMEM)-> multiply of the other CTAs, member to member

The weight resident, where a CTA's slice of it stays in shared memory for all row tiles:

load      1 warp          load_resident, see load.py
multiply  2-4 warpgroups  multiply_in_turn: each takes every second, third or fourth tile of 64 rows, whole. x comes in the order of tiles, so
                          while one has its products, the others have their epilogues

    rows       load -(x: TMA)-> multiply, the member whose tile it is      a stage a step of K
    weights    load -(weight: TMA)-> multiply, all members                 all steps of K, filled once, released at the end
    turns      multiply -> multiply, the member whose turn is next         all of a tile's x has come: only then may the next one look for its own
    mail       as above
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


@tile.jit
def multiply_in_turn(ctx: Any) -> None:
    rows, weights, turns, mail, product = ctx.rows, ctx.weights, ctx.turns, ctx.mail, ctx.product
    steps = ctx.plan.problem.steps
    accumulator = product.accumulator()
    slot, letter = rows.skip(rows.start(), ctx.member * steps), mail.start()
    turn = turns.skip(turns.start(), ctx.member)
    if ctx.member == ctx.members - 1:
        turns.publish(turns.start())  # the first tile's turn has come
    for index in range(ctx.first + ctx.member * ctx.step, ctx.tiles, ctx.members * ctx.step):
        turns.wait(turn)
        turns.release(turn)
        held = weights.start()
        rows.wait(slot)
        weights.wait(held)
        product.multiply(accumulator, slot, fresh=True, other=held)
        previous = slot
        slot, held = rows.advance(slot), weights.advance(held)
        for k in range(1, steps):
            rows.wait(slot)
            weights.wait(held)
            product.multiply(accumulator, slot, other=held)
            product.wait(1)
            rows.release(previous)
            previous = slot
            slot, held = rows.advance(slot), weights.advance(held)
        if index + ctx.step < ctx.tiles:
            turns.publish(turns.advance(turn))
        turn = turns.skip(turn, ctx.members)
        product.wait(0)
        rows.release(previous)
        slot = rows.skip(slot, (ctx.members - 1) * steps)
        letter = finish(ctx, index, accumulator, letter)
    held = weights.start()
    for k in range(steps):
        weights.release(held)
        held = weights.advance(held)
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
