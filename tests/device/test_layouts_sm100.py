"""Blackwell layouts against the architecture's documented fragment maps, evaluated while tracing: no Blackwell GPU is at hand.

Sources: PTX ISA, tcgen05 matrix descriptors (K-major, 128-byte swizzle), data path layout D (M = 128) and tcgen05.ld .32x32b.
"""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("cutlass", reason="the CuTe DSL is installed on Linux only")

import cutlass.cute as cute
from cutlass import BFloat16, Float32
from cutlass.cute.nvgpu import tcgen05
from cutlass.utils import blackwell_helpers

from cute_kernels.device import product_sm100
from cute_kernels.device.memory import swizzled_layout
from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.plan import SM100A

PLAN = plan(LinearNorm(512, 512, "bfloat16"), SM100A)
PRODUCT = PLAN.products[0]
PART = PLAN.memory["parts"].shape[1]


def while_tracing(check: Callable[[], None]) -> None:
    """Run `check` where layouts can be built: inside a function being traced for sm_100a."""
    ran: list[bool] = []

    @cute.jit
    def trace() -> None:
        check()
        ran.append(True)

    cute.compile(trace, options="--gpu-arch sm_100a")
    assert ran


@pytest.mark.parametrize("name", ["x_tiles", "weight_tiles"])
def test_operand_bytes_lie_where_tcgen05_reads_them(name: str) -> None:
    make = {"x_tiles": blackwell_helpers.make_smem_layout_a, "weight_tiles": blackwell_helpers.make_smem_layout_b}[name]

    def check() -> None:
        buffer = PLAN.memory[name]
        ours = swizzled_layout(buffer, 1)
        theirs = make(product_sm100.tiled_mma(PRODUCT, BFloat16), PRODUCT.tile, BFloat16, buffer.stages)
        assert str(ours.inner) == str(theirs.inner)
        rows, columns = buffer.shape
        for row in range(0, rows, 7):
            for column in range(0, columns, 5):
                for stage in (0, buffer.stages - 1):
                    offset = cute.crd2idx((row, column, stage), ours.outer)
                    assert offset == cute.crd2idx(((row, column % 16), 0, column // 16, stage), theirs.outer)

    while_tracing(check)


def accumulators() -> Any:
    """The layout of (rows, columns) of the last accumulator stage."""
    mma = product_sm100.tiled_mma(PRODUCT, BFloat16)
    shape = cute.append(mma.partition_shape_C(PRODUCT.tile[:2]), PLAN.memory.accumulators.stages)
    return mma.make_fragment_C(shape)[(None, None), 0, 0, PLAN.memory.accumulators.stages - 1]


def test_an_accumulator_row_is_a_lane_and_a_column_a_column() -> None:
    def check() -> None:
        layout = accumulators().layout
        for row, column in [(0, 0), (1, 0), (127, 0), (0, 1), (77, 255)]:
            assert cute.crd2idx((row, column), layout) == (row << 16) + column

    while_tracing(check)


def test_a_thread_loads_its_own_row_with_columns_in_order() -> None:
    def check() -> None:
        tile = cute.local_tile(accumulators(), (PRODUCT.tile[0], PART), (0, 1))
        load = tcgen05.make_tmem_copy(cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(PART)), Float32), tile)
        rows, columns = load.tiler_mn
        for thread in (0, 1, 31, 32, 100, 127):
            for value in (0, 1, PART - 1):
                index = cute.crd2idx((thread, value), load.layout_dst_tv_tiled)
                height = cute.size(rows)
                assert cute.crd2idx(index % height, rows) == thread
                assert cute.crd2idx(index // height, columns) == value

    while_tracing(check)
