"""rms_norm against float64, over its cases, and what only it has."""

import dataclasses
from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels.norms import op, reference
from cute_kernels.norms.cases import CASES, LONG, Case, inputs
from cute_kernels.norms.plan import RmsNorm
from cute_kernels.runtime.accuracy import measure


def assert_right(case: Case, **more: Any) -> None:
    arguments = inputs(case) | more
    out = cute_kernels.rms_norm(**arguments)
    found = measure(out, reference.rms_norm(**arguments), reference.yardstick(**arguments))
    assert found.right, str(found)


@pytest.mark.parametrize("case", [*CASES, *LONG], ids=str)
def test_cases(case: Case) -> None:
    with cute_kernels.simulate() as simulation:
        assert_right(case)
    assert len(simulation.reports) == 1


@pytest.mark.parametrize("case", [CASES[4], LONG[1]], ids=str)
def test_blackwell(case: Case) -> None:
    with cute_kernels.simulate("sm_100a"):
        assert_right(case)


@pytest.mark.parametrize("row", [100, 64, 40])
def test_clusters_out_of_short_rows(monkeypatch: pytest.MonkeyPatch, row: int) -> None:
    monkeypatch.setattr(op, "RmsNorm", lambda **facts: RmsNorm(**facts, row=row))
    monkeypatch.setattr(op, "planned", op.planned.__wrapped__)  # plans kept are of the other rows
    with cute_kernels.simulate() as simulation:
        for case in (Case(3, 200, "float32", "float32"), Case(5, 197)):
            assert_right(case)
    assert {plan.cluster for plan in simulation.plans} == {-(-200 // row), -(-197 // row)}
    assert all(report.dsmem_bytes for report in simulation.reports)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-2])
def test_eps_is_inside_the_root(eps: float) -> None:
    with cute_kernels.simulate():
        assert_right(Case(4, 128, "float32"), eps=eps)
    assert op.EPS == 1e-6


def test_rows_of_zeros() -> None:
    with cute_kernels.simulate():
        assert torch.equal(cute_kernels.rms_norm(torch.zeros(3, 40)), torch.zeros(3, 40))


def test_large_values_of_a_half_do_not_overflow() -> None:
    x = torch.full((2, 256), 6e4, dtype=torch.float16)
    with cute_kernels.simulate():
        assert torch.equal(cute_kernels.rms_norm(x), torch.ones_like(x))


def test_rows_longer_than_any_cluster() -> None:
    with (
        cute_kernels.simulate(),
        pytest.raises(ValueError, match="rms_norm: x has rows of 262145; it takes up to 262144"),
    ):
        cute_kernels.rms_norm(torch.zeros(1, 262145))


def test_an_offset_needs_a_weight() -> None:
    with pytest.raises(ValueError, match="rms_norm: weight_offset is 1.0 without a weight"):
        cute_kernels.rms_norm(torch.zeros(1, 8), weight_offset=1.0)


def test_plans_are_kept() -> None:
    op.planned.cache_clear()
    with cute_kernels.simulate() as simulation:
        for m in (1, 2, 3):
            assert_right(dataclasses.replace(CASES[3], m=m))
    assert op.planned.cache_info().misses == 1
    assert len({id(plan) for plan in simulation.plans}) == 1
