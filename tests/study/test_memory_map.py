"""The memory map adds up to the byte and is true to scale, overlays and tensor memory included."""

import re
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from cute_kernels.linear_norm.plan import LinearNorm
from cute_kernels.linear_norm.plan import plan as linear_norm
from cute_kernels.norms.plan import Norm
from cute_kernels.norms.plan import plan as rms_norm
from cute_kernels.plan import SM90A, SM100A, Buffer, Memory, Plan, Role, Roles, TensorMemory
from cute_kernels.study import memory_svg
from cute_kernels.study.memory_map import LEFT, RIGHT, WIDTH, account, bytes_shown

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Nothing:
    """A problem without facts."""


def idle(ctx: Any) -> None:
    """A program for a plan that is only looked at."""


def overlaid() -> Plan:
    """Two buffers over the same bytes in different phases, and tensor memory that is not a power of two."""
    return Plan(
        operator="overlaid",
        target=SM100A,
        problem=Nothing(),
        rows=1,
        cluster=1,
        roles=Roles((Role("work", idle, warps=4),)),
        memory=Memory(
            buffers=(
                Buffer("early", (64, 64), "float32", stages=2, live=("load",)),
                Buffer("late & last", (40, 64), "float32", stages=2, live=("store",), over="early"),
                Buffer("tail", (8, 64), "bfloat16", swizzled=True),
            ),
            tensor_memory=TensorMemory("accumulators", columns=96, stages=2),
        ),
        tensors=(),
    )


PLANS = [
    linear_norm(LinearNorm(512, 512, "bfloat16"), SM90A),
    linear_norm(LinearNorm(512, 512, "bfloat16"), SM100A),
    rms_norm(Norm(4096, "bfloat16", vector=8), SM90A),
    overlaid(),
]
plans = pytest.mark.parametrize("plan", PLANS, ids=lambda p: f"{p.operator}-{p.target.arch}")


def blocks(root: Element, unit: str) -> list[tuple[str, int, int, float, float]]:
    """(name, first, one past the last, pixels from, pixels to) of each stage that is drawn, counted in `unit`."""
    found = []
    for rect in root.iter(f"{SVG}rect"):
        title = rect.findtext(f"{SVG}title") or ""
        if match := re.fullmatch(rf"(.+)\[\d+\]\n{unit} ([\d,]+) to ([\d,]+)", title):
            first, last = (int(match[i].replace(",", "")) for i in (2, 3))
            x, width = float(rect.get("x", "nan")), float(rect.get("width", "nan"))
            found.append((match[1], first, last, x, x + width))
    return found


@plans
def test_the_account_adds_up(plan: Plan) -> None:
    a = account(plan)
    assert a.header + a.placed - a.shared + a.padding + a.free == plan.target.smem_bytes
    used = set(range(plan.memory.header))
    for region in plan.memory.placement.values():
        used.update(range(region.offset, region.end))
    assert a.header + a.placed - a.shared == len(used)
    assert f"+ {a.free:,} free = {plan.target.smem_bytes:,} bytes" in memory_svg(plan)


def test_small_buffers_are_enlarged_and_large_ones_leave_room_for_what_is_free() -> None:
    hopper, _, norm, _ = PLANS
    assert bytes_shown(hopper) == SM90A.smem_bytes
    assert norm.memory.bytes <= bytes_shown(norm) <= 2 * max(64, norm.memory.bytes)
    assert "drawn up to" in memory_svg(norm)
    assert "drawn up to" not in memory_svg(hopper)


@plans
def test_what_is_free_reaches_from_the_last_buffer_to_the_end(plan: Plan) -> None:
    title = f"{account(plan).free:,} bytes free"
    rects = ElementTree.fromstring(memory_svg(plan)).iter(f"{SVG}rect")
    (free,) = (rect for rect in rects if rect.findtext(f"{SVG}title") == title)
    left, width = float(free.get("x", "nan")), float(free.get("width", "nan"))
    scale = (WIDTH - LEFT - RIGHT) / bytes_shown(plan)
    assert left == pytest.approx(LEFT + plan.memory.bytes * scale, abs=2e-3)
    assert left + width == pytest.approx(WIDTH - RIGHT, abs=2e-3)


def test_an_overlay_is_counted_as_shared() -> None:
    assert account(overlaid()).shared == 2 * 40 * 64 * 4


@plans
def test_every_stage_is_drawn_where_the_plan_places_it(plan: Plan) -> None:
    drawn = blocks(ElementTree.fromstring(memory_svg(plan)), "bytes")
    placed = [
        (name, start, start + region.stage_bytes)
        for name, region in plan.memory.placement.items()
        for start in range(region.offset, region.end, region.stage_bytes)
    ]
    assert [block[:3] for block in drawn] == placed
    scale = (WIDTH - LEFT - RIGHT) / bytes_shown(plan)
    for _, first, last, left, right in drawn:
        assert left == pytest.approx(LEFT + first * scale, abs=2e-3)
        assert right - left == pytest.approx((last - first) * scale, abs=2e-3)


def test_overlaid_buffers_have_rows_of_their_own() -> None:
    root = ElementTree.fromstring(memory_svg(overlaid()))
    rows: dict[str, str | None] = {}
    for rect in root.iter(f"{SVG}rect"):
        rows.setdefault((rect.findtext(f"{SVG}title") or "").split("[")[0], rect.get("y"))
    assert rows["early"] != rows["late & last"]
    assert any("over early, live in store" in (text.text or "") for text in root.iter(f"{SVG}text"))


@plans
def test_tensor_memory_is_drawn_to_its_last_column(plan: Plan) -> None:
    svg = memory_svg(plan)
    memory = plan.memory.tensor_memory
    drawn = blocks(ElementTree.fromstring(svg), "columns")
    stages = range(memory.stages) if memory else range(0)
    columns = memory.columns if memory else 0
    assert [block[1:3] for block in drawn] == [(i * columns, (i + 1) * columns) for i in stages]
    scale = (WIDTH - LEFT - RIGHT) / max(1, plan.target.tmem_columns)
    for _, first, last, left, right in drawn:
        assert (left, right) == pytest.approx((LEFT + first * scale, LEFT + last * scale), abs=2e-3)
    assert ("Tensor memory" in svg) == bool(memory)


def test_tensor_memory_tells_allocated_from_used() -> None:
    assert "192 columns of accumulators, 256 allocated, 256 free of 512" in memory_svg(overlaid())
