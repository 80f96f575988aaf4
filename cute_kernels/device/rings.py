"""Rings and mail on the GPU: mbarriers in shared memory, and letters through distributed shared memory.

The one decision on memory order across CTAs stands here: arrivals on a peer's barrier use the default scope, as CUTLASS's own
multicast pipelines do. An arrival of cluster scope is, on the chip, a fence over the whole GPU; at every stage it halved the speed.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32

from cute_kernels import tile
from cute_kernels.device.fragments import RowMap, pack, pick, select
from cute_kernels.device.traced import Slot, Traced
from cute_kernels.plan import Fill, Plan
from cute_kernels.plan import Ring as RingPlan

arch = cute.arch


class Ring(Traced, tile.RingProtocol):
    """The ring `ring` of the plan, on 2 x stages barriers: the full ones, then the empty ones."""

    def __init__(self, plan: Plan, ring: RingPlan, barriers: Any) -> None:
        self.plan, self.ring, self.barriers, self.stages = plan, ring, barriers, ring.stages

    def initialise(self) -> None:
        """Set the arrival counts the plan derives. One thread of the CTA."""
        for i in range(self.stages):
            arch.mbarrier_init(self.barriers + i, self.plan.full_arrivals(self.ring))
            arch.mbarrier_init(self.barriers + self.stages + i, self.plan.empty_arrivals(self.ring))

    def full(self, slot: Slot) -> Any:
        return self.barriers + slot.index

    def empty(self, slot: Slot) -> Any:
        return self.barriers + self.stages + slot.index

    def until(self, barrier: Any, phase: Any) -> None:
        arch.mbarrier_wait(barrier, phase)

    def start(self) -> Slot:
        return Slot(Int32(0), Int32(0))

    def advance(self, slot: Slot) -> Slot:
        following, wraps = slot.index + 1, slot.index + 1 == self.stages
        return Slot(Int32(select(wraps, Int32(0), following)), Int32(select(wraps, slot.phase ^ 1, slot.phase)))

    def skip(self, slot: Slot, count: Any) -> Slot:
        place = slot.index + count
        return Slot(Int32(place % self.stages), Int32(slot.phase ^ (place // self.stages & 1)))

    def announce(self, slot: Slot) -> None:
        if self.ring.fill not in (Fill.MMA, Fill.WARPS):
            with arch.elect_one():
                arch.mbarrier_arrive_and_expect_tx(self.full(slot), self.plan.stage_bytes(self.ring))

    def publish(self, slot: Slot) -> None:
        with arch.elect_one():
            arch.mbarrier_arrive(self.full(slot))

    def release(self, slot: Slot) -> None:
        with arch.elect_one():
            arch.mbarrier_arrive(self.empty(slot))


class ClusterRing(Ring):
    """A ring whose stages the CTAs of a cluster fill for each other: a stage is released to all of them."""

    def __init__(self, plan: Plan, ring: RingPlan, barriers: Any) -> None:
        super().__init__(plan, ring, barriers)
        self.lane = arch.lane_idx()

    @cute.jit
    def release(self, slot: Slot) -> None:
        if self.lane < self.plan.cluster:
            arch.mbarrier_arrive(self.empty(slot), self.lane)


class Mail(Ring):
    """A ring between the same member of the CTAs of a cluster, all of which fill and drain it."""

    def __init__(self, plan: Plan, ring: RingPlan, barriers: Any, letters: Any, rows: RowMap, thread: Any) -> None:
        super().__init__(plan, ring, barriers)
        self.letters, self.rows, self.rank = letters, rows, arch.make_warp_uniform(arch.block_idx_in_cluster())
        self.warp, self.lane = arch.make_warp_uniform(thread // 32), arch.lane_idx()

    @cute.jit
    def announce(self, slot: Slot) -> None:
        if self.warp == 0:
            with arch.elect_one():
                arch.mbarrier_arrive_and_expect_tx(self.full(slot), self.plan.stage_bytes(self.ring))

    @cute.jit
    def send(self, letter: Slot, rows: Any) -> None:
        """Shared out over the threads that hold the same row: each sends some of the row's letters."""
        count, cluster, replicas = self.rows.count, self.plan.cluster, self.rows.replicas
        values = [pick(rows, i, count) for i in range(count)]
        for i in cutlass.range_constexpr(count):
            place = self.place(self.rank, self.rows.row(i), letter)
            for peer in cutlass.range_constexpr(cluster):
                if self.rows.replica == (i * cluster + peer) % replicas:
                    arch.store_async_dsmem(place, Float32(values[i]).bitcast(Int32), self.full(letter), Int32(peer))

    def place(self, rank: Any, row: Any, letter: Slot) -> Any:
        return self.letters.iterator + self.letters.layout((rank, row, letter.index))

    def receive(self, letter: Slot) -> tuple[Any, ...]:
        rows = range(self.rows.count)
        return tuple(
            pack([self.letters[rank, self.rows.row(i), letter.index] for i in rows])
            for rank in range(self.plan.cluster)
        )

    def release(self, slot: Slot) -> None:
        # An arrival does not wait for loads of shared memory that another proxy is to overwrite: on the H200 copies overtook them.
        arch.fence_proxy("async.shared", space="cta")
        arch.sync_warp()  # all lanes have read
        self.release_to_peers(slot)

    @cute.jit
    def release_to_peers(self, slot: Slot) -> None:
        if self.lane < self.plan.cluster:
            arch.mbarrier_arrive(self.empty(slot), self.lane)
