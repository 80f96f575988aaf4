"""Products on the tensor cores as one worker sees them, and tensor memory. All are pending until a wait covers them."""

from functools import partial
from typing import Any

import numpy as np

from cute_kernels.plan import Product as ProductPlan
from cute_kernels.simulator.engine import Queue, Worker
from cute_kernels.simulator.fragments import Fragment
from cute_kernels.simulator.memory import Tile

Tiles = tuple[Tile, ...]


class Product:
    """What both generations share: the operands' tiles, and the FLOPs of one product."""

    def __init__(self, worker: Worker, spec: ProductPlan) -> None:
        cta, (rows, columns, depth) = worker.cta, spec.tile
        self.worker, self.events = worker, cta.events
        self.a, self.b = cta.buffer(spec.a, worker.member), cta.buffer(spec.b, worker.member)
        self.shape, self.flops = (rows, columns), 2 * rows * columns * depth
        first = cta.plan.share(spec, worker.member) * rows
        self.mine = slice(first, first + rows)
        self.valid = inside(worker, columns)

    def operands(self, slot: Any, other: Any, queue: Queue) -> tuple[Tiles, Tiles]:
        """The tiles of a stage, or of two, which the next product of the queue will read."""
        a, b = self.a[slot.index], self.b[(other or slot).index]
        for tile in (*a, *b):
            self.events.will_read(self.worker, queue, tile)
        self.events.multiplies(self.worker, self.flops)
        return a, b

    def run(self, accumulator: Any, a: Tiles, b: Tiles, fresh: bool) -> None:
        """The product itself, from the bytes that are there now, in float32."""
        rows, columns = whole(a)[self.mine], whole(b).T
        if fresh:
            np.matmul(rows, columns, out=accumulator)
        else:
            accumulator += rows @ columns


def whole(tiles: Tiles) -> Any:
    """A stage's values, those of several CTAs' shares one below the other."""
    return tiles[0].values if len(tiles) == 1 else np.concatenate([tile.values for tile in tiles])


def inside(worker: Worker, columns: int) -> int:
    """How many of a CTA's columns the result has; the others only fill up the last CTAs of a cluster."""
    return min(max(worker.cta.plan.width - worker.cta.rank * columns, 0), columns)


class WarpgroupProduct(Product):
    """Hopper: a warpgroup's products finish in order; the accumulator is the member's own registers."""

    def __init__(self, worker: Worker, spec: ProductPlan) -> None:
        super().__init__(worker, spec)
        self.queue = Queue(worker.engine, worker.cta.units["tensor core"], f"the products of {worker.name}")
        worker.queues.append(self.queue)

    def accumulator(self) -> Fragment:
        return Fragment(self.worker, np.full(self.shape, np.nan, np.float32), self.valid, self.queue)

    def multiply(self, accumulator: Fragment, slot: Any, fresh: Any = False, other: Any = None) -> None:
        worker, queue = self.worker, self.queue
        worker.step("multiply")
        a, b = self.operands(slot, other, queue)
        self.events.accumulates(worker, accumulator, fresh)
        accumulator.filled = True
        queue.issue(partial(self.run, accumulator.array, a, b, bool(fresh)), "product", self.flops)
        accumulator.product = queue.issued

    def wait(self, pending: int) -> None:
        queue, worker = self.queue, self.worker
        worker.step("wait for products")
        queue.until(worker, queue.issued - pending)
        self.events.settled(worker, queue)


class TensorProduct(Product):
    """Blackwell: one thread issues to the CTA's tensor core, which accumulates in tensor memory."""

    def multiply(self, accumulator: Any, slot: Any, fresh: Any = False, other: Any = None) -> None:
        worker, queue = self.worker, self.worker.cta.tensor_queue
        worker.step("multiply")
        a, b = self.operands(slot, other, queue)
        (into,) = worker.cta.tensor_memory.tiles[accumulator.index]
        self.events.will_accumulate(worker, queue, into, bool(fresh))
        queue.issue(partial(self.run, into.array, a, b, bool(fresh)), "product", self.flops)


class TensorMemory:
    """The accumulators, for whoever reads or frees them. `columns` are those of a part."""

    def __init__(self, worker: Worker, columns: int) -> None:
        self.worker, self.events, self.columns = worker, worker.cta.events, columns
        self.memory = worker.cta.tensor_memory
        self.valid = inside(worker, worker.cta.plan.products[0].tile[1])

    def read(self, slot: Any, part: int) -> Fragment:
        (tile,) = self.memory.tiles[slot.index]
        self.worker.step("tmem read", tile.array.shape[0] * self.columns // self.worker.role.threads)
        self.events.reads(self.worker, tile)
        first = part * self.columns
        values = tile.array[:, first : first + self.columns].copy()
        return Fragment(self.worker, values, min(max(self.valid - first, 0), self.columns))

    def free(self) -> None:
        self.worker.step("free")
        self.events.frees(self.worker, self.memory)
        self.memory.freed += 1
