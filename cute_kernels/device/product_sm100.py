"""a · bᵀ by tcgen05, accumulators in tensor memory: one thread issues, the tensor core itself reports on the barriers."""

from typing import Any

import cutlass.cute as cute
from cutlass import Boolean, Float32
from cutlass._mlir.dialects import nvvm
from cutlass.cute.nvgpu import tcgen05
from cutlass.utils import blackwell_helpers

from cute_kernels.device.fragments import LaneRows, RowFragment, chunks_inside, select
from cute_kernels.device.memory import SharedMemory
from cute_kernels.device.rings import Ring
from cute_kernels.device.traced import ELEMENT, Slot, Traced
from cute_kernels.plan import Product as ProductPlan

arch = cute.arch
K_MAJOR = cute.nvgpu.OperandMajorMode.K
LOADED = 16  # columns a tcgen05.ld: wider ones want as many neighbouring registers, and more of them in all
CHUNK = 8  # columns that are inside the result together, or beyond it


def tiled_mma(product: ProductPlan, element: Any) -> Any:
    """The product as one CTA's tcgen05 instruction; made anew for each use."""
    rows, columns, _ = product.tile
    one = tcgen05.CtaGroup.ONE
    return blackwell_helpers.make_trivial_tiled_mma(element, element, K_MAJOR, K_MAJOR, Float32, one, (rows, columns))


class TensorCoreRing(Ring):
    """A ring with the tensor core at one end. tcgen05 operations are ordered with a barrier only through its own fences."""

    def until(self, barrier: Any, phase: Any) -> None:
        super().until(barrier, phase)
        nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.AFTER_THREAD_SYNC)

    def release(self, slot: Slot) -> None:
        nvvm.tcgen05_fence(nvvm.Tcgen05FenceKind.BEFORE_THREAD_SYNC)
        arch.sync_warp()
        super().release(slot)

    def release_after_mma(self, slot: Slot) -> None:
        with arch.elect_one():
            tcgen05.commit(self.empty(slot))

    def publish_after_mma(self, slot: Slot) -> None:
        with arch.elect_one():
            tcgen05.commit(self.full(slot))


class TensorMemory(Traced):
    """The CTA's accumulators in tensor memory: (rows, columns, stages)."""

    def __init__(self, product: ProductPlan, memory: SharedMemory, rows: LaneRows, rank: Any) -> None:
        self.plan, self.rows, self.width = memory.plan.memory.accumulators, rows, memory.plan.width
        self.whole = memory.plan.cluster * product.tile[1] == self.width
        self.first = rank * product.tile[1]
        element = ELEMENT[memory.plan.memory[product.a].dtype]
        mma = tiled_mma(product, element)
        shape = cute.append(mma.partition_shape_C(product.tile[:2]), self.plan.stages)
        self.pointer = arch.retrieve_tmem_ptr(Float32, 16, memory.tensor_memory_word())
        self.accumulators = cute.make_tensor(self.pointer, mma.make_fragment_C(shape).layout)
        self.lanes, self.part_columns = product.tile[0], memory.plan.memory[memory.plan.stagings[0].buffer].shape[1]

    def read(self, slot: Slot, part: int) -> RowFragment:
        accumulator = self.accumulators[(None, None), 0, 0, slot.index]
        tile = cute.local_tile(accumulator, (self.lanes, self.part_columns), (0, part))
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(LOADED)), Float32)
        mine = tcgen05.make_tmem_copy(atom, tile).get_slice(self.rows.thread)
        coordinates = mine.partition_D(cute.make_identity_tensor((self.lanes, self.part_columns)))
        values = cute.make_rmem_tensor(coordinates.shape, Float32)
        cute.copy(atom, mine.partition_S(tile), values)
        arch.fence_view_async_tmem_load()
        chunks = self.part_columns // CHUNK
        row = cute.make_tensor(values.iterator, cute.make_layout((CHUNK, chunks)))
        first = self.first + part * self.part_columns
        # Where all are inside it is still said chunk by chunk: sums in that order keep fewer values alive.
        inside = [True] * chunks if self.whole else chunks_inside(first, CHUNK, chunks, self.width)
        return RowFragment(row, self.rows, inside)

    def free(self) -> None:
        arch.dealloc_tmem(self.pointer, self.plan.allocated)


def allocate(memory: SharedMemory) -> None:
    """Take the plan's columns; their address goes to the memory's word. One warp, the one that will free them."""
    arch.alloc_tmem(memory.plan.memory.accumulators.allocated, memory.tensor_memory_word())
    arch.relinquish_tmem_alloc_permit()


class Product(Traced):
    """The whole tile of a, all of b, into a stage of the accumulators."""

    def __init__(self, product: ProductPlan, memory: SharedMemory, tensor_memory: TensorMemory) -> None:
        self.product, self.memory, self.into = product, memory, tensor_memory
        self.element = ELEMENT[memory.plan.memory[product.a].dtype]
        mma = self.atom()
        self.a = mma.make_fragment_A(self.operand(product.a, blackwell_helpers.make_smem_layout_a))
        self.b = mma.make_fragment_B(self.operand(product.b, blackwell_helpers.make_smem_layout_b))

    def atom(self) -> Any:
        return tiled_mma(self.product, self.element)

    def operand(self, name: str, layout_of: Any) -> Any:
        """A buffer's bytes in the modes tcgen05 wants: the same swizzle atoms, in the same places."""
        buffer, tiles = self.memory.plan.memory[name], self.memory.buffer(name)
        layout = layout_of(self.atom(), self.product.tile, self.element, buffer.stages)
        return cute.make_tensor(cute.recast_ptr(tiles.iterator, layout.inner), layout.outer)

    def multiply(self, turn: Slot, slot: Slot, fresh: Any = False, other: Slot | None = None) -> None:
        mma, values = self.atom(), self.into.accumulators[None, None, None, turn.index]
        b = slot if other is None else other
        for k in range(cute.size(self.a, mode=[2])):
            keep = Boolean(True) if k else Boolean(select(Boolean(fresh), Boolean(False), Boolean(True)))
            mma.set(tcgen05.Field.ACCUMULATE, keep)
            cute.gemm(mma, values, self.a[None, None, k, slot.index], self.b[None, None, k, b.index], values)
