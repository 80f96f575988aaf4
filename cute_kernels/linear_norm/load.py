"""The load roles of linear_norm.

load            1 warp   fills the ring: a stage of x and weight for each step of K, up to `stages` steps ahead, on through the ends of tiles;
                         the same on every generation
load_resident   1 warp   loads this CTA's slice of the weight once, all steps of K, and then fills a ring of x alone
"""

from typing import Any

from cute_kernels import tile


@tile.jit
def load(ctx: Any) -> None:
    ring = ctx.operands
    slot = ring.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        for k in range(ctx.plan.problem.steps):
            ring.acquire(slot)
            ctx.load(ctx.x, ring, slot, index, k)
            ctx.load(ctx.weight, ring, slot, ctx.rank, k)
            slot = ring.advance(slot)
    ring.drain(slot)


@tile.jit
def load_resident(ctx: Any) -> None:
    rows, weights, steps = ctx.rows, ctx.weights, ctx.plan.problem.steps
    slot, held = rows.start(), weights.start()
    for k in range(steps):
        weights.acquire(held)
        ctx.load(ctx.weight, weights, held, ctx.rank, k)
        held = weights.advance(held)
    for index in range(ctx.first, ctx.tiles, ctx.step):
        for k in range(steps):
            rows.acquire(slot)
            ctx.load(ctx.x, rows, slot, index, k)
            slot = rows.advance(slot)
    rows.drain(slot)
    weights.drain(held)
