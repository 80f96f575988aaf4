"""The mixes of tokens, x · Wᵀ, on Hopper's tensor cores, and their sums of squares, in parts along K. X is read once.

load      1 warp         fills the ring: a stage of x and of the weight's terms for each step of this CTA's part of K
project   2 warpgroups   each owns the accumulators of its 64 tokens; while a product runs, its threads square what lies in the stage

    operands   load -(x, weight: TMA)-> project

The weight comes in two terms of x's type, the second what rounding left of the first, as rows of one matrix: their columns are added at the end.
"""

from typing import Any

from cute_kernels import tile


@tile.jit
def load(ctx: Any) -> None:
    ring, index = ctx.operands, ctx.first
    slot = ring.start()
    first, last = steps(ctx)
    for k in range(first, last):
        ring.acquire(slot)
        ctx.load(ctx.x, ring, slot, index, k)
        ctx.load(ctx.weight, ring, slot, 0, k)
        slot = ring.advance(slot)
    ring.drain(slot)


@tile.jit
def project(ctx: Any) -> None:
    ring, product = ctx.operands, ctx.product
    accumulator = product.accumulator()
    slot = ring.start()
    first, last = steps(ctx)
    ring.wait(slot)
    product.multiply(accumulator, slot, fresh=True)
    squares = ctx.row_sum(ctx.read_stage(ctx.x, slot), lambda v: v * v)
    previous = slot
    slot = ring.advance(slot)
    for _k in range(first + 1, last):
        ring.wait(slot)
        product.multiply(accumulator, slot)
        squares = squares + ctx.row_sum(ctx.read_stage(ctx.x, slot), lambda v: v * v)
        product.wait(1)
        ring.release(previous)
        previous = slot
        slot = ring.advance(slot)
    product.wait(0)
    ring.release(previous)
    row = ctx.first * ctx.members + ctx.member
    ctx.write_accumulator(ctx.dot_mix, row, accumulator)
    ctx.write_table(ctx.sqrsum, row, (squares,))


def steps(ctx: Any) -> tuple[Any, Any]:
    """This CTA's part of the steps along K: parts differ by one step at most."""
    problem = ctx.plan.problem
    return ctx.rank * problem.steps // problem.splits, (ctx.rank + 1) * problem.steps // problem.splits
