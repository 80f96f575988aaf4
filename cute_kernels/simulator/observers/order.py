"""Happens-before, by vector clocks: finds a missing wait, release, acquire or fence whatever order the strategy happened to take.

A clock has a component for each worker, each in-order queue (how many of its operations are known to be done), each full
barrier (how many of its phases) and each worker's fences. A worker that passes a wait learns what those who arrived knew.
An access is in order if the clock of whoever makes it covers every access it must come after. Clusters share no memory,
so each has clocks of its own. Component 0 stands for nothing and is always covered.
"""

from collections import deque
from typing import Any

import numpy as np

from cute_kernels.simulator import faults
from cute_kernels.simulator.memory import Tile

join = np.maximum
UNORDERED = -1  # no component: copies and letters finish in any order


class Order:
    """Watches barriers, queues and tiles. It keeps its notes on them, in attributes only it reads."""

    def start(self, cluster: Any) -> None:
        """Give everything its component, and everybody a clock of zeros."""
        workers = [worker for cta in cluster.ctas for worker in cta.workers]
        queues = [queue for cta in cluster.ctas for queue in cta.queues]
        barriers = [barrier for cta in cluster.ctas for barrier in cta.barriers]
        self.name_components(workers, queues, barriers)
        size = 1 + 2 * len(workers) + len(queues) + len(barriers)
        for worker in workers:
            worker.clock, worker.epoch = np.zeros(size, np.int64), 1
            worker.clock[worker.component] = 1
        for queue in queues:
            queue.commits = deque()
        for barrier in barriers:
            barrier.gathered, barrier.known = np.zeros(size, np.int64), np.zeros(size, np.int64)
            barrier.remote, barrier.committed = {}, 0

    def name_components(self, workers: list[Any], queues: list[Any], barriers: list[Any]) -> None:
        """Number them. `what` lets a message say whose component was not covered."""
        for component, thing in enumerate([*workers, *queues, *barriers], start=1):
            thing.component = component
        first = 1 + len(workers) + len(queues) + len(barriers)
        for i, worker in enumerate(workers):
            worker.fences = first + i
        what = {t.component: t.name for t in [*workers, *barriers]} | {q.component: q.label for q in queues}
        for worker in workers:
            worker.names = what

    # What a worker learns

    def waits(self, worker: Any, barrier: Any, parity: int) -> None:
        if parity and barrier.fills and not worker.clock.item(barrier.component):
            raise faults.WrongParity(
                f"parity 1 for the first phase of {barrier.name}, which is 0: such a wait is over at once", worker
            )

    def waited(self, worker: Any, barrier: Any) -> None:
        join(worker.clock, barrier.known, out=worker.clock)

    def settled(self, worker: Any, queue: Any) -> None:
        worker.clock[queue.component] = queue.settled

    def fenced(self, worker: Any) -> None:
        worker.clock[worker.fences] += 1

    # What it tells

    def arrives(self, worker: Any, barrier: Any) -> None:
        if barrier.cta.gone:
            raise faults.EarlyExit(f"{barrier.name} is arrived on after its CTA has left", worker)
        join(barrier.gathered, worker.clock, out=barrier.gathered)
        if barrier.cta is not worker.cta:
            barrier.remote[worker] = worker.epoch
        worker.epoch += 1
        worker.clock[worker.component] = worker.epoch

    def commits(self, worker: Any, queue: Any) -> None:
        clock = worker.clock.copy()
        clock[queue.component] = queue.issued
        queue.commits.append(clock)

    def committed(self, queue: Any, barrier: Any) -> None:
        join(barrier.gathered, queue.commits.popleft(), out=barrier.gathered)
        barrier.committed = barrier.phases + 1

    def completed(self, barrier: Any) -> None:
        known = barrier.known
        barrier.known = barrier.gathered
        barrier.gathered = known
        known.fill(0)
        barrier.known[barrier.component] = barrier.phases

    # Accesses

    def reads(self, worker: Any, tile: Tile) -> None:
        if worker.clock.item(tile.writer) < tile.written:
            raise unarrived(worker, tile)
        tile.readers[worker.component] = worker.epoch
        tile.unfenced[worker.fences] = worker.clock.item(worker.fences) + 1

    def writes(self, worker: Any, tile: Tile) -> None:
        self.may_write(worker, tile, worker.component)
        tile.unfenced.clear()
        tile.writer, tile.written = worker.component, worker.epoch
        tile.by, tile.fence, tile.fenced = worker, worker.fences, worker.clock.item(worker.fences) + 1

    def will_read(self, worker: Any, queue: Any, tile: Tile) -> None:
        item = worker.clock.item
        if item(tile.writer) < tile.written:
            raise unarrived(worker, tile)
        if item(tile.fence) < tile.fenced:
            raise faults.MissingFence(f"{tile.name} is read by {queue.label}, written by {tile.by.name}", worker)
        tile.readers[queue.component] = queue.issued + 1

    def will_write(self, worker: Any, barrier: Any, tile: Tile) -> None:
        if tile.cta.gone:
            raise faults.EarlyExit(f"{tile.name} is written after its CTA has left", worker)
        self.may_write(worker, tile, UNORDERED)
        self.may_cross(worker, tile)
        tile.writer, tile.written = barrier.component, barrier.phases + 1
        tile.by, tile.fence, tile.fenced = worker, 0, 0

    def will_accumulate(self, worker: Any, queue: Any, tile: Tile, fresh: bool) -> None:
        self.may_write(worker, tile, queue.component)
        tile.writer, tile.written, tile.by = queue.component, queue.issued + 1, worker

    def landed(self, barrier: Any, tile: Tile) -> None:
        if tile.writer == barrier.component and tile.written != barrier.phases + 1:
            raise faults.WrongPhase(
                f"{tile.name}: phase {barrier.phases} of {barrier.name}, sent for {tile.written - 1}", tile.by
            )

    def may_write(self, worker: Any, tile: Tile, writer: int) -> None:
        """Every earlier access must be known to be over; within one queue, or by one worker, order is given (`writer`)."""
        item = worker.clock.item
        if tile.writer != writer and item(tile.writer) < tile.written:
            raise faults.OverwriteBeforeArrival(f"{tile.name}, last written by {tile.by.name}", worker)
        if tile.readers:
            for component, epoch in tile.readers.items():
                if item(component) < epoch and component != writer:
                    raise faults.OverwriteBeforeRelease(
                        f"{tile.name} may still be read by {worker.names[component]}", worker
                    )
            tile.readers.clear()
        for other in tile.aliases:
            self.may_overlay(worker, tile, other)

    def may_cross(self, worker: Any, tile: Tile) -> None:
        """Ordinary accesses before an asynchronous write of the same bytes, under whatever name: an arrival alone does not hold the
        write back, the fence of whoever made them does."""
        item = worker.clock.item
        for each in (tile, *tile.aliases):
            if item(each.fence) < each.fenced:
                raise unfenced(worker, tile, f"stores to {each.name}")
            if any(item(fences) < epoch for fences, epoch in each.unfenced.items()):
                raise unfenced(worker, tile, f"loads of {each.name}")
        tile.unfenced.clear()

    def may_overlay(self, worker: Any, tile: Tile, other: Tile) -> None:
        """All that was done to the tile underneath must be over, too."""
        item = worker.clock.item
        busy = [c for c, epoch in [(other.writer, other.written), *other.readers.items()] if item(c) < epoch]
        if busy:
            names = ", ".join(worker.names[c] for c in busy)
            raise faults.OverlayClash(
                f"{tile.name} shares bytes with {other.name}, which {names} may still use", worker
            )

    # The end

    def released(self, worker: Any, tiles: tuple[Tile, ...]) -> None:
        for queue in worker.queues:
            settled, component = queue.settled, queue.component
            if queue.issued == settled:
                continue
            for tile in tiles:
                if tile.readers.get(component, 0) > settled:
                    raise faults.ReleaseInFlight(f"{tile.name} is still read by {queue.label}", worker)

    def frees(self, worker: Any, memory: Any) -> None:
        item = worker.clock.item
        for (tile,) in memory.tiles:
            for component, epoch in [(tile.writer, tile.written), *tile.readers.items()]:
                if item(component) < epoch and component != worker.component:
                    raise faults.UseAfterFree(f"{tile.name} may still be used by {worker.names[component]}", worker)

    def left(self, cta: Any) -> None:
        """All that reaches into the CTA must be over when its last role ends, not by luck but by order."""
        clock = cta.workers[0].clock
        for worker in cta.workers[1:]:
            clock = join(clock, worker.clock)
        last = cta.engine.running
        for barrier in cta.barriers:
            for worker, epoch in barrier.remote.items():
                if clock.item(worker.component) < epoch:
                    raise faults.EarlyExit(f"{worker.name} may still arrive on {barrier.name}", last)
            if clock.item(barrier.component) < barrier.committed:
                raise faults.EarlyExit(f"the tensor core may still arrive on {barrier.name} (no drain)", last)
        for tile in cta.tiles:
            for component, epoch in [(tile.writer, tile.written), *tile.readers.items()]:
                if clock.item(component) < epoch:
                    raise faults.EarlyExit(f"{tile.name} may still be used by {last.names[component]}", last)


def unarrived(worker: Any, tile: Tile) -> faults.Hazard:
    """The fault of a read that nothing orders after the write."""
    source, seen = worker.names[tile.writer], worker.clock.item(tile.writer)
    return faults.ReadBeforeArrival(
        f"{tile.name}, written by {tile.by.name}, completes as number {tile.written} of {source}; the reader has waited for {seen}",
        worker,
    )


def unfenced(worker: Any, tile: Tile, accesses: str) -> faults.Hazard:
    """The fault of an asynchronous write behind ordinary accesses that no fence follows."""
    return faults.MissingFence(f"{tile.name} is overwritten asynchronously after ordinary {accesses}", worker)
