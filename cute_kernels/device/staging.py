"""Parts of a tile on their way out: registers -> shared memory -> TMA store, counted by bulk groups of the member's first warp."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32
from cutlass.cute.nvgpu import warp

from cute_kernels.device.fragments import Part, RowFragment
from cute_kernels.device.traced import ELEMENT, Traced

arch = cute.arch


class Staging(Traced):
    """The verbs of a staging; how fragments reach shared memory is the subclass's."""

    def __init__(self, buffer: Any, tiles: Any, thread: Any, meet: Any, parts: int) -> None:
        self.buffer, self.tiles, self.thread, self.meet = buffer, tiles, thread, meet
        self.parts = tuple(range(parts))

    def which(self, part: int) -> int:
        """The stage a part is staged in."""
        return part % self.buffer.stages

    def acquire(self) -> None:
        self.bulk_wait(self.buffer.stages - 1)
        self.meet()

    def publish(self) -> None:
        arch.fence_proxy("async.shared", space="cta")
        self.meet()

    @cute.jit
    def store(self, tensor: Any, part: cutlass.Constexpr, row: Any, column: Any) -> None:
        if self.thread < 32:
            cute.copy(tensor.atom, tensor.stages[None, self.which(part)], tensor.boxes[None, row, column])
            arch.cp_async_bulk_commit_group()

    def drain(self) -> None:
        self.bulk_wait(0)

    @cute.jit
    def bulk_wait(self, pending: cutlass.Constexpr) -> None:
        if self.thread < 32:
            arch.cp_async_bulk_wait_group(pending, read=True)


class AccumulatorStaging(Staging):
    """From a wgmma accumulator, by stmatrix. Its register tensors are made here: made inside a loop they keep the compiler from
    moving invariants out of it."""

    def __init__(self, buffer: Any, tiles: Any, thread: Any, meet: Any, parts: int, mma: Any) -> None:
        super().__init__(buffer, tiles, thread, meet, parts)
        element = ELEMENT[buffer.dtype]
        matrices = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), element)
        self.copy = cute.make_tiled_copy_S(matrices, cute.make_tiled_copy_C_atom(matrices, mma))
        self.mine = self.copy.get_slice(thread)
        self.places, shape = self.mine.partition_D(tiles), self.mine.partition_S(tiles).shape[:3]
        self.piece, self.rounded = cute.make_rmem_tensor(shape, Float32), cute.make_rmem_tensor(shape, element)

    def put(self, part: int, piece: Part) -> None:
        values, size = self.mine.retile(piece.fragment.values), cute.size(self.piece)
        for i in range(size):
            self.piece[i] = values[piece.part * size + i]
        self.rounded.store(self.piece.load().to(self.rounded.element_type))
        cute.copy(self.copy, self.rounded, self.places[None, None, None, self.which(part)])


class LaneStaging(Staging):
    """From fragments of a row a thread: 16 bytes at a time, spread over the banks by the swizzle."""

    def put(self, part: int, fragment: RowFragment) -> None:
        element = ELEMENT[self.buffer.dtype]
        rounded = cute.make_rmem_tensor(fragment.loaded.shape, element)
        rounded.store(fragment.value.to(element))
        row = self.tiles[self.thread, None, self.which(part)]
        cute.autovec_copy(cute.make_tensor(rounded.iterator, cute.make_layout(self.buffer.shape[1])), row)
