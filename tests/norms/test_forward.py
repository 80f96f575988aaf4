"""rms_norm and layer_norm against float64, over their cases, and what only they have."""

import dataclasses
from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.norms import op, prepare
from cute_kernels.norms.cases import CASES, LONG, Case, inputs
from cute_kernels.norms.plan import Norm
from cute_kernels.runtime.accuracy import measure

NORMS = ("rms_norm", "layer_norm")
EVERYTHING = Case(6, 200, "bfloat16", "float32", 0.5, "bfloat16", residual=True)


def assert_right(name: str, case: Case, **more: Any) -> None:
    arguments, operator = inputs(case) | more, OPERATORS[name]
    out = operator.call(**arguments)
    found = measure(out, operator.reference(**arguments), operator.yardstick(**arguments))
    assert found.right, str(found)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("case", [*CASES, *LONG], ids=str)
def test_cases(name: str, case: Case, arch: str) -> None:
    with cute_kernels.simulate(arch) as simulation:
        assert_right(name, case)
    assert [plan.target.arch for plan in simulation.plans] == [arch]


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("mean", [10.0, 1e4])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_mean_that_dwarfs_the_deviation(name: str, dtype: str, mean: float) -> None:
    with cute_kernels.simulate():
        assert_right(name, Case(70, 256, dtype, mean=mean))


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("value", [0.0, 1.0, -300.0, 6e4])
def test_constant_rows(name: str, value: float) -> None:
    x = torch.full((3, 77), value, dtype=torch.float16)
    with cute_kernels.simulate():
        assert_right(name, EVERYTHING, x=x, residual=None, weight=None, weight_offset=0.0, bias=None)


@pytest.mark.parametrize("n", [7, 100, 1000, 9000])
def test_what_is_constant_is_zero_without_its_mean(n: int) -> None:
    """Though float32 cannot add up, or average, such numbers exactly."""
    x = torch.tensor([0.1, 1 / 3, 3.3e3, -7.7e4])[:, None].expand(-1, n)
    with cute_kernels.simulate():
        assert not cute_kernels.layer_norm(x).any()


def test_a_large_mean_costs_no_accuracy() -> None:
    x = torch.randn(50, 1000) + 1e4
    with cute_kernels.simulate():
        found = cute_kernels.layer_norm(x).double()
    exact = OPERATORS["layer_norm"].reference(x=x)
    assert (found - exact).norm() < 2e-7 * exact.norm()


@pytest.mark.parametrize("row", [100, 64, 40])
def test_clusters_out_of_short_rows(monkeypatch: pytest.MonkeyPatch, row: int) -> None:
    monkeypatch.setattr(op, "Norm", lambda **facts: Norm(**facts, row=row))
    with cute_kernels.simulate() as simulation:
        for case in (Case(3, 200, "float32", "float32", mean=50.0), Case(5, 197), EVERYTHING):
            for name in NORMS:
                assert_right(name, case)
    assert {plan.cluster for plan in simulation.plans} == {-(-200 // row), -(-197 // row)}
    assert all(report.dsmem_bytes for report in simulation.reports)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-2])
def test_eps_is_inside_the_root(name: str, eps: float) -> None:
    with cute_kernels.simulate():
        assert_right(name, Case(4, 128, "float32"), eps=eps)


def test_eps_unless_told() -> None:
    x = 1e-3 * torch.randn(4, 64)
    with cute_kernels.simulate():
        assert torch.equal(cute_kernels.rms_norm(x), cute_kernels.rms_norm(x, eps=1e-6))
        assert torch.equal(cute_kernels.layer_norm(x), cute_kernels.layer_norm(x, eps=1e-5))


def test_large_values_of_a_half_do_not_overflow() -> None:
    x = torch.full((2, 256), 6e4, dtype=torch.float16)
    with cute_kernels.simulate():
        assert torch.equal(cute_kernels.rms_norm(x), torch.ones_like(x))


# What is returned beside y


def statistics(arguments: dict[str, Any], centre: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The sum, its mean and rstd in float64."""
    z = arguments["x"].double() + arguments["residual"].double()
    mean = z.mean(-1) if centre else torch.zeros(z.shape[:-1])
    eps = 1e-5 if centre else 1e-6
    return z, mean, ((z - mean[..., None]).square().mean(-1) + eps).rsqrt()


@pytest.mark.parametrize("leading", [(6,), (2, 3)])
def test_everything_layer_norm_returns(leading: tuple[int, ...]) -> None:
    arguments = inputs(EVERYTHING)
    arguments |= {name: arguments[name].view(*leading, -1) for name in ("x", "residual")}
    with cute_kernels.simulate():
        y, total, mean, rstd = cute_kernels.layer_norm(**arguments, return_residual=True, return_stats=True)
        assert torch.equal(y, cute_kernels.layer_norm(**arguments))
    expected = statistics(arguments, centre=True)
    assert mean.shape == rstd.shape == leading
    assert torch.equal(total, (arguments["x"].float() + arguments["residual"].float()).bfloat16())
    for found, exact in ((mean, expected[1]), (rstd, expected[2])):
        assert found.dtype is torch.float32
        assert torch.allclose(found.double(), exact, rtol=1e-6, atol=1e-7)


def test_everything_rms_norm_returns() -> None:
    arguments = inputs(EVERYTHING)
    with cute_kernels.simulate():
        y, total, mean, rstd = cute_kernels.rms_norm(**arguments, return_residual=True, return_stats=True)
        pair = cute_kernels.rms_norm(**arguments, return_residual=True)
        triple = cute_kernels.rms_norm(**arguments, return_stats=True)
    assert mean is None
    assert torch.allclose(rstd.double(), statistics(arguments, centre=False)[2], rtol=1e-6)
    assert torch.equal(pair[0], y)
    assert torch.equal(pair[1], total)
    assert torch.equal(triple[0], y)
    assert triple[1] is None
    assert torch.equal(triple[2], rstd)


@pytest.mark.parametrize("name", NORMS)
def test_without_a_residual_the_sum_is_x(name: str) -> None:
    x = torch.randn(3, 32)
    with cute_kernels.simulate():
        y, total = OPERATORS[name].call(x=x, return_residual=True)
        assert torch.equal(y, OPERATORS[name].call(x=x))
    assert total is x


@pytest.mark.parametrize("name", NORMS)
def test_no_rows(name: str) -> None:
    x = torch.empty(2, 0, 32)
    with cute_kernels.simulate() as simulation:
        found = OPERATORS[name].call(x=x, residual=x, return_residual=True, return_stats=True)
    assert [None if t is None else t.shape for t in found] == [
        (2, 0, 32),
        (2, 0, 32),
        None if name == "rms_norm" else (2, 0),
        (2, 0),
    ]
    assert not simulation.reports


# What is refused


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"weight": None, "weight_offset": 1.0}, ValueError, "weight_offset is 1.0 without a weight"),
        ({"weight_offset": "x"}, TypeError, "weight_offset is 'x'; it takes a finite number"),
        ({"weight_offset": float("nan")}, ValueError, "weight_offset is nan; it takes a finite number"),
        ({"weight_offset": 10**400}, ValueError, "weight_offset is 10000.*…; it takes a finite number"),
        ({"return_stats": "no"}, TypeError, "return_stats is 'no'; it takes True or False"),
        ({"return_residual": torch.ones(3)}, TypeError, r"return_residual is tensor\(.*\); it takes True or False"),
        ({"residual": torch.zeros(6, 100)}, TypeError, "residual is torch.float32; it takes torch.bfloat16"),
        (
            {"residual": torch.zeros(100).bfloat16()},
            ValueError,
            r"residual is of shape \[100\]; it takes x's shape, \[6, 200\]",
        ),
        ({"bias": torch.zeros(6, 200).bfloat16()}, ValueError, r"bias is of shape \[6, 200\]; it takes \[200\]"),
        ({"bias": torch.zeros(200).half()}, TypeError, "bias is torch.float16; it takes torch.bfloat16 or"),
        ({"residual": torch.zeros(6, 200).bfloat16().to("meta")}, ValueError, "residual is on meta; it takes"),
    ],
)
def test_refusals(name: str, change: dict[str, Any], error: type[Exception], message: str) -> None:
    with cute_kernels.simulate() as simulation, pytest.raises(error, match=f"{name}: {message}") as caught:
        OPERATORS[name].call(**{**inputs(EVERYTHING), **change})
    assert "\n" not in str(caught.value)
    assert not simulation.reports


@pytest.mark.parametrize("name", NORMS)
def test_rows_longer_than_any_cluster(name: str) -> None:
    message = f"{name}: x has rows of 262145; it takes up to 262144"
    with cute_kernels.simulate(), pytest.raises(ValueError, match=message):
        OPERATORS[name].call(x=torch.zeros(1, 262145))


def test_plans_are_kept() -> None:
    prepare.planned.cache_clear()
    with cute_kernels.simulate() as simulation:
        for m in (1, 2, 3):
            assert_right("rms_norm", dataclasses.replace(CASES[3], m=m))
    assert prepare.planned.cache_info().misses == 1
    assert len({id(plan) for plan in simulation.plans}) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_squares_that_overflow_are_no_reason_for_nan(dtype: torch.dtype) -> None:
    """The deviation is infinite, so what is finite is scaled to 0, as in a plain float32 chain."""
    x = torch.randn(3, 100, generator=torch.Generator().manual_seed(0)).to(dtype)
    x[0, 0] = 1e30
    x[1] = 1e30
    with cute_kernels.simulate():
        y = cute_kernels.layer_norm(x)
        alone = cute_kernels.layer_norm(x[2:])
    assert (y[:2] == 0).all()
    assert torch.equal(y[2:], alone)
