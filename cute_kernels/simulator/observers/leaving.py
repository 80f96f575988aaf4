"""What a role, or a CTA, must not leave behind: stores and products in flight, half a phase, a stage never drained, tensor memory."""

from typing import Any

from cute_kernels.plan import Drain
from cute_kernels.simulator import faults


class Leaving:
    """Looks at the end of every program and of every CTA, and at tensor memory's one life."""

    def ended(self, worker: Any) -> None:
        for queue in worker.queues:
            if queue.settled < queue.issued:
                raise faults.LostTail(f"{queue.issued - queue.settled} of {queue.label} not waited for (drain)", worker)

    def left(self, cta: Any) -> None:
        last = cta.engine.running
        for copies in cta.rings.values():
            for stages in copies:
                self.finished(stages, last)
        if cta.tensor_memory and not cta.tensor_memory.freed:
            raise faults.TensorMemoryLeak(cta.tensor_memory.name, last)

    def finished(self, stages: Any, last: Any) -> None:
        """Every stage filled has been drained, and no barrier is in the middle of a phase. What others would still bring, in a
        ring that spans the cluster, comes too late."""
        fault = faults.EarlyExit if stages.ring.drain is Drain.PEERS else faults.LostTail
        for full, empty in zip(stages.full, stages.empty, strict=True):
            for barrier in (full, empty):
                if barrier.pending != barrier.expected or barrier.bytes:
                    lacks = f"{barrier.pending} of {barrier.expected} arrivals and {barrier.bytes} bytes"
                    raise fault(f"{barrier.name} is left in phase {barrier.phases}, which lacks {lacks}", last)
            if full.phases != empty.phases:
                raise fault(f"{full.name}: filled {full.phases} times, drained {empty.phases} times", last)

    def frees(self, worker: Any, memory: Any) -> None:
        if memory.freed:
            raise faults.DoubleFree(memory.name, worker)

    def reads(self, worker: Any, tile: Any) -> None:
        self.alive(worker, tile)

    def will_accumulate(self, worker: Any, queue: Any, tile: Any, fresh: bool) -> None:
        self.alive(worker, tile)

    def alive(self, worker: Any, tile: Any) -> None:
        """Tensor memory must not have been freed; shared memory has no offset below zero."""
        if tile.offset < 0 and tile.cta.tensor_memory.freed:
            raise faults.UseAfterFree(tile.name, worker)
