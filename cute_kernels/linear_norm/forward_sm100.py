"""y = norm(x · weightᵀ) on Blackwell: accumulators in tensor memory, so the next tile is multiplied while this one is normalised.

load      1 warp        see load.py
multiply  1 warp        one thread of it issues the products
epilogue  4 warps       a row of the tile each thread: reads the accumulator twice, a part at a time, so that no part stays in registers

    operands      load -(x, weight: TMA)-> multiply              a stage a step of K
    accumulators  multiply -(tcgen05.commit)-> epilogue           a stage a tile, in tensor memory
    mail          epilogue <-(row sums: DSMEM)-> epilogue of the other CTAs
"""

from typing import Any

from cute_kernels import tile


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
    accumulators, mail, staging = ctx.accumulators, ctx.mail, ctx.staging
    turn, letter = accumulators.start(), mail.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        accumulators.wait(turn)
        rstd, letter = scale_of_rows(ctx, turn, letter)
        for part in staging.parts:
            values = ctx.tmem.read(turn, part)
            ctx.apply(values, lambda v, scale: v * scale, rows=(rstd,))
            staging.acquire()
            staging.put(part, values)
            staging.publish()
            staging.store(ctx.y, part, index, ctx.rank * len(staging.parts) + part)
        accumulators.release(turn)
        turn = accumulators.advance(turn)
    staging.drain()
    mail.drain(letter)


def scale_of_rows(ctx: Any, turn: Any, letter: Any) -> tuple[Any, Any]:
    """1 / root mean square of the rows over the cluster, and the mail's next slot."""
    problem = ctx.plan.problem
    squares = ctx.zero_rows()
    for part in ctx.staging.parts:
        squares = squares + ctx.row_sum(ctx.tmem.read(turn, part), lambda v: v * v)
    squares, letter = tile.sum_over_cluster(ctx.mail, letter, squares)
    return ctx.rsqrt(squares / problem.n + problem.eps), letter
