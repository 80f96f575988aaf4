"""Stagings as one worker sees them: parts go from registers through its own buffers to global memory, by TMA."""

from functools import partial
from typing import Any

from cute_kernels.plan import Staging as StagingPlan
from cute_kernels.simulator.engine import Queue, Worker
from cute_kernels.simulator.memory import GlobalTensor, Tile


class Staging:
    """The verbs of a staging. Part p goes through buffer p modulo their number; stores finish in order."""

    def __init__(self, worker: Worker, spec: StagingPlan) -> None:
        cta = worker.cta
        self.worker, self.events, self.parts = worker, cta.events, tuple(range(spec.parts))
        self.tiles = [tile for (tile,) in cta.buffer(spec.buffer, worker.member)]
        self.queue = Queue(worker.engine, cta.units["TMA store"], f"the stores of {worker.name}")
        worker.queues.append(self.queue)
        self.elements = self.tiles[0].array.size // worker.role.threads

    def tile(self, part: int) -> Tile:
        """Where a part is staged."""
        return self.tiles[part % len(self.tiles)]

    def acquire(self) -> None:
        self.worker.step("staging acquire")
        self.settle(self.queue.issued - len(self.tiles) + 1)

    def put(self, part: int, fragment: Any) -> None:
        self.worker.step("put", self.elements)
        tile = self.tile(part)
        self.events.touches(self.worker, fragment)
        self.events.writes(self.worker, tile)
        tile.fill(fragment.array)

    def publish(self) -> None:
        self.worker.step("staging publish")
        self.events.fenced(self.worker)

    def store(self, tensor: GlobalTensor, part: int, row: int, column: int) -> None:
        self.worker.step("store")
        tile = self.tile(part)
        target = tensor.part(row, column)
        self.events.will_read(self.worker, self.queue, tile)
        self.events.box(self.worker, tensor, (row, column), target.size, True)
        self.queue.issue(partial(self.copy, tile.array, target), f"store {tensor.name}", tile.bytes)

    @staticmethod
    def copy(source: Any, target: Any) -> None:
        rows, columns = target.shape
        target[...] = source[:rows, :columns]

    def drain(self) -> None:
        self.worker.step("staging drain")
        self.settle(self.queue.issued)

    def settle(self, count: int) -> None:
        """Wait until so many stores have read their buffers."""
        if count > 0:
            self.queue.until(self.worker, count)
            self.events.settled(self.worker, self.queue)
