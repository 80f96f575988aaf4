"""What a role program is called with on the GPU: the role's share of the plan, and the verbs."""

from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, cast

import cutlass.cute as cute

from cute_kernels import tile
from cute_kernels.device import fragments, product_sm90, product_sm100
from cute_kernels.device.memory import SharedMemory
from cute_kernels.device.rings import ClusterRing, Mail, Ring
from cute_kernels.device.staging import AccumulatorStaging, LaneStaging, Staging
from cute_kernels.device.tables import Table
from cute_kernels.device.tensors import BoxTensor, FragmentTensor, PartialTensor, RowVector, VectorTensor
from cute_kernels.device.traced import Traced
from cute_kernels.plan import Drain, Fill, Plan, Role
from cute_kernels.plan import Product as ProductPlan
from cute_kernels.plan import Ring as RingPlan
from cute_kernels.plan import Staging as StagingPlan
from cute_kernels.plan import Tensor as TensorPlan

arch = cute.arch
_TRACED: dict[Any, Any] = {}  # program -> its cute.jit form, made once


def for_tracing(program: Callable[..., Any]) -> Callable[..., Any]:
    """The program's code in a function of its own: the DSL rewrites what it traces in place, and the simulator runs the original."""
    function = cast(FunctionType, program)
    own = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    own.__module__, own.__qualname__, own.__kwdefaults__ = (
        function.__module__,
        function.__qualname__,
        function.__kwdefaults__,
    )
    return own


@dataclass(frozen=True)
class Launch(Traced):
    """What all roles of a CTA share: the plan, its memory, and the kernel's arguments by the plan's names."""

    plan: Plan
    memory: SharedMemory
    values: dict[str, Any]  # tensor name -> global tensor
    atoms: dict[str, tuple[Any, Any]]  # tensor name -> TMA atom and its coordinates
    rank: Any


class Context(Traced, tile.Walk):
    """The verbs of one member of a role, and what the plan gives it, by name."""

    def __init__(self, launch: Launch, role: Role, member: Any, m: Any) -> None:
        super().__init__(launch.plan, m, arch.block_idx()[0], arch.grid_dim()[0], launch.rank)
        self.launch, self.memory, self.role = launch, launch.memory, role
        self.m, self.member, self.members = m, member, role.members
        self.thread = (arch.thread_idx()[0] - 32 * launch.plan.roles.first_warp(role.name)) % role.threads
        self.row_map, self.part_columns = self.make_row_map(), self.columns_of_a_part()
        self.leads = self.row_map.replica < fragments.WARP
        self.add_rings()
        self.add_products()
        self.add_stagings()
        self.add_tensors()

    # -- what the plan gives the role -----------------------------------------------------------------------------

    def make_row_map(self) -> Any:
        """How the role's fragments lie over its threads."""
        plan = self.plan
        if any(p.role == self.role.name and not p.into for p in plan.products):
            return fragments.AccumulatorRows(self.thread)
        if plan.products:
            return fragments.LaneRows(self.thread)
        sums = self.memory.buffer("sums")[None, None, 0] if any(b.name == "sums" for b in plan.memory.buffers) else None
        first = self.barrier() + (1 if self.role.teams else 0)  # one row a member: its meetings are the member's
        return fragments.SharedRows(self.thread, self.role.threads // plan.rows, sums, first)

    def columns_of_a_part(self) -> int:
        """Columns of a part as the role stages it; 0 where it stages none."""
        mine = [self.plan.memory[s.buffer].shape[1] for s in self.plan.stagings if s.role == self.role.name]
        return mine[0] if mine else 0

    def add_rings(self) -> None:
        for ring, pointer in rings_of(self.plan, self.memory.barriers(), self.member):
            if self.role.name not in (ring.filled_by, ring.drained_by):
                continue
            if ring.fill is Fill.MAIL:
                letters = self.memory.buffer(ring.carries[0], self.member)
                setattr(self, ring.name, Mail(self.plan, ring, pointer, letters, self.row_map, self.thread))
            else:
                setattr(self, ring.name, self.kind_of(ring)(self.plan, ring, pointer))

    def kind_of(self, ring: RingPlan) -> type[Ring]:
        """By who is at its ends; of a ring without letters."""
        if ring.fill is Fill.MMA or (ring.drain is Drain.MMA and ring.drained_by == self.role.name):
            return product_sm100.TensorCoreRing
        return ClusterRing if ring.drain is Drain.PEERS else Ring

    def add_products(self) -> None:
        for product in self.plan.products:
            epilogue = any(r.fill is Fill.MMA and r.drained_by == self.role.name for r in self.plan.rings)
            if product.into and (epilogue or product.role == self.role.name):
                self.tmem = product_sm100.TensorMemory(product, self.memory, self.row_map, self.rank)
            if product.role == self.role.name:
                setattr(self, product.name, self.make_product(product))

    def make_product(self, product: ProductPlan) -> Any:
        if product.into:
            return product_sm100.Product(product, self.memory, self.tmem)
        return product_sm90.Product(product, self.memory, self.member, self.row_map, self.rank)

    def add_stagings(self) -> None:
        for staging in self.plan.stagings:
            if staging.role == self.role.name:
                setattr(self, staging.name, self.make_staging(staging))

    def make_staging(self, staging: StagingPlan) -> Staging:
        buffer, tiles = self.plan.memory[staging.buffer], self.memory.buffer(staging.buffer, self.member)
        product = next(p for p in self.plan.products)
        if product.into:
            return LaneStaging(buffer, tiles, self.thread, self.meet, staging.parts)
        mma = getattr(self, product.name).atom()
        return AccumulatorStaging(buffer, tiles, self.thread, self.meet, staging.parts, mma)

    def add_tensors(self) -> None:
        for tensor in self.plan.tensors:
            if tensor.buffer:
                each = self.plan.memory[tensor.buffer].each
                if each in ("", self.role.name):
                    stages = self.memory.buffer(tensor.buffer, self.member if each else 0)
                    setattr(
                        self,
                        tensor.name,
                        BoxTensor(self.plan, tensor, *self.launch.atoms[tensor.name], stages, self.rank),
                    )
            else:
                value = self.launch.values[tensor.name]
                setattr(self, tensor.name, self.thread_tensor(tensor, value))

    def thread_tensor(self, tensor: TensorPlan, value: Any) -> Any:
        """A tensor that threads move themselves, by what runs along its first extent."""
        if tensor.table:
            return Table(self.plan, tensor, value, self.row_map, self.rank)
        if tensor.extents == ("m",):
            return RowVector(tensor, value, self.row_map, self.rank)
        if isinstance(tensor.extents[0], str) and tensor.extents[0] != "m":
            shared = self.memory.buffer("columns")[None, None, 0] if self.plan.rows > 1 else None
            return PartialTensor(self.plan, tensor, value, self.row_map, shared, self.meet)
        kind = FragmentTensor if self.plan.products else VectorTensor
        return kind(self.plan, tensor, value, self.row_map)

    # -- the verbs ------------------------------------------------------------------------------------------------

    def bind(self, program: Callable[..., Any]) -> Callable[..., Any]:
        if program not in _TRACED:
            _TRACED[program] = cute.jit(for_tracing(program))
        return _TRACED[program]

    def meet(self) -> None:
        """All threads of the member, on a named barrier of its own."""
        arch.barrier(barrier_id=self.barrier(), number_of_threads=self.role.threads)

    def barrier(self) -> Any:
        """The member's named barrier; those of its teams follow."""
        return self.plan.roles.first_barrier(self.role.name) + self.member * (1 + self.role.teams)

    def load(self, tensor: BoxTensor, ring: Ring, slot: Any, row: Any, column: Any) -> None:
        box, stage = tensor.boxes[None, row, column], tensor.stages[None, slot.index]
        cute.copy(tensor.atom, box, stage, tma_bar_ptr=ring.full(slot), **tensor.to_all)

    def read(self, tensor: VectorTensor, row: Any, column: Any) -> Any:
        return tensor.read(row, column, self.m)

    def prefetch(self, tensor: VectorTensor, row: Any, column: Any) -> None:
        tensor.prefetch(row, column, self.m)

    def read_stage(self, tensor: BoxTensor, slot: Any) -> fragments.StageFragment:
        return fragments.StageFragment(tensor.tiles, slot.index, self.member, self.row_map)

    def read_columns(self, tensor: VectorTensor, column: Any) -> Any:
        return tensor.read_columns(column)

    def write(self, tensor: VectorTensor, row: Any, column: Any, fragment: Any) -> None:
        tensor.write(row, column, self.m, fragment)

    def part(self, fragment: Any, part: int) -> fragments.Part:
        return fragments.Part(fragment, part, self.part_columns)

    def row_sum(self, fragment: Any, function: Callable[..., Any], rows: Any = (), tiles: Any = ()) -> Any:
        return fragment.row_sum(function, rows, tiles)

    def row_sums(self, fragment: Any, function: Callable[..., Any], rows: Any = (), tiles: Any = ()) -> tuple[Any, ...]:
        return fragment.row_sums(function, rows, tiles)

    def apply(
        self, fragment: Any, function: Callable[..., Any], rows: Any = (), columns: Any = (), tiles: Any = ()
    ) -> Any:
        fragment.apply(function, rows, columns, tiles)
        return fragment

    def read_rows(self, tensor: RowVector, row: Any) -> Any:
        return tensor.read(row)

    def write_rows(self, tensor: RowVector, row: Any, rows: Any) -> None:
        tensor.write(row, rows)

    def read_table(self, tensor: Table, row: Any, first: int, count: int) -> tuple[Any, ...]:
        return tensor.read(row, first, count, self.m)

    def write_table(self, tensor: Table, row: Any, values: tuple[Any, ...]) -> None:
        tensor.write(row, self.m, values)

    def write_accumulator(self, tensor: Table, row: Any, accumulator: Any) -> None:
        tensor.write_accumulator(row, self.m, accumulator)

    def combine(self, function: Callable[..., Any], tiles: Any, rows: Any = ()) -> tuple[fragments.RowFragment, ...]:
        return fragments.combine(function, tiles, rows)

    def zero_columns(self, tensor: PartialTensor) -> fragments.ColumnSums:
        return fragments.ColumnSums((tensor.vector, tensor.chunks))

    def add_columns(
        self, columns: fragments.ColumnSums, fragment: Any, function: Callable[..., Any], tiles: Any = ()
    ) -> None:
        columns.add(fragment, function, tiles)

    def write_columns(self, tensor: PartialTensor, row: Any, column: Any, columns: fragments.ColumnSums) -> None:
        tensor.write_sums(row, column, columns)

    def zero_rows(self) -> Any:
        return fragments.zeros(self.row_map)

    def rsqrt(self, rows: Any) -> Any:
        return cute.math.rsqrt(rows)

    def reciprocal(self, rows: Any) -> Any:
        return cute.math.rcp(rows, approx=True, ftz=True)

    def exp(self, rows: Any) -> Any:
        return cute.math.exp(rows, fastmath=True)

    def maximum(self, one: Any, other: Any) -> Any:
        return cute.math.max(one, other)


def rings_of(plan: Plan, barriers: Any, member: Any) -> list[tuple[Any, Any]]:
    """Every ring with the pointer to its barriers: a ring that each member has lies member after member."""
    placed, offset = [], 0
    for ring in plan.rings:
        copies = plan.roles[ring.each].members if ring.each else 1
        placed.append((ring, barriers + offset + (member * 2 * ring.stages if copies > 1 else 0)))
        offset += 2 * ring.stages * copies
    return placed
