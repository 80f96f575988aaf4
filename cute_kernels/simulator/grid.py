"""CTAs, clusters and the grid: what a plan says, made into state, and a coroutine for every member of every role."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cute_kernels.plan import Drain, Fill, Plan, Ring, Role
from cute_kernels.simulator.engine import UNITS, Engine, Queue, Unit, Worker
from cute_kernels.simulator.events import Events
from cute_kernels.simulator.memory import Barrier, GlobalTensor, SharedMemory, TensorMemory, Tile


@dataclass(frozen=True, eq=False)
class Stages:
    """A ring's state in one CTA (for one member, where each has its own): two barriers and the tiles of every stage."""

    ring: Ring
    full: tuple[Barrier, ...]
    empty: tuple[Barrier, ...]
    tiles: tuple[tuple[Tile, ...], ...]
    buffers: dict[str, list[tuple[Tile, ...]]]  # the same by the buffers that the ring carries

    def tiles_of(self, buffer: str, stage: int) -> tuple[Tile, ...]:
        """The tiles of one buffer in a stage."""
        return self.buffers[buffer][stage]


class Cta:
    """One CTA: its memories, barriers, units of hardware and workers."""

    def __init__(self, grid: "Grid", number: int) -> None:
        self.plan, self.number, self.rank = grid.plan, number, number % grid.plan.cluster
        self.engine, self.events, self.gone = grid.engine, grid.events, False
        mail = {name for ring in self.plan.rings if ring.fill is Fill.MAIL for name in ring.carries}
        shares = {tensor.buffer for tensor in self.plan.tensors if tensor.shared}
        self.shared = SharedMemory(self, self.plan, frozenset(mail), frozenset(shares))
        self.tensor_memory = TensorMemory(self, self.plan) if self.plan.memory.tensor_memory else None
        self.units = {kind: Unit(number, number // self.plan.cluster, kind) for kind in UNITS}
        self.tensor_queue = Queue(self.engine, self.units["tensor core"], f"the tensor core of CTA {number}")
        self.rings = {ring.name: self.stages(ring) for ring in self.plan.rings}
        self.workers = [Worker(self.engine, self, role, i) for role in self.plan.roles for i in range(role.members)]
        self.working = len(self.workers)

    def stages(self, ring: Ring) -> list[Stages]:
        """The ring, once or for each member."""
        members = self.plan.roles[ring.each].members if ring.each else 1
        return [self.stages_of(ring, member) for member in range(members)]

    def stages_of(self, ring: Ring, member: int) -> Stages:
        plan, label = self.plan, ring.name + (f" of {ring.each} {member}" if ring.each else "")
        come = awaited(plan, ring, member)
        turns = range(ring.stages)
        full = (Barrier(self, f"{label}[{i}] full", plan.full_arrivals(ring), True, come[0]) for i in turns)
        empty = (Barrier(self, f"{label}[{i}] empty", plan.empty_arrivals(ring), False, come[1]) for i in turns)
        buffers = {name: self.buffer(name, member) for name in ring.carries if name in self.shared.tiles}
        return Stages(ring, tuple(full), tuple(empty), tuple(self.carried(ring, member, i) for i in turns), buffers)

    def carried(self, ring: Ring, member: int, stage: int) -> tuple[Tile, ...]:
        """The tiles of one stage of a ring."""
        tiles: tuple[Tile, ...] = ()
        for name in ring.carries:
            if name in self.shared.tiles:
                tiles += self.buffer(name, member)[stage]
            elif self.tensor_memory:
                tiles += self.tensor_memory.tiles[stage]
        return tiles

    def buffer(self, name: str, member: int) -> list[tuple[Tile, ...]]:
        """The stages of a buffer, this member's where each has its own."""
        return self.shared.tiles[name][member if self.plan.memory[name].each else 0]

    @property
    def barriers(self) -> list[Barrier]:
        """All of them."""
        return [b for copies in self.rings.values() for stages in copies for b in (*stages.full, *stages.empty)]

    @property
    def tiles(self) -> list[Tile]:
        """Those of shared and of tensor memory."""
        shared = [tile for name in self.shared.tiles for tile in self.shared.all(name)]
        return shared + [tile for tiles in (self.tensor_memory.tiles if self.tensor_memory else ()) for tile in tiles]

    @property
    def queues(self) -> list[Queue]:
        """Those of its workers, and the tensor core's."""
        return [self.tensor_queue, *(queue for worker in self.workers for queue in worker.queues)]


class Cluster:
    """CTAs that share memory. Clusters share nothing but global memory, so each starts and ends on its own."""

    def __init__(self, grid: "Grid", number: int) -> None:
        size = grid.plan.cluster
        self.plan, self.grid = grid.plan, grid
        self.ctas = [Cta(grid, number * size + rank) for rank in range(size)]

    def start(self) -> None:
        """Bind every worker to its program and hand it to the strategy."""
        workers = [worker for cta in self.ctas for worker in cta.workers]
        contexts = [self.grid.context(self, worker) for worker in workers]
        self.grid.events.start(self)
        for worker, context in zip(workers, contexts, strict=True):
            worker.start(self.live(worker, context))
            self.grid.engine.begin(worker)

    def live(self, worker: Worker, context: Any) -> Callable[[], None]:
        """A worker's whole life."""

        def _live() -> None:
            worker.role.program(context)
            self.grid.events.ended(worker)
            self.grid.engine.end(worker)
            worker.cta.working -= 1
            if not worker.cta.working:
                self.grid.events.left(worker.cta)
                worker.cta.gone = True
                if all(cta.gone for cta in self.ctas):
                    self.grid.start_next()

        return _live


class Grid:
    """All CTAs of a launch, so many clusters at once as the machine is given room for."""

    def __init__(
        self, plan: Plan, engine: Engine, events: Events, tensors: dict[str, GlobalTensor], context: Any
    ) -> None:
        self.plan, self.engine, self.events, self.tensors = plan, engine, events, tensors
        self.make_context = context
        self.waiting: list[int] = []

    def launch(self, m: int, blocks: int, at_once: int) -> None:
        """Start the first clusters; the others follow as these end."""
        self.m, self.blocks = m, blocks
        self.waiting = list(range(blocks // self.plan.cluster))[::-1]
        for _ in range(min(at_once, len(self.waiting))):
            self.start_next()

    def start_next(self) -> None:
        """One more cluster, if any is left."""
        if self.waiting:
            Cluster(self, self.waiting.pop()).start()

    def context(self, cluster: Cluster, worker: Worker) -> Any:
        return self.make_context(self, cluster, worker)


def awaited(plan: Plan, ring: Ring, member: int) -> tuple[Callable[[], str], Callable[[], str]]:
    """Who should arrive on the full and the empty barriers of a ring, in words; made only for a message."""

    def each(role: Role) -> str:
        if ring.each:
            return f"{role.name} {member}"
        return ", ".join(f"{role.name} {i}" if role.members > 1 else role.name for i in range(role.members))

    def full() -> str:
        filler = plan.roles[ring.filled_by]
        if ring.fill is Fill.MMA:
            return f"{filler.name}'s products (publish_after_mma)"
        if ring.fill is Fill.WARPS:
            return f"{each(filler)} (publish, {filler.warps} each)"
        source = "its copies" if ring.fill is Fill.TMA else f"the letters of {plan.cluster} CTAs"
        return f"{each(filler)} (acquire), then {plan.stage_bytes(ring)} bytes of {source}"

    def empty() -> str:
        drainer = plan.roles[ring.drained_by]
        if ring.drain is Drain.MMA:
            return f"{drainer.name}'s products (release_after_mma)"
        everywhere = f" of {plan.cluster} CTAs" if ring.drain is Drain.PEERS else ""
        return f"{each(drainer)}{everywhere} (release, {drainer.warps} each)"

    return full, empty
