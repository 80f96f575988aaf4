"""Shared memory as the plan places it: one allocation, and a tensor over it for each buffer."""

import math
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import warpgroup

from cute_kernels.device.traced import ELEMENT, Traced
from cute_kernels.plan import Buffer, Plan


def swizzled_layout(buffer: Buffer, copies: int) -> Any:
    """(rows, columns, copies x stages) in K-major atoms of 8 rows x 128 bytes: what TMA, wgmma and tcgen05 agree on."""
    atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, ELEMENT[buffer.dtype])
    return cute.tile_to_shape(atom, (*buffer.shape, copies * buffer.stages), order=(0, 1, 2))


def stage_layout(buffer: Buffer) -> Any:
    """The layout of one stage, as TMA is told it."""
    return cute.slice_(swizzled_layout(buffer, 1), (None, None, 0))


class SharedMemory(Traced):
    """The CTA's shared memory. Bytes, barriers and buffers by the plan's offsets."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.base = cutlass.memory.SmemAllocator().allocate(max(plan.memory.bytes, 16), byte_alignment=1024)

    def barriers(self) -> Any:
        """Pointer to the first mbarrier."""
        return cute.recast_ptr(self.base, dtype=cutlass.Int64)

    def tensor_memory_word(self) -> Any:
        """Pointer to the word in which tensor memory's address is handed round."""
        return cute.recast_ptr(self.base + 8 * self.plan.memory.barriers, dtype=cutlass.Int32)

    def buffer(self, name: str, member: Any = 0) -> Any:
        """A member's tensor of a buffer: (rows, columns, stages) where swizzled, else (*shape, stages)."""
        buffer, region = self.plan.memory[name], self.plan.memory.placement[name]
        copies, element, start = self.plan.memory.copies(buffer), ELEMENT[buffer.dtype], self.base + region.offset
        if buffer.swizzled:
            layout = swizzled_layout(buffer, copies)
            whole = cute.make_tensor(cute.recast_ptr(start, layout.inner, dtype=element), layout.outer)
            return cute.local_tile(whole, (*buffer.shape, buffer.stages), (0, 0, member))
        size = math.prod(buffer.shape)
        strides = [math.prod(buffer.shape[i + 1 :]) for i in range(len(buffer.shape))]
        layout = cute.make_layout((*buffer.shape, buffer.stages), stride=(*strides, size))
        return cute.make_tensor(cute.recast_ptr(start, dtype=element) + member * size * buffer.stages, layout)
