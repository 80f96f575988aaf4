"""Small programs with one flaw each, to put in place of a kernel's own: what the simulator must find, and what it must let pass."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from cute_kernels.linear_norm.plan import Tiling
from cute_kernels.plan import SM100A, Memory, Plan, Ring
from tests.simulator.kernels import TINY, Kernel, linear_norm, with_programs

SMALL = replace(TINY, stages_most=2)


def with_plan(kernel: Kernel, plan: Plan) -> Kernel:
    return Kernel(plan, kernel.arrays, kernel.answers)


def loads(flaw: str) -> Callable[[Any], None]:
    """The load role of linear_norm."""

    def load(ctx: Any) -> None:
        ring = ctx.operands
        slot = ring.start()
        for index in range(ctx.first, ctx.tiles, ctx.step):
            for k in range(ctx.plan.problem.steps):
                if flaw != "no acquire":
                    ring.acquire(slot)
                row = index + 100 * (flaw == "row out of bounds")
                ctx.load(ctx.x, ring, slot, row, k + 50 * (flaw == "column out of bounds"))
                if flaw != "one copy short":
                    ctx.load(ctx.weight, ring, slot, ctx.rank, k)
                if flaw == "one copy too many":
                    ctx.load(ctx.weight, ring, slot, ctx.rank, k)
                slot = ring.advance(slot)
        if flaw == "one stage too many":
            ring.acquire(slot)
            ctx.load(ctx.x, ring, slot, 0, 0)
            ctx.load(ctx.weight, ring, slot, ctx.rank, 0)

    return load


def multiplies(flaw: str) -> Callable[[Any], None]:
    """The multiply role of linear_norm on Hopper, without the norm; waits for each product at once."""

    def multiply(ctx: Any) -> None:
        ring, product, staging = ctx.operands, ctx.product, ctx.staging
        accumulator = product.accumulator()
        spare = [product.accumulator() for _ in range(800 * (flaw == "many accumulators"))]
        slot = ring.start()
        if flaw == "early touch":
            ctx.row_sum(accumulator, lambda v: v)
        for index in range(ctx.first, ctx.tiles, ctx.step):
            for k in range(ctx.plan.problem.steps):
                if flaw == "wrong parity":
                    ring.until(ring.full(slot), slot.phase ^ 1)
                elif "no wait" not in flaw:
                    ring.wait(slot)
                product.multiply(accumulator, slot, fresh=k == 0 and flaw != "never fresh")
                if flaw == "touch in flight":
                    ctx.row_sum(accumulator, lambda v: v)
                if flaw != "release in flight":
                    product.wait(0)
                if "no release" not in flaw and (flaw != "release in half" or ctx.member == 0):
                    ring.release(slot)
                if flaw == "stale slot":
                    product.multiply(accumulator, slot)
                    product.wait(0)
                if flaw == "double release":
                    ring.release(slot)
                slot = ring.advance(slot)
            store(ctx, staging, accumulator, index, flaw)
        if flaw != "no staging drain":
            staging.drain()
        del spare

    return multiply


def store(ctx: Any, staging: Any, accumulator: Any, index: int, flaw: str) -> None:
    """The epilogue."""
    for part in staging.parts:
        if flaw == "parts not stored" and part > 1:
            continue
        staging.acquire()
        staging.put(part, ctx.part(accumulator, part))
        if flaw != "no publish":
            staging.publish()
        column = 0 if flaw == "same place" else part
        staging.store(ctx.y, part, index * ctx.members + ctx.member, column)


def flawed(flaw: str, m: int = 60, k: int = 32) -> Kernel:
    """linear_norm on Hopper in one CTA a row, its programs simplified and with one flaw."""
    kernel = linear_norm(m=m, k=k, n=16, tiling=SMALL)
    return with_plan(kernel, with_programs(kernel.plan, load=loads(flaw), multiply=multiplies(flaw)))


def miscounted(kernel: Kernel, arrivals: int = 0, announced: int = 0) -> Kernel:
    """Its plan, but with so many more arrivals on the operand ring's empty barriers, or bytes announced on its full ones."""

    class Miscounted(Plan):
        def empty_arrivals(self, ring: Ring) -> int:
            return super().empty_arrivals(ring) + arrivals * (ring.name == "operands")

        def stage_bytes(self, ring: Ring) -> int:
            return super().stage_bytes(ring) + announced * (ring.name == "operands")

    return with_plan(kernel, Miscounted(**{f.name: getattr(kernel.plan, f.name) for f in fields(Plan)}))


def overlaid(m: int) -> Kernel:
    """linear_norm on Blackwell with the parts on their way out laid over the operands: right while a CTA has one tile only."""
    kernel = linear_norm(m=m, n=16, target=SM100A)
    lives = {"x_tiles": "", "parts": "x_tiles"}
    buffers = tuple(
        replace(b, live=("epilogue",) if b.name == "parts" else ("mainloop",), over=lives[b.name])
        if b.name in lives
        else b
        for b in kernel.plan.memory.buffers
    )
    memory: Memory = replace(kernel.plan.memory, buffers=buffers)
    return with_plan(kernel, replace(kernel.plan, memory=memory))


def blackwell(flaw: str, tiling: Tiling = TINY) -> Kernel:
    """linear_norm on Blackwell with one flaw in how its multiply role treats tensor memory."""

    def multiply(ctx: Any) -> None:
        ring, accumulators, product = ctx.operands, ctx.accumulators, ctx.product
        slot, turn = ring.start(), accumulators.start()
        for _index in range(ctx.first, ctx.tiles, ctx.step):
            accumulators.acquire(turn)
            for k in range(ctx.plan.problem.steps):
                ring.wait(slot)
                product.multiply(turn, slot, fresh=k == 0 and flaw != "never fresh")
                if flaw == "release at once":
                    ring.release(slot)
                else:
                    ring.release_after_mma(slot)
                slot = ring.advance(slot)
            accumulators.publish_after_mma(turn)
            turn = accumulators.advance(turn)
        for _ in range({"not freed": 0, "freed twice": 2}.get(flaw, 1)):
            if flaw != "freed early":
                accumulators.drain(turn)
            ctx.tmem.free()

    kernel = linear_norm(target=SM100A, tiling=tiling)
    return with_plan(kernel, with_programs(kernel.plan, multiply=multiply))
