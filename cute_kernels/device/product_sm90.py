"""a · bᵀ by wgmma: a warpgroup issues it on two staged buffers and owns the accumulator."""

from typing import Any

import cutlass.cute as cute
from cutlass import Float32
from cutlass.cute.nvgpu import warpgroup
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers

from cute_kernels.device.fragments import AccumulatorFragment, AccumulatorRows, chunks_inside
from cute_kernels.device.memory import SharedMemory
from cute_kernels.device.traced import ELEMENT, Traced
from cute_kernels.plan import Product as ProductPlan


class Product(Traced):
    """One member's rows of a, all of b."""

    def __init__(
        self, product: ProductPlan, memory: SharedMemory, member: Any, rows: AccumulatorRows, rank: Any
    ) -> None:
        self.product, self.rows, self.plan, self.rank = product, rows, memory.plan, rank
        self.element = ELEMENT[memory.plan.memory[product.a].dtype]
        height, _, depth = product.tile
        mma = self.atom()
        mine = mma.get_slice(0)
        own = cute.local_tile(memory.buffer(product.a), (height, depth), (memory.plan.share(product, member), 0, None))
        self.a = mma.make_fragment_A(mine.partition_A(own))
        self.b = mma.make_fragment_B(mine.partition_B(memory.buffer(product.b)))

    def atom(self) -> Any:
        """A new atom for each use: one that was altered inside a loop must not be seen outside."""
        major = LayoutEnum.ROW_MAJOR.sm90_mma_major_mode()
        columns = self.product.tile[1]
        return hopper_helpers.make_trivial_tiled_mma(
            self.element, self.element, major, major, Float32, (1, 1, 1), (64, columns)
        )

    def accumulator(self) -> AccumulatorFragment:
        shape = self.atom().partition_shape_C(self.product.tile[:2])
        return AccumulatorFragment(cute.make_rmem_tensor(shape, Float32), self.rows, self.inside())

    def inside(self) -> Any:
        """For each 8 columns whether the result has them; None where it has all columns of the cluster."""
        columns = self.product.tile[1]
        if self.plan.cluster * columns == self.plan.width:
            return None
        return chunks_inside(self.rank * columns, 8, columns // 8, self.plan.width)

    def multiply(self, accumulator: AccumulatorFragment, slot: Any, fresh: Any = False, other: Any = None) -> None:
        mma, values, b = self.atom(), accumulator.values, slot if other is None else other
        warpgroup.fence()
        for k in range(cute.size(self.a, mode=[2])):
            mma.set(warpgroup.Field.ACCUMULATE, not (fresh and k == 0))
            cute.gemm(mma, values, self.a[None, None, k, slot.index], self.b[None, None, k, b.index], values)
        warpgroup.commit_group()

    def wait(self, pending: int) -> None:
        warpgroup.wait_group(pending)
