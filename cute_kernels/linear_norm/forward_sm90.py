"""y = norm(x · weightᵀ) on Hopper: the norm in the epilogue of the product, over the CTAs of a cluster.

load      1 warp         see load.py
multiply  2 warpgroups   each owns the accumulators of its 64 rows: multiplies, normalises over the cluster, stores part by part

    operands   load -(x, weight: TMA)-> multiply       a stage a step of K
    mail       multiply <-(row sums: DSMEM)-> multiply of the other CTAs, member to member
"""

from typing import Any

from cute_kernels import tile


@tile.jit
def multiply(ctx: Any) -> None:
    ring, mail, product, staging = ctx.operands, ctx.mail, ctx.product, ctx.staging
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
        letter = normalise(ctx, accumulator, letter)
        for part in staging.parts:
            staging.acquire()
            staging.put(part, ctx.part(accumulator, part))
            staging.publish()
            staging.store(ctx.y, part, index * ctx.members + ctx.member, ctx.rank * len(staging.parts) + part)
    staging.drain()
    mail.drain(letter)


def normalise(ctx: Any, accumulator: Any, letter: Any) -> Any:
    """Divide the accumulator's rows by their root mean square over the cluster; returns the mail's next slot."""
    problem = ctx.plan.problem
    squares = ctx.row_sum(accumulator, lambda v: v * v)
    squares, letter = tile.sum_over_cluster(ctx.mail, letter, squares)
    rstd = ctx.rsqrt(squares / problem.n + problem.eps)
    ctx.apply(accumulator, lambda v, scale: v * scale, rows=(rstd,))
    return letter
