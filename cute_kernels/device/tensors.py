"""A program's tensors on the GPU: moved by TMA in boxes, or by the threads in vectors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int64
from cutlass.cute.nvgpu import cpasync

from cute_kernels.device.fragments import ColumnSums, RowFragment, RowMap, SharedRows, pack, pick
from cute_kernels.device.memory import stage_layout
from cute_kernels.device.traced import ELEMENT, Traced
from cute_kernels.plan import Plan, itemsize
from cute_kernels.plan import Tensor as TensorPlan


def make_atom(plan: Plan, tensor: TensorPlan, value: Any) -> tuple[Any, Any]:
    """Host: the TMA atom of a tensor that has a buffer, and the tensor of coordinates that goes with it."""
    move = cpasync.CopyBulkTensorTileS2GOp() if tensor.output else cpasync.CopyBulkTensorTileG2SOp()
    return cpasync.make_tiled_tma_atom(move, value, stage_layout(plan.memory[tensor.buffer]), tensor.box)


class BoxTensor(Traced):
    """Moved by TMA: boxes of the tensor, and the stages of its buffer that they go to or come from."""

    def __init__(self, tensor: TensorPlan, atom: Any, coordinates: Any, stages: Any) -> None:
        boxes = cute.local_tile(coordinates, tensor.box, (None, None))
        self.atom, self.tiles = atom, stages
        self.stages, self.boxes = cpasync.tma_partition(
            atom, 0, cute.make_layout(1), cute.group_modes(stages, 0, 2), cute.group_modes(boxes, 0, 2)
        )


class VectorTensor(Traced):
    """Moved by the threads: each a vector at a time, chunk j of a row's threads beside chunk j - 1. Offsets are 64-bit."""

    def __init__(self, plan: Plan, tensor: TensorPlan, value: Any, rows: SharedRows) -> None:
        self.tensor, self.value, self.rows, self.element = tensor, value, rows, ELEMENT[tensor.dtype]
        self.vector, self.columns, self.extent = tensor.vector, tensor.box[-1], tensor.extents[-1]
        self.step = rows.replicas * self.vector
        self.chunks = -(-self.columns // self.step)
        self.whole = self.chunks * self.step == self.columns and plan.sharing * self.columns == self.extent
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
        """A vector's move. Rows pass once, so they leave the L1 cache to what all rows share."""
        move = cute.nvgpu.CopyR2GOp() if self.tensor.output else cute.nvgpu.CopyG2ROp()
        bits = self.vector * itemsize(self.tensor.dtype) * 8
        once = cute.nvgpu.CacheEvictionPriority.NO_ALLOCATE
        keep = {} if len(self.tensor.extents) == 1 else {"l1c_evict_priority": once}
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

    def read(self, row: Any, column: Any, inside_rows: Any) -> RowFragment:
        raw = self.registers()
        raw.fill(0.0)
        self.move(self.chunks_of(row, column), raw, inside_rows, column)
        return RowFragment(raw, self.rows, None if self.whole else self.inside(column))

    def inside(self, column: Any) -> list[Any]:
        """For each chunk of slice `column`, whether it lies inside the tensor and the CTA's slice."""
        starts = [self.first + j * self.step for j in range(self.chunks)]
        return [(at < self.columns) & (column * self.columns + at < self.extent) for at in starts]

    def write(self, row: Any, column: Any, inside_rows: Any, fragment: RowFragment) -> None:
        raw = self.registers()
        raw.store(fragment.value.to(self.element))
        self.move(raw, self.chunks_of(row, column), inside_rows, column)


class RowVector(Traced):
    """A float32 for each row of the run-time extent."""

    def __init__(self, plan: Plan, value: Any, rows: RowMap, rank: Any) -> None:
        self.plan, self.value, self.rows, self.rank = plan, value, rows, rank

    def read(self, row: Any) -> Any:
        return pack([self.read_one(row * self.plan.rows + self.rows.row(i)) for i in range(self.rows.count)])

    @cute.jit
    def read_one(self, at: Any) -> Any:
        value = Float32(0.0)
        if at < self.value.shape[0]:
            value = self.value[at]
        return value

    def write(self, row: Any, values: Any) -> None:
        for i in range(self.rows.count):
            self.write_one(row * self.plan.rows + self.rows.row(i), pick(values, i, self.rows.count))

    @cute.jit
    def write_one(self, at: Any, value: Float32) -> None:
        if self.rank == 0 and self.rows.replica == 0 and at < self.value.shape[0]:
            self.value[at] = value


class PartialTensor(VectorTensor):
    """A row of partial sums for each cluster. The threads that share a column meet in shared memory, and add in the order of rows."""

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
