"""What the benchmark of linear_norm times is what it says: right, and the same computation for every contender."""

from dataclasses import replace

import pytest
import torch

import cute_kernels as ck
from cute_kernels.linear_norm import cases, reference
from perf import linear_norm, rule


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_contenders_compute_the_same(norm: str) -> None:
    case = replace(linear_norm.case_of(40, 64, 72, norm), bias="bfloat16", residual=True)
    arguments = cases.inputs(case)
    with ck.simulate():
        y = ck.linear_norm(**arguments)
    torch.testing.assert_close(reference.linear_norm_pytorch(**arguments), y, rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_a_right_result_is_said_to_be(norm: str) -> None:
    with ck.simulate():
        assert "yardstick" in rule.checked(
            ck.linear_norm, reference, cases.inputs(linear_norm.case_of(40, 64, 72, norm))
        )


def test_the_list_on_request_has_every_extent() -> None:
    assert len(linear_norm.ALL) == 2 * 6 * 6 * 2
    assert set(linear_norm.CASES) <= set(linear_norm.ALL)


def test_share_hidden_and_floor() -> None:
    assert linear_norm.hidden(100.0, 150.0, 100.0) == "100%"
    assert linear_norm.hidden(125.0, 150.0, 100.0) == "50%"
    assert linear_norm.floor(cases.Case(262144, 1024, 1024)) == pytest.approx(696, rel=0.01)
