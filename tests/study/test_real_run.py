"""Study and the simulator agree on what a span is: a real run can be drawn, and twice the same."""

from typing import Any
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

from cute_kernels import simulator
from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.plan import SM90A, SM100A, Target
from cute_kernels.study import page, timeline_svg
from cute_kernels.study.spans import KINDS, lanes


def run(the_plan: Any) -> Any:
    rng = np.random.default_rng(0)
    tensors = {
        spec.name: rng.standard_normal([256 if e == "m" else e for e in spec.extents]).astype(ml_dtypes.bfloat16)
        for spec in the_plan.tensors
    }
    return simulator.run(the_plan, tensors, strategy="timed", trace=True)


@pytest.mark.parametrize("target", [SM90A, SM100A], ids=lambda t: t.arch)
def test_a_run_can_be_drawn_and_twice_the_same(target: Target) -> None:
    the_plan = plan(LinearNorm(128, 512, "bfloat16"), target)
    report = run(the_plan)
    assert {span.kind for span in report.spans} <= set(KINDS)
    names = {lane.name.rstrip(" 0123456789") for lane in lanes(report.spans)}
    assert {role.name for role in the_plan.roles} < names
    drawn = ElementTree.fromstring(timeline_svg(report.spans))
    bars = [rect for rect in drawn.iter() if rect.get("class", "").startswith("span ")]
    assert len(bars) == len(report.spans) > 100
    again = run(the_plan)
    assert page(the_plan, report.spans, report) == page(the_plan, again.spans, again)
