"""Shared and tensor memory: placement, overlays by lifetime, capacity."""

import dataclasses

import pytest

from cute_kernels.plan import SM90A, SM100A, Buffer, Memory, PlanError, TensorMemory
from cute_kernels.plan.memory import SWIZZLE_ALIGNMENT


def test_placement_follows_the_header_in_order_and_aligned() -> None:
    memory = Memory(
        (
            Buffer("letters", (2, 5), "float32", stages=2),
            Buffer("tiles", (64, 64), "bfloat16", stages=3, swizzled=True),
            Buffer("sums", (3,), "float32"),
        ),
        barriers=5,
    )
    place = memory.placement
    assert memory.header == 5 * 8
    assert (place["letters"].offset, place["letters"].end) == (48, 48 + 2 * 40)
    assert place["tiles"].offset == SWIZZLE_ALIGNMENT
    assert place["sums"].offset == place["tiles"].end == SWIZZLE_ALIGNMENT + 3 * 64 * 64 * 2
    assert memory.bytes == place["sums"].end
    assert not memory.overlaps()


def test_every_member_has_its_copy() -> None:
    memory = Memory((Buffer("parts", (64, 64), "float16", stages=2, each="multiply"),), members=(("multiply", 3),))
    assert memory.placement["parts"].count == 6
    assert memory.bytes == 6 * 64 * 64 * 2


def test_tensor_memory_takes_a_word_of_the_header() -> None:
    assert Memory((), barriers=2, tensor_memory=TensorMemory("tmem", 64, 1)).header == 24


@pytest.mark.parametrize(("columns", "stages", "allocated"), [(16, 1, 32), (64, 2, 128), (96, 2, 256), (256, 2, 512)])
def test_tensor_memory_is_allocated_in_powers_of_two(columns: int, stages: int, allocated: int) -> None:
    assert TensorMemory("tmem", columns, stages).allocated == allocated


def overlay(first: tuple[str, ...], second: tuple[str, ...]) -> Memory:
    """Two buffers on the same bytes."""
    a = Buffer("q", (64, 64), "bfloat16", live=first)
    return Memory((a, Buffer("out", (64, 32), "bfloat16", live=second, over="q")))


def test_overlay_of_disjoint_lifetimes_is_allowed() -> None:
    memory = overlay(("load", "multiply"), ("store",))
    memory.check(SM90A)
    assert memory.placement["out"].offset == memory.placement["q"].offset
    assert memory.bytes == 64 * 64 * 2
    assert "over q" in str(memory)


@pytest.mark.parametrize("second", [("multiply", "store"), ("always",)])
def test_overlay_of_lifetimes_that_meet_is_refused_by_name(second: tuple[str, ...]) -> None:
    with pytest.raises(PlanError, match="q and out share bytes and are alive at once"):
        overlay(("load", "multiply"), second).check(SM90A)


def test_over_capacity_prints_the_table() -> None:
    memory = Memory((Buffer("tiles", (128, 64), "bfloat16", stages=15, swizzled=True), Buffer("sums", (4,), "float32")))
    with pytest.raises(PlanError) as caught:
        memory.check(SM90A)
    message = str(caught.value)
    assert str(memory) in message
    assert str(SM90A.smem_bytes) in message.splitlines()[0]
    assert all(any(line.startswith(name) for line in message.splitlines()) for name in ("tiles", "sums", "total"))


def test_too_many_columns_of_tensor_memory() -> None:
    memory = Memory((), tensor_memory=TensorMemory("tmem", 256, 3))
    with pytest.raises(PlanError, match="1024 columns of tensor memory, sm_100a has 512"):
        memory.check(SM100A)
    with pytest.raises(PlanError, match="sm_90a has 0"):
        dataclasses.replace(memory, tensor_memory=TensorMemory("tmem", 32, 1)).check(SM90A)
