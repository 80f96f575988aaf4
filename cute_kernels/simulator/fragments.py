"""Tiles in the registers of one member, in float32."""

from typing import Any

from cute_kernels.simulator.engine import Queue, Worker


class Fragment:
    """rows x columns of float32. Columns from `valid` on lie beyond the tensor and count in no sum.

    queue, product  the products that write it, and the last of them; until that one is waited for nobody may touch it
    """

    __slots__ = ("array", "filled", "parts", "product", "queue", "registers", "valid", "worker")

    def __init__(self, worker: Worker, array: Any, valid: int, queue: Queue | None = None) -> None:
        self.worker, self.array, self.valid, self.queue = worker, array, valid, queue
        self.product, self.filled = 0, queue is None
        self.parts: dict[int, Fragment] = {}
        self.registers = -(-array.size // worker.role.threads)
        worker.registers += self.registers
        worker.cta.events.holds(worker)

    def __del__(self) -> None:
        self.worker.registers -= self.registers

    def part(self, columns: slice) -> "View":
        """Some columns."""
        return View(self, columns)


class View:
    """Some columns of a fragment, in the same registers."""

    __slots__ = ("array", "of", "valid")

    def __init__(self, of: Fragment, columns: slice) -> None:
        self.of, self.array = of, of.array[:, columns]
        self.valid = min(max(of.valid - columns.start, 0), self.array.shape[1])

    @property
    def queue(self) -> Queue | None:
        return self.of.queue

    @property
    def product(self) -> int:
        return self.of.product

    @property
    def filled(self) -> bool:
        return self.of.filled
