"""What a program is called with in the simulator: the verbs, and by the plan's names what the worker's role may use."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cute_kernels.plan import Fill, Plan
from cute_kernels.simulator.engine import Operation, Worker
from cute_kernels.simulator.fragments import Fragment
from cute_kernels.simulator.grid import Cluster, Grid
from cute_kernels.simulator.memory import Barrier, GlobalTensor, Tile
from cute_kernels.simulator.products import TensorMemory, TensorProduct, WarpgroupProduct
from cute_kernels.simulator.rings import Mail, Ring
from cute_kernels.simulator.staging import Staging
from cute_kernels.tile import Walk


class Context(Walk):
    """The verbs of one worker."""

    def __init__(self, grid: Grid, cluster: Cluster, worker: Worker) -> None:
        super().__init__(grid.plan, grid.m, worker.cta.number, grid.blocks, worker.cta.rank)
        self.worker, self.events, self.cta = worker, grid.events, worker.cta
        self.member, self.members, self.threads = worker.member, worker.role.members, worker.role.threads
        self.beyond = np.float32("nan" if grid.plan.products else 0)  # what `read` gives beyond the tensor
        self.leads = True  # a member is one worker here
        self.part_columns = part_columns(grid.plan, worker.role.name)
        self.buffers = {t.name: self.cta.buffer(t.buffer, worker.member) for t in grid.plan.tensors if t.buffer}
        for name, thing in things(grid, cluster, worker, self.part_columns).items():
            setattr(self, name, thing)

    def bind(self, program: Callable[..., Any]) -> Callable[..., Any]:
        return program

    # Global memory

    def load(self, tensor: GlobalTensor, ring: Ring, slot: Any, row: int, column: int) -> None:
        worker, source, rank = self.worker, tensor.part(row, column), self.rank
        worker.step("load")
        if tensor.spec.shared:
            height = tensor.box[0] // self.plan.cluster
            source = source[rank * height : (rank + 1) * height]
            targets = [(stages, stages.tiles_of(tensor.spec.buffer, slot.index)[rank]) for stages in ring.everywhere]
        else:
            targets = [(ring.mine, self.buffers[tensor.name][slot.index][0])]
        self.events.box(worker, tensor, (row, column), source.size, False)
        for stages, tile in targets:
            barrier = stages.full[slot.index]
            self.events.will_write(worker, barrier, tile)
            name, box = f"load {tensor.name}", (tensor.name, row, column)
            arrive = partial(self.arrive, source, barrier, tile)
            worker.engine.add(Operation(tile.cta.units["TMA"], name, tile.bytes, arrive, box))

    def arrive(self, source: Any, barrier: Barrier, tile: Tile) -> None:
        """A copy's bytes are there. Those beyond the tensor are zeros, and count as bytes too."""
        target = tile.array
        if source.shape == target.shape:
            target[...] = source
        else:
            rows, columns = source.shape
            target[...] = 0
            target[:rows, :columns] = source
        tile.spoil()
        self.events.landed(barrier, tile)
        barrier.land(tile.bytes)

    def read(self, tensor: GlobalTensor, row: int, column: int) -> Fragment:
        source = tensor.part(row, column)
        values = np.full(tensor.box, self.beyond, np.float32)
        self.worker.step("read", values.size // self.threads, source.nbytes)
        self.events.box(self.worker, tensor, (row, column), source.size, False)
        rows, columns = source.shape
        values[:rows, :columns] = source
        return Fragment(self.worker, values, columns)

    def prefetch(self, tensor: GlobalTensor, row: int, column: int) -> None:
        self.worker.step("prefetch")

    def read_stage(self, tensor: GlobalTensor, slot: Any) -> Fragment:
        (tile,) = self.buffers[tensor.name][slot.index]
        rows = tile.array.shape[0] // self.members
        self.worker.step("read stage", rows * tile.array.shape[1] // self.threads)
        self.events.reads(self.worker, tile)
        self.events.fenced(self.worker)
        mine = slice(self.member * rows, (self.member + 1) * rows)
        return Fragment(self.worker, tile.values[mine].copy(), tile.array.shape[1])

    def read_columns(self, tensor: GlobalTensor, column: int) -> Any:
        (columns,) = tensor.box
        values = np.full(columns, self.beyond, np.float32)
        self.worker.step("read columns", columns // self.threads)
        source = tensor.array[column * columns : (column + 1) * columns]
        self.events.box(self.worker, tensor, (column,), source.size, False)
        values[: source.size] = source
        return values

    def write(self, tensor: GlobalTensor, row: int, column: int, fragment: Fragment) -> None:
        target = tensor.part(row, column)
        self.worker.step("write", fragment.array.size // self.threads, target.nbytes)
        self.events.touches(self.worker, fragment)
        self.events.box(self.worker, tensor, (row, column), target.size, True)
        rows, columns = target.shape
        target[...] = fragment.array[:rows, :columns]

    def read_rows(self, tensor: GlobalTensor, row: int) -> Any:
        (rows,) = tensor.box
        values = np.zeros(rows, np.float32)
        self.worker.step("read rows", 1)
        self.events.box(self.worker, tensor, (row,), rows, False)
        source = tensor.array[row * rows : (row + 1) * rows]
        values[: source.size] = source
        return values

    def write_rows(self, tensor: GlobalTensor, row: int, rows: Any) -> None:
        (height,) = tensor.box
        self.worker.step("write rows", 1)
        if self.rank == 0:
            target = tensor.array[row * height : (row + 1) * height]
            self.events.box(self.worker, tensor, (row,), target.size, True)
            target[...] = np.broadcast_to(rows, (height,))[: target.size]

    def read_table(self, tensor: GlobalTensor, row: int, first: int, count: int) -> tuple[Any, ...]:
        self.worker.step("read rows", count)
        source = tensor.rows_of_table(row)
        self.events.box(self.worker, tensor, tensor.start_in_table(row), source[..., first : first + count].size, False)
        values = np.zeros((tensor.height, count), np.float32)
        for split in source[..., first : first + count]:  # in their order
            values[: len(split)] += split
        return tuple(values.T.copy())

    def write_table(self, tensor: GlobalTensor, row: int, values: tuple[Any, ...]) -> None:
        self.worker.step("write rows", len(values))
        parts = len(tensor.box) == 3
        if parts or self.rank == 0:
            target = tensor.rows_of_table(row)[self.rank if parts else 0]
            self.events.box(self.worker, tensor, tensor.start_in_table(row, self.rank), target.size, True)
            for column, value in enumerate(values):
                target[:, column] = np.broadcast_to(value, (tensor.height,))[: len(target)]

    def write_accumulator(self, tensor: GlobalTensor, row: int, accumulator: Fragment) -> None:
        self.worker.step("write", accumulator.array.size // self.threads, tensor.rows_of_table(row)[self.rank].nbytes)
        self.events.touches(self.worker, accumulator)
        target = tensor.rows_of_table(row)[self.rank]
        self.events.box(self.worker, tensor, tensor.start_in_table(row, self.rank), target.size, True)
        rows, columns = target.shape
        pieces = accumulator.array[:rows].reshape(rows, accumulator.array.shape[1] // columns, columns)
        target[...] = np.add.reduce(pieces, axis=1, dtype=np.float32)

    def write_columns(self, tensor: GlobalTensor, row: int, column: int, columns: Any) -> None:
        target = tensor.part(row, column)
        self.worker.step("write columns", columns.size // self.threads, target.nbytes)
        self.events.box(self.worker, tensor, (row, column), target.size, True)
        target[0] = columns[: target.shape[1]]

    # Registers

    def part(self, fragment: Fragment, part: int) -> Any:
        return fragment.part(slice(part * self.part_columns, (part + 1) * self.part_columns))

    def row_sum(self, fragment: Fragment, function: Callable[..., Any], rows: Any = (), tiles: Any = ()) -> Any:
        return self.row_sums(fragment, lambda *values: (function(*values),), rows, tiles)[0]

    def row_sums(
        self, fragment: Fragment, function: Callable[..., Any], rows: Any = (), tiles: Any = ()
    ) -> tuple[Any, ...]:
        self.worker.step("row_sum", fragment.array.size // self.threads)
        for each in (fragment, *tiles):
            self.events.touches(self.worker, each)
        inside = slice(0, fragment.valid)
        others = [*(row[:, None] for row in rows), *(tile.array[:, inside] for tile in tiles)]
        several = function(fragment.array[:, inside], *others)
        return tuple(np.add.reduce(values, axis=1, dtype=np.float32) for values in several)

    def apply(
        self, fragment: Fragment, function: Callable[..., Any], rows: Any = (), columns: Any = (), tiles: Any = ()
    ) -> Fragment:
        self.worker.step("apply", fragment.array.size // self.threads)
        for each in (fragment, *tiles):
            self.events.touches(self.worker, each)
        others = [*(row[:, None] for row in rows), *columns, *(tile.array for tile in tiles)]
        fragment.array[...] = function(fragment.array, *others)
        return fragment

    def combine(self, function: Callable[..., Any], tiles: Any, rows: Any = ()) -> tuple[Fragment, ...]:
        first = tiles[0]
        self.worker.step("apply", len(tiles) * first.array.size // self.threads)
        for each in tiles:
            self.events.touches(self.worker, each)
        values = function(*(tile.array for tile in tiles), *(row[:, None] for row in rows))
        return tuple(Fragment(self.worker, value, first.valid) for value in values)

    def zero_columns(self, tensor: GlobalTensor) -> Any:
        return np.zeros(tensor.box[-1], np.float32)

    def add_columns(self, columns: Any, fragment: Fragment, function: Callable[..., Any], tiles: Any = ()) -> None:
        self.worker.step("add columns", fragment.array.size // self.threads)
        for each in (fragment, *tiles):
            self.events.touches(self.worker, each)
        columns += np.add.reduce(function(fragment.array, *(t.array for t in tiles)), axis=0, dtype=np.float32)

    def zero_rows(self) -> Any:
        return np.zeros(1, np.float32)

    def rsqrt(self, rows: Any) -> Any:
        self.worker.step("rsqrt")
        return np.float32(1) / np.sqrt(rows)

    def reciprocal(self, rows: Any) -> Any:
        self.worker.step("reciprocal")
        return np.float32(1) / rows

    def exp(self, rows: Any) -> Any:
        self.worker.step("exp")
        return np.exp(rows)

    def maximum(self, one: Any, other: Any) -> Any:
        return np.maximum(one, other)


def things(grid: Grid, cluster: Cluster, worker: Worker, columns: int) -> dict[str, Any]:
    """By name, what the plan gives the worker's role; tensors and tensor memory are everybody's."""
    plan, role = grid.plan, worker.role.name
    found: dict[str, Any] = dict(grid.tensors)
    for ring in plan.rings:
        if role in (ring.filled_by, ring.drained_by):
            found[ring.name] = (Mail if ring.fill is Fill.MAIL else Ring)(cluster, worker, ring.name)
    for product in plan.products:
        if product.role == role:
            found[product.name] = (TensorProduct if product.into else WarpgroupProduct)(worker, product)
    for staging in plan.stagings:
        if staging.role == role:
            found[staging.name] = Staging(worker, staging)
    if plan.memory.tensor_memory:
        found[plan.memory.tensor_memory.name] = TensorMemory(worker, columns)
    return found


def part_columns(plan: Plan, role: str) -> int:
    """Columns of a part as the role stages it; the whole accumulator where it stages none."""
    for staging in plan.stagings:
        if staging.role == role:
            return plan.memory[staging.buffer].shape[1]
    return plan.products[0].tile[1] if plan.products else 0
