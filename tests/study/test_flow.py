"""The flow shows every ring and every tensor between the lifelines they belong to."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.norms.plan import Norm
from cute_kernels.norms.plan import plan as rms_norm
from cute_kernels.plan import SM90A, SM100A, Plan, Tensor
from cute_kernels.study import flow_svg
from cute_kernels.study.flow import in_order

SVG = "{http://www.w3.org/2000/svg}"
IN, OUT = "global memory, read", "global memory, written"


def arrows(svg: str) -> list[tuple[str, str, str]]:
    """(name, from, to) from top to bottom."""
    titles = [g.findtext(f"{SVG}title") or "" for g in ElementTree.fromstring(svg).iter(f"{SVG}g")]
    return [(name, *ends.split(" to ")) for name, ends in (title.split(": ") for title in titles)]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("the_plan", "expected"),
    [
        (
            plan(LinearNorm(512, 512, "bfloat16"), SM100A),
            [
                ("x, weight", IN, "load"),
                ("operands", "load", "multiply"),
                ("accumulators", "multiply", "epilogue"),
                ("mail", "epilogue", "epilogue"),
                ("y", "epilogue", OUT),
            ],
        ),
        (
            plan(LinearNorm(512, 256, "bfloat16"), SM90A),
            [("x, weight", IN, "load"), ("operands", "load", "multiply"), ("y", "multiply", OUT)],
        ),
        (
            rms_norm(Norm(1024, "bfloat16", weight_dtype="float32"), SM90A),
            [("x, weight", IN, "normalise"), ("y", "normalise", OUT)],
        ),
    ],
    ids=["blackwell", "one CTA", "norm"],
)
def test_arrows(the_plan: Any, expected: list[tuple[str, str, str]]) -> None:
    assert arrows(flow_svg(the_plan)) == expected


def test_roles_are_in_the_order_of_the_data_not_of_their_warps() -> None:
    assert in_order(plan(LinearNorm(512, 512, "bfloat16"), SM100A)) == ["load", "multiply", "epilogue"]


def test_a_role_that_writes_to_itself_still_comes_before_those_it_feeds() -> None:
    rings = (SimpleNamespace(filled_by="a", drained_by="a"), SimpleNamespace(filled_by="a", drained_by="b"))
    roles = (SimpleNamespace(name="b"), SimpleNamespace(name="a"))
    assert in_order(cast(Plan, SimpleNamespace(roles=roles, rings=rings))) == ["a", "b"]


def test_what_a_late_role_reads_is_drawn_where_it_is_used() -> None:
    blackwell = plan(LinearNorm(512, 512, "bfloat16"), SM100A)
    gate = Tensor("gate", "bfloat16", ("m", 512), (128, 64), "parts")
    names = [name for name, _, _ in arrows(flow_svg(replace(blackwell, tensors=(*blackwell.tensors, gate))))]
    assert names == ["x, weight", "operands", "gate", "accumulators", "mail", "y"]


def test_arrows_reach_from_lifeline_to_lifeline() -> None:
    root = ElementTree.fromstring(flow_svg(plan(LinearNorm(512, 512, "bfloat16"), SM90A)))
    lifelines = sorted(float(line.get("x1", "nan")) for line in root.iter(f"{SVG}line"))
    ends = []
    for arrow in root.iter(f"{SVG}g"):
        head = float(next(arrow.iter(f"{SVG}polygon")).get("points", "").split(",")[0])
        ends.append((float(next(arrow.iter(f"{SVG}rect")).get("x", "nan")), head))
    source, load, multiply, sink = lifelines
    assert ends == [(source, load), (load, multiply), (multiply, multiply), (multiply, sink)]
