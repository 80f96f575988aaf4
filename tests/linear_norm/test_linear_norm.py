"""linear_norm against float64, over its cases and both generations, and what only it has."""

from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels.linear_norm import reference
from cute_kernels.linear_norm.cases import AFFINE, CASES, DEMO, Case, inputs
from cute_kernels.runtime.accuracy import measure

EVERYTHING: dict[str, Any] = {"return_z": True, "return_stats": True}


def assert_right(case: Case, **more: Any) -> None:
    """Every result that is asked for: y and z under the rule, statistics to float32's accuracy beside rows of size 1."""
    arguments: dict[str, Any] = inputs(case) | more
    found, exact, yardstick = (
        results if isinstance(results, tuple) else (results,)
        for results in (
            cute_kernels.linear_norm(**arguments),
            reference.linear_norm(**arguments),
            reference.linear_norm_yardstick(**arguments),
        )
    )
    for ours, reals, chain in zip(found, exact, yardstick, strict=True):
        if ours is None:
            assert reals is None
        elif ours.dtype is torch.float32:
            torch.testing.assert_close(ours.double(), reals, rtol=2e-5, atol=1e-6)
        else:
            accuracy = measure(ours, reals, chain)
            assert accuracy.right, str(accuracy)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: Case, arch: str) -> None:
    with cute_kernels.simulate(arch) as simulation:
        assert_right(case, **EVERYTHING)
    (plan,), (report,) = simulation.plans, simulation.reports
    assert plan.target.arch == arch
    assert bool(report.dsmem_bytes) == (plan.cluster > 1)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_what_is_returned_leaves_y_as_it_is(arch: str) -> None:
    for case in CASES[:8]:
        with cute_kernels.simulate(arch):
            y, *_ = cute_kernels.linear_norm(**inputs(case), **EVERYTHING)
            assert torch.equal(cute_kernels.linear_norm(**inputs(case)), y)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_wide_rows(arch: str) -> None:
    for n, cluster in ((2048, 8), (3000, 12), (3072, 12), (4096, 16)):
        with cute_kernels.simulate(arch) as simulation:
            assert_right(Case(5, 16, n, norm="layer", **AFFINE), **EVERYTHING)
        assert simulation.plans[0].cluster == cluster


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_columns_beyond_the_last_count_in_no_statistic(arch: str) -> None:
    """Rows of ones: a column of zeros too many would show in the mean and in the variance."""
    x, weight = torch.ones(3, 8).bfloat16(), torch.full((72, 8), 0.125).bfloat16()
    with cute_kernels.simulate(arch):
        _, mean, rstd = cute_kernels.linear_norm(x, weight, norm="layer", eps=1.0, return_stats=True)
        _, _, root = cute_kernels.linear_norm(x, weight, norm="rms", eps=0.0, return_stats=True)
    assert torch.equal(mean, torch.ones(3))
    assert torch.equal(rstd, torch.ones(3))
    assert torch.equal(root, torch.ones(3))


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_gradients_through_z_and_y(norm: str) -> None:
    """z is differentiated with y, and alone; statistics are not."""
    arguments = inputs(Case(20, 32, 64, "float16", norm, "float16", "float32", "float16", residual=True))
    names = [name for name, value in arguments.items() if isinstance(value, torch.Tensor)]

    def gradients(operator: Any, dtype: torch.dtype | None, factor: float) -> list[torch.Tensor]:
        leaves = {name: arguments[name].to(dtype or arguments[name].dtype).requires_grad_() for name in names}
        y, z = operator(**arguments | leaves, return_z=True)
        loss = (z.to(y.dtype) * torch.linspace(-1, 1, 64).to(y.dtype)).sum() + factor * (y * y.detach().sign()).sum()
        return list(torch.autograd.grad(loss, list(leaves.values())))

    for factor in (0.0, 1.0):
        with cute_kernels.simulate():
            found = gradients(cute_kernels.linear_norm, None, factor)
        exact = gradients(reference.linear_norm, torch.float64, factor)
        for name, ours, reals in zip(names, found, exact, strict=True):
            assert ours.dtype == arguments[name].dtype
            scale = 1e-2 * (1 + float(reals.abs().max()))
            assert torch.allclose(ours.double(), reals, atol=scale, rtol=1e-2), name


def test_statistics_are_not_differentiated() -> None:
    arguments = inputs(Case(4, 16, 64))
    arguments["x"].requires_grad_()
    with cute_kernels.simulate():
        _, _, rstd = cute_kernels.linear_norm(**arguments, return_stats=True)
    assert not rstd.requires_grad


def test_traffic_is_what_the_schedule_says() -> None:
    with cute_kernels.simulate() as simulation:
        assert_right(DEMO)
    (plan,), (report,) = simulation.plans, simulation.reports
    tiles = -(-DEMO.m // plan.rows)
    assert report.bytes_written == DEMO.m * DEMO.n * 2
    assert report.mma_flops == 2 * tiles * plan.rows * DEMO.n * DEMO.k
    peers = plan.cluster * (plan.cluster - 1)
    assert report.dsmem_bytes == tiles * plan.rows * peers * 4  # a float32 a row, from every CTA to every other
    weights = report.blocks // plan.cluster if plan.problem.tiling.turns else tiles  # resident: once a cluster
    assert report.bytes_read == 2 * weights * DEMO.n * DEMO.k + 2 * plan.cluster * DEMO.m * DEMO.k


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
        ((4, 16), (60, 16), "rms", r"weight is of shape \[60, 16\]; it takes \[N, 16\] with N a multiple of 8"),
        ((4, 16), (0, 16), "rms", r"weight is of shape \[0, 16\]"),
        ((4, 16), (64, 16), "batch", "norm is 'batch'; it takes 'rms' or 'layer'"),
        ((4, 16), (64, 16), [], r"norm is \[\]; it takes 'rms' or 'layer'"),
        ((4, 16), (4104, 16), "rms", "weight has N = 4104; no plan takes it .*17 CTAs"),
    ],
)
def test_refusals(x: tuple[int, ...], weight: tuple[int, ...], norm: Any, message: str) -> None:
    with cute_kernels.simulate(), pytest.raises(ValueError, match=f"linear_norm: {message}") as caught:
        cute_kernels.linear_norm(torch.zeros(x).half(), torch.zeros(weight).half(), norm=norm)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["bias", "norm_weight", "norm_bias", "residual"])
def test_options_of_another_shape_dtype_or_device_are_refused(name: str) -> None:
    x, weight = torch.zeros(4, 16).half(), torch.zeros(64, 16).half()
    shape = (4, 64) if name == "residual" else (64,)
    refused: tuple[tuple[Any, type[Exception], str], ...] = (
        (torch.zeros(*shape[:-1], 63).half(), ValueError, "of shape"),
        (torch.zeros(shape).double(), TypeError, "torch.float64; it takes torch.float16"),
        (torch.zeros(shape).half().to("meta"), ValueError, "on meta; it takes a tensor on"),
        ([0.0], TypeError, "of type list"),
    )
    for value, error, message in refused:
        options: dict[str, Any] = {name: value}
        with cute_kernels.simulate(), pytest.raises(error, match=f"linear_norm: {name} is {message}") as caught:
            cute_kernels.linear_norm(x, weight, norm="rms", **options)
        assert "\n" not in str(caught.value)


def test_float32_is_refused() -> None:
    with pytest.raises(TypeError, match="linear_norm: x is torch.float32; it takes torch.bfloat16 or torch.float16"):
        cute_kernels.linear_norm(torch.zeros(4, 8), torch.zeros(64, 8), norm="rms")


def test_the_norm_has_to_be_said() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'norm'"):
        cute_kernels.linear_norm(torch.zeros(4, 8).half(), torch.zeros(64, 8).half())  # type: ignore[call-arg]
