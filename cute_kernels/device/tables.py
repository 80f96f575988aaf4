"""Tables: few columns a row, which every thread of the row wants. Splits are loaded by several lanes at once, and added in order."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int64

from cute_kernels.device.fragments import WARP, RowMap, pick, select
from cute_kernels.device.traced import Traced
from cute_kernels.plan import Plan
from cute_kernels.plan import Tensor as TensorPlan

arch = cute.arch
FLOAT_BITS = 32
IN_FLIGHT = 64  # registers of a thread that wait for loads at once: 16 splits of a vector of 4


class Table(Traced):
    """A table [k], [m, k] or [splits, m, k]. Offsets of rows are 64-bit."""

    def __init__(self, plan: Plan, tensor: TensorPlan, value: Any, rows: RowMap, rank: Any) -> None:
        self.plan, self.tensor, self.value, self.rows, self.rank = plan, tensor, value, rows, rank
        self.splits = tensor.box[0] if len(tensor.extents) == 3 else 1
        self.height = tensor.box[-2] if len(tensor.extents) > 1 else 1  # rows of a box; of [k] there is one for all
        self.lanes = min(rows.replicas, WARP)  # of a warp that share a row

    def width(self, first: int, count: int) -> int:
        """Columns a lane loads at once. One row has no time to lose: the widest; splits: shared out as far as lanes go."""
        widest = self.tensor.vector
        while first % widest or count % widest:
            widest //= 2
        width = 1 if self.splits > 1 else widest
        while width < widest and count > width * self.lanes:
            width *= 2
        return width

    def row_of(self, split: Any, row: Any) -> Any:
        """One row of global memory. Its pitches are multiples of the plan's vector, so that all of its vectors are aligned if the first is."""
        place = [Int64(split), Int64(row)][3 - len(self.tensor.extents) :]
        offset = sum(at * stride for at, stride in zip(place, self.value.stride[:-1], strict=True))
        pointer = (self.value.iterator + offset).align(self.tensor.vector * 4)
        return cute.make_tensor(pointer, cute.make_layout((self.tensor.box[-1],)))

    def read(self, row: Any, first: int, count: int, m: Any) -> tuple[Any, ...]:
        """Each lane sums the splits of its own columns; then the lanes hand the sums round.

        A row beyond the last reads the last: without a branch all loads of a program are in flight before the first is used.
        """
        at, last = row * self.height + self.rows.row(0), m - 1
        width = self.width(first, count)
        vectors = count // width
        sharing = 1 if self.splits == 1 else max(n for n in range(1, self.lanes + 1) if vectors % n == 0)
        mine = self.rows.replica % self.lanes % sharing
        columns = [first // width + mine + i for i in range(0, vectors, sharing)]
        sums = self.sum_splits(select(at < last, at, last), columns, width)
        return tuple(self.handed(sums, column // width, column % width, sharing) for column in range(count))

    def handed(self, sums: list[list[Any]], vector: int, column: int, sharing: int) -> Any:
        """A column's sum from the lane of the row that has it."""
        value = sums[vector // sharing][column]
        if sharing == 1:
            return value
        return arch.shuffle_sync(value, arch.lane_idx() // self.lanes * self.lanes + vector % sharing)

    def sum_splits(self, row: Any, columns: list[Any], width: int) -> list[list[Any]]:
        """For each vector of columns, by its number, its sums over the splits: batch after batch, in the order of splits."""
        batch = max(1, IN_FLIGHT // (len(columns) * width))
        atom = cute.make_copy_atom(cute.nvgpu.CopyG2ROp(), Float32, num_bits_per_copy=width * FLOAT_BITS)
        sums: list[list[Any]] = []
        for start in range(0, self.splits, batch):
            splits = range(start, min(start + batch, self.splits))
            raw = cute.make_rmem_tensor((width, len(columns), len(splits)), Float32)
            for s, split in enumerate(splits):
                vectors = cute.zipped_divide(self.row_of(split, row), (width,))
                for j, column in enumerate(columns):
                    cute.copy(atom, vectors[None, column], raw[None, j, s])
            for s in range(len(splits)):
                loaded = [[raw[i, j, s] for i in range(width)] for j in range(len(columns))]
                sums = add(sums, loaded) if sums else loaded
        return sums

    def write(self, row: Any, m: Any, values: Any) -> None:
        """Of each row that a thread has, by one thread of those that share it."""
        for i in range(self.rows.count):
            self.write_row(self.index(row, i), m, tuple(pick(value, i, self.rows.count) for value in values))

    def index(self, row: Any, i: int) -> Any:
        """The thread's row i of box `row`, as an index of the tensor."""
        return row * self.height + self.rows.row(i)

    @cute.jit
    def write_row(self, at: Any, m: Any, values: Any) -> None:
        width, parts = self.width(0, len(values)), len(self.tensor.extents) == 3
        atom = cute.make_copy_atom(cute.nvgpu.CopyR2GOp(), Float32, num_bits_per_copy=width * FLOAT_BITS)
        if at < m and (parts or self.rank == 0) and self.rows.replica == 0:
            vectors = cute.zipped_divide(self.row_of(self.rank if parts else 0, at), (width,))
            for j in cutlass.range_constexpr(len(values) // width):
                piece = cute.make_rmem_tensor((width,), Float32)
                for i in cutlass.range_constexpr(width):
                    piece[i] = values[j * width + i]
                cute.copy(atom, piece, vectors[None, j])

    def write_accumulator(self, row: Any, m: Any, accumulator: Any) -> None:
        """A quad of lanes holds a row: lane q columns 2 q and 2 q + 1 of every eight."""
        for i in range(self.rows.count):
            self.write_quads(self.index(row, i), m, accumulator.of_row(i))

    @cute.jit
    def write_quads(self, at: Any, m: Any, values: cute.Tensor) -> None:
        columns = self.tensor.box[-1]
        atom = cute.make_copy_atom(cute.nvgpu.CopyR2GOp(), Float32, num_bits_per_copy=2 * FLOAT_BITS)
        if at < m:
            pairs = cute.zipped_divide(self.row_of(self.rank, at), (2,))
            for eight in cutlass.range_constexpr(columns // 8):
                piece = cute.make_rmem_tensor((2,), Float32)
                for i in cutlass.range_constexpr(2):
                    total = values[i, eight]
                    for other in cutlass.range_constexpr(columns // 8, cute.size(values) // 2, columns // 8):
                        total = total + values[i, eight + other]
                    piece[i] = total
                cute.copy(atom, piece, pairs[None, 4 * eight + self.rows.replica])


def add(sums: list[list[Any]], more: list[list[Any]]) -> list[list[Any]]:
    """Elementwise."""
    return [[a + b for a, b in zip(one, other, strict=True)] for one, other in zip(sums, more, strict=True)]
