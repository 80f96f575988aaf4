"""linear_norm against float64, over its cases and both generations, and what only it has."""

from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels.linear_norm import reference
from cute_kernels.linear_norm.cases import CASES, DEMO, Case, inputs
from cute_kernels.runtime.accuracy import measure


def assert_right(case: Case, **more: Any) -> None:
    arguments: dict[str, Any] = inputs(case) | more
    out = cute_kernels.linear_norm(**arguments)
    found = measure(out, reference.linear_norm(**arguments), reference.linear_norm_yardstick(**arguments))
    assert found.right, str(found)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: Case, arch: str) -> None:
    with cute_kernels.simulate(arch) as simulation:
        assert_right(case)
    (plan,), (report,) = simulation.plans, simulation.reports
    assert plan.target.arch == arch
    assert bool(report.dsmem_bytes) == (plan.cluster > 1)


def test_traffic_is_what_the_schedule_says() -> None:
    with cute_kernels.simulate() as simulation:
        assert_right(DEMO)
    (plan,), (report,) = simulation.plans, simulation.reports
    tiles = -(-DEMO.m // plan.rows)
    assert report.bytes_written == DEMO.m * DEMO.n * 2
    assert report.mma_flops == 2 * tiles * plan.rows * DEMO.n * DEMO.k
    peers = plan.cluster * (plan.cluster - 1)
    assert report.dsmem_bytes == tiles * plan.rows * peers * 4  # a float32 a row, from every CTA to every other
    assert report.bytes_read == 2 * tiles * DEMO.n * DEMO.k + 2 * plan.cluster * DEMO.m * DEMO.k


@pytest.mark.parametrize("eps", [0.0, 1e-1])
def test_eps_is_inside_the_root(eps: float) -> None:
    with cute_kernels.simulate():
        assert_right(Case(9, 64, 64), eps=eps)


def test_values_beyond_a_half_that_the_norm_brings_back() -> None:
    x, weight = torch.full((3, 512), 200.0).half(), torch.full((64, 512), 10.0).half()  # a product of 1024000
    with cute_kernels.simulate():
        assert torch.equal(cute_kernels.linear_norm(x, weight, norm="rms"), torch.ones(3, 64).half())


@pytest.mark.parametrize(
    ("x", "weight", "norm", "message"),
    [
        ((4, 12), (64, 12), "rms", r"x is of shape \[4, 12\]; it takes \[..., K\] with K a multiple of 8"),
        ((4, 16), (60, 16), "rms", r"weight is of shape \[60, 16\]; it takes \[N, 16\] with N a multiple of 64"),
        ((4, 16), (0, 16), "rms", r"weight is of shape \[0, 16\]"),
        ((4, 16), (64, 16), "layer", "norm is 'layer'; it takes 'rms'"),
        ((4, 16), (64, 16), [], r"norm is \[\]; it takes 'rms'"),
        ((4, 16), (64 * 17, 16), "rms", "weight has N = 1088; no plan takes it .*17 CTAs"),
    ],
)
def test_refusals(x: tuple[int, ...], weight: tuple[int, ...], norm: Any, message: str) -> None:
    with cute_kernels.simulate(), pytest.raises(ValueError, match=f"linear_norm: {message}") as caught:
        cute_kernels.linear_norm(torch.zeros(x).half(), torch.zeros(weight).half(), norm=norm)
    assert "\n" not in str(caught.value)


def test_float32_is_refused() -> None:
    with pytest.raises(TypeError, match="linear_norm: x is torch.float32; it takes torch.bfloat16 or torch.float16"):
        cute_kernels.linear_norm(torch.zeros(4, 8), torch.zeros(64, 8), norm="rms")


def test_the_norm_has_to_be_said() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'norm'"):
        cute_kernels.linear_norm(torch.zeros(4, 8).half(), torch.zeros(64, 8).half())  # type: ignore[call-arg]
