"""A program's tensors on the GPU: moved by TMA in boxes, or by the threads in vectors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int16, Int64
from cutlass.cute.nvgpu import cpasync

from cute_kernels.device.fragments import ColumnSums, QuadFragment, RowFragment, RowMap, SharedRows, pack, pick, select
from cute_kernels.device.memory import stage_layout
from cute_kernels.device.traced import ELEMENT, Traced
from cute_kernels.plan import Plan, itemsize
from cute_kernels.plan import Tensor as TensorPlan


def make_atom(plan: Plan, tensor: TensorPlan, value: Any) -> tuple[Any, Any]:
    """Host: the TMA atom of a tensor that has a buffer, and the tensor of coordinates that goes with it."""
    load = cpasync.CopyBulkTensorTileG2SMulticastOp if tensor.shared else cpasync.CopyBulkTensorTileG2SOp
    move = cpasync.CopyBulkTensorTileS2GOp() if tensor.output else load()
    layout, shares = stage_layout(plan.memory[tensor.buffer]), plan.cluster if tensor.shared else 1
    return cpasync.make_tiled_tma_atom(move, value, layout, tensor.box, shares)


class BoxTensor(Traced):
    """Moved by TMA: boxes of the tensor, and the stages of its buffer that they go to or come from; of a shared one, this CTA's shares."""

    def __init__(self, plan: Plan, tensor: TensorPlan, atom: Any, coordinates: Any, stages: Any, rank: Any) -> None:
        boxes = cute.local_tile(coordinates, tensor.box, (None, None))
        shares, mine = (plan.cluster, rank) if tensor.shared else (1, 0)
        self.atom, self.tiles = atom, stages
        self.to_all = {"mcast_mask": Int16((1 << shares) - 1)} if tensor.shared else {}
        self.stages, self.boxes = cpasync.tma_partition(
            atom, mine, cute.make_layout(shares), cute.group_modes(stages, 0, 2), cute.group_modes(boxes, 0, 2)
        )


class VectorTensor(Traced):
    """Moved by the threads: each a vector at a time, chunk j of a row's threads beside chunk j - 1. Offsets are 64-bit.

    A quad that shares an accumulator's row moves vectors of two: the accumulator's own layout.
    """

    def __init__(self, plan: Plan, tensor: TensorPlan, value: Any, rows: RowMap) -> None:
        self.tensor, self.value, self.rows, self.element = tensor, value, rows, ELEMENT[tensor.dtype]
        self.vector, self.columns, self.extent = tensor.vector, tensor.box[-1], tensor.extents[-1]
        self.step = rows.replicas * self.vector
        self.chunks = -(-self.columns // self.step)
        self.whole = self.chunks * self.step == self.columns and plan.reach(tensor) == self.extent
        self.first = rows.replica * self.vector  # of this thread, in the slice of its CTA

    def chunks_of(self, row: Any, column: Any) -> Any:
        """(vector, chunks) of global memory: this thread's share of slice `column` of a row."""
        start = Int64(column * self.columns + self.first)
        start = start if len(self.tensor.extents) == 1 else start + Int64(row) * self.value.stride[0]
        pointer = (self.value.iterator + start).align(self.vector * itemsize(self.tensor.dtype))
        return cute.make_tensor(pointer, cute.make_layout((self.vector, self.chunks), stride=(1, self.step)))

    def registers(self) -> Any:
        """The thread's share, in the tensor's own type."""
        return cute.make_rmem_tensor((self.vector, self.chunks), self.element)

    def atom(self) -> Any:
        """A vector's move. Rows that are read in whole vectors side by side pass once, and leave the L1 cache to what all rows share."""
        move = cute.nvgpu.CopyR2GOp() if self.tensor.output else cute.nvgpu.CopyG2ROp()
        bits = self.vector * itemsize(self.tensor.dtype) * 8
        once = cute.nvgpu.CacheEvictionPriority.NO_ALLOCATE
        passes_once = len(self.tensor.extents) > 1 and isinstance(self.rows, SharedRows)
        keep = {"l1c_evict_priority": once} if passes_once else {}
        return cute.make_copy_atom(move, self.element, num_bits_per_copy=bits, **keep)

    @cute.jit
    def move(self, source: cute.Tensor, target: cute.Tensor, inside_rows: Any, column: Any) -> None:
        """Copy the chunks that lie inside the tensor; leave the others as they are."""
        atom = self.atom()
        if inside_rows:
            for j in cutlass.range_constexpr(self.chunks):
                if cutlass.const_expr(self.whole):
                    cute.copy(atom, source[None, j], target[None, j])
                else:
                    if self.inside(column)[j]:
                        cute.copy(atom, source[None, j], target[None, j])

    def read(self, row: Any, column: Any, m: Any) -> RowFragment | QuadFragment:
        """Box (row, column): the thread's row of it, or its rows."""
        loaded = [self.load(row * self.tensor.box[0] + self.rows.row(i), column, m) for i in range(self.rows.count)]
        inside = None if self.whole else self.inside(column)
        kind = RowFragment if self.rows.count == 1 else QuadFragment
        return kind(loaded[0] if self.rows.count == 1 else loaded, self.rows, inside)

    def read_columns(self, column: Any) -> Any:
        """Of a vector along the columns: as one row of a box would be."""
        return Columns(self, column)

    def load(self, row: Any, column: Any, m: Any) -> Any:
        """The thread's share of one of the tensor's rows; zeros beyond row m."""
        raw = self.registers()
        raw.fill(0.0)
        self.move(self.chunks_of(row, column), raw, row < m, column)
        return raw

    @cute.jit
    def prefetch(self, row: Any, column: Any, m: Any) -> None:
        """Start moving the thread's share of box (row, column) into the L2 cache."""
        at = row * self.tensor.box[0] + self.rows.row(0)
        source = self.chunks_of(at, column)
        if at < m:
            for j in cutlass.range_constexpr(self.chunks):
                cute.arch.prefetch(source[None, j].iterator.to_llvm_ptr(), cache_level="L2")

    @cute.jit
    def move_chunk(self, source: cute.Tensor, target: cute.Tensor, inside: Any) -> None:
        """Copy one chunk where it lies inside."""
        if inside:
            cute.copy(self.atom(), source, target)

    def inside(self, column: Any) -> list[Any]:
        """For each chunk of slice `column`, whether it lies inside the tensor and the CTA's slice."""
        starts = [self.first + j * self.step for j in range(self.chunks)]
        return [(at < self.columns) & (column * self.columns + at < self.extent) for at in starts]

    def write(self, row: Any, column: Any, m: Any, fragment: RowFragment) -> None:
        """Chunk by chunk: a chunk's columns are needed in registers only while it leaves."""
        at = row * self.tensor.box[0] + self.rows.row(0)
        target, inside = self.chunks_of(at, column), self.inside(column)
        for j in range(self.chunks):
            raw = cute.make_rmem_tensor((self.vector,), self.element)
            raw.store(fragment.chunk(j).to(self.element))
            self.move_chunk(raw, target[None, j], at < m if self.whole else (at < m) & inside[j])


class Columns(Traced):
    """This thread's share of a vector along the columns. As many chunks as the plan says are on their way from the start, each
    other one follows as one before it is used: so loads are in flight in time, and few registers wait for them."""

    def __init__(self, tensor: VectorTensor, column: Any) -> None:
        self.tensor, self.source, self.raw = tensor, tensor.chunks_of(0, column), tensor.registers()
        self.inside, self.fetched = tensor.inside(column), 0
        self.ahead = tensor.chunks if tensor.tensor.ahead is None else tensor.tensor.ahead
        if not tensor.whole:
            self.raw.fill(0.0)
        self.fetch(self.ahead)

    def fetch(self, until: int) -> None:
        """Start the loads of the chunks before `until`."""
        while self.fetched < min(until, self.tensor.chunks):
            j = self.fetched
            inside = True if self.tensor.whole else self.inside[j]
            self.tensor.move_chunk(self.source[None, j], self.raw[None, j], inside)
            self.fetched += 1

    def chunk(self, j: int) -> Any:
        """One chunk, float32."""
        self.fetch(j + 1 + self.ahead)
        return self.raw[None, j].load().to(Float32)

    @property
    def value(self) -> Any:
        """All, float32."""
        self.fetch(self.tensor.chunks)
        return self.raw.load().to(Float32)


class FragmentTensor(VectorTensor):
    """Read in the layout of an accumulator, whose rows beyond the tensor nobody looks at: they get the values of the last row, since a branch
    would keep 16-bit elements in a register each."""

    def load(self, row: Any, column: Any, m: Any) -> Any:
        inside, raw = select(row < m, row, m - 1), self.registers()
        if not self.whole:
            raw.fill(0.0)
        self.move(self.chunks_of(inside, column), raw, True, column)
        return raw

    def read_columns(self, column: Any) -> RowFragment:
        return RowFragment(super().load(0, column, 1), self.rows, None if self.whole else self.inside(column))


class RowVector(Traced):
    """A float32 for each row of the run-time extent."""

    def __init__(self, tensor: TensorPlan, value: Any, rows: RowMap, rank: Any) -> None:
        self.height, self.value, self.rows, self.rank = tensor.box[0], value, rows, rank

    def read(self, row: Any) -> Any:
        return pack([self.read_one(row * self.height + self.rows.row(i)) for i in range(self.rows.count)])

    @cute.jit
    def read_one(self, at: Any) -> Any:
        value = Float32(0.0)
        if at < self.value.shape[0]:
            value = self.value[at]
        return value

    def write(self, row: Any, values: Any) -> None:
        for i in range(self.rows.count):
            self.write_one(row * self.height + self.rows.row(i), pick(values, i, self.rows.count))

    @cute.jit
    def write_one(self, at: Any, value: Float32) -> None:
        if self.rank == 0 and self.rows.replica == 0 and at < self.value.shape[0]:
            self.value[at] = value


class PartialTensor(VectorTensor):
    """A row of partial sums for each cluster. The threads that share a column meet in shared memory, and add in the order of rows."""

    rows: SharedRows

    def __init__(self, plan: Plan, tensor: TensorPlan, value: Any, rows: SharedRows, columns: Any, meet: Any) -> None:
        super().__init__(plan, tensor, value, rows)
        self.shared, self.meet, self.height = columns, meet, plan.rows

    def registers(self) -> Any:
        return cute.make_rmem_tensor((self.vector, self.chunks), Float32)

    def write_sums(self, row: Any, column: Any, sums: ColumnSums) -> None:
        if self.height > 1:
            self.meet()  # the buffer's last readers have gone
            self.put(sums.values, column)
            self.meet()
            self.gather(sums.values, column)
        self.move(sums.values, self.chunks_of(row, column), self.rows.top == 0, column)

    @cute.jit
    def put(self, values: cute.Tensor, column: Any) -> None:
        for j in cutlass.range_constexpr(self.chunks):
            if self.inside(column)[j]:
                for i in cutlass.range_constexpr(self.vector):
                    self.shared[self.rows.top, self.first + j * self.step + i] = values[i, j]

    @cute.jit
    def gather(self, values: cute.Tensor, column: Any) -> None:
        if self.rows.top == 0:
            for j in cutlass.range_constexpr(self.chunks):
                if self.inside(column)[j]:
                    for i in cutlass.range_constexpr(self.vector):
                        at = self.first + j * self.step + i
                        total = self.shared[0, at]
                        for row in cutlass.range_constexpr(1, self.height):
                            total = total + self.shared[row, at]
                        values[i, j] = total
