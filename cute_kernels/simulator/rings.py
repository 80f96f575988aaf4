"""Rings and mail as one worker sees them."""

from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np

from cute_kernels.plan import Drain, Fill
from cute_kernels.simulator.engine import Operation, Worker
from cute_kernels.simulator.grid import Cluster, Stages
from cute_kernels.simulator.memory import Barrier, Tile
from cute_kernels.tile import RingProtocol

Slot = namedtuple("Slot", "index phase")


class Ring(RingProtocol):
    """The verbs of a ring, on the barriers of the worker's own CTA; a release may go to those of its peers too."""

    def __init__(self, cluster: Cluster, worker: Worker, name: str) -> None:
        mine = worker.cta
        ring = mine.plan.ring(name)
        member = worker.member if ring.each else 0
        self.worker, self.events, self.ring = worker, mine.events, ring
        self.mine: Stages = mine.rings[name][member]
        self.everywhere: list[Stages] = [cta.rings[name][member] for cta in cluster.ctas]
        self.released = self.everywhere if ring.drain is Drain.PEERS else [self.mine]
        self.stages, self.stage_bytes, self.warps = ring.stages, mine.plan.stage_bytes(ring), worker.role.warps
        self.slots = [Slot(i, phase) for phase in (0, 1) for i in range(self.stages)]

    def start(self) -> Slot:
        return Slot(0, 0)

    def advance(self, slot: Slot) -> Slot:
        return self.slots[(slot.phase * self.stages + slot.index + 1) % (2 * self.stages)]

    def skip(self, slot: Slot, count: int) -> Slot:
        return self.slots[(slot.phase * self.stages + slot.index + count) % (2 * self.stages)]

    def full(self, slot: Slot) -> Barrier:
        return self.mine.full[slot.index]

    def empty(self, slot: Slot) -> Barrier:
        return self.mine.empty[slot.index]

    def until(self, barrier: Barrier, phase: int) -> None:
        worker = self.worker
        worker.step("wait")
        self.events.waits(worker, barrier, phase)
        if barrier.phases & 1 == phase:
            barrier.until(worker, phase)
        self.events.waited(worker, barrier)

    def announce(self, slot: Slot) -> None:
        if self.ring.fill not in (Fill.MMA, Fill.WARPS):
            barrier = self.mine.full[slot.index]
            self.events.arrives(self.worker, barrier)
            barrier.arrive(self.worker.name, 1, self.stage_bytes)

    def publish(self, slot: Slot) -> None:
        worker, barrier = self.worker, self.mine.full[slot.index]
        worker.step("publish")
        self.events.arrives(worker, barrier)
        barrier.arrive(worker.name, self.warps)

    def release(self, slot: Slot) -> None:
        worker, index = self.worker, slot.index
        worker.step("release")
        self.events.released(worker, self.mine.tiles[index])
        for stages in self.released:
            barrier = stages.empty[index]
            self.events.arrives(worker, barrier)
            barrier.arrive(worker.name, self.warps)

    def release_after_mma(self, slot: Slot) -> None:
        self.worker.step("release_after_mma")
        self.events.released(self.worker, self.mine.tiles[slot.index])
        self.commit(self.mine.empty[slot.index], "release")

    def publish_after_mma(self, slot: Slot) -> None:
        self.worker.step("publish_after_mma")
        self.commit(self.mine.full[slot.index], "publish")

    def commit(self, barrier: Barrier, name: str) -> None:
        """An arrival behind the products issued so far."""
        queue = self.worker.cta.tensor_queue
        self.events.commits(self.worker, queue)

        def arrive() -> None:
            self.events.committed(queue, barrier)
            barrier.arrive(queue.label, 1)

        queue.issue(arrive, name, 0)


class Mail(Ring):
    """A ring between the same member of the CTAs of a cluster."""

    def send(self, letter: Slot, rows: Any) -> None:
        worker, rank = self.worker, self.worker.cta.rank
        worker.step("send")
        values = np.array(rows, np.float32)
        for stages in self.everywhere:
            barrier, tile = stages.full[letter.index], stages.tiles[letter.index][rank]
            self.events.will_write(worker, barrier, tile)
            unit = worker.cta.units["DSMEM"]
            worker.engine.add(Operation(unit, "letter", tile.bytes, partial(self.deliver, barrier, tile, values)))

    def deliver(self, barrier: Barrier, tile: Tile, values: Any) -> None:
        """A letter arrives."""
        tile.fill(values)
        self.events.landed(barrier, tile)
        barrier.land(tile.bytes)

    def release(self, slot: Slot) -> None:
        self.events.fenced(self.worker)
        super().release(slot)

    def receive(self, letter: Slot) -> tuple[Any, ...]:
        worker = self.worker
        worker.step("receive")
        tiles = self.mine.tiles[letter.index]
        for tile in tiles:
            self.events.reads(worker, tile)
        return tuple(tile.array.copy() for tile in tiles)
