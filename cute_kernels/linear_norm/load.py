"""The load role of linear_norm, the same on every generation.

load      1 warp        fills the ring: a stage of x and weight for each step of K, up to `stages` steps ahead, on through the ends of tiles
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
