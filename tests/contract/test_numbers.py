"""Rows keep to themselves and results repeat bit by bit, for every operator."""

import pytest
import torch

import cute_kernels
from tests.contract.conftest import Call, as_arrays_have, assert_right, tensors


def test_rows_with_a_large_mean(call: Call) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate():
        assert_right(call, call.of_values(arguments, lambda t: t + 100))


@pytest.mark.parametrize("value", [0.0, 1.0, -300.0, 6e3])
def test_constant_rows(call: Call, value: float) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate():
        assert_right(call, call.of_values(arguments, lambda t: torch.full_like(t, value)))


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1e-2])
def test_eps_is_inside_the_root(call_with_eps: Call, eps: float) -> None:
    """Rows so small that it decides the result."""
    call = call_with_eps
    arguments = call.arguments()
    with cute_kernels.simulate():
        assert_right(call, call.of_values(arguments, lambda t: t / 64), **{call.small.eps: eps})


def test_float16_sums_do_not_overflow(call: Call) -> None:
    """Squares of x, and products with a matrix, are far beyond 65504; results are not."""
    arguments = call.arguments()
    arguments |= {name: as_arrays_have(value) for name, value in tensors(arguments).items()}
    if call.operator.name == "linear_norm":
        arguments["weight"] = arguments["weight"] * 16
    with cute_kernels.simulate():
        assert_right(call, call.of_values(arguments, lambda t: (t * 2e4).clamp(-6e4, 6e4)))


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_a_bad_row_stays_alone(call: Call, poison: float) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate():
        clean = call(**arguments)
        out = call(**call.spoiled(arguments, 2, poison))
    others = [0, 1, 3, 4, 5]
    assert torch.equal(out[others], clean[others])
    assert not out[2].isfinite().all()


def test_a_row_does_not_depend_on_the_batch(call: Call) -> None:
    arguments = call.arguments(m=140)
    with cute_kernels.simulate():
        whole = call(**arguments)
        assert torch.equal(call(**call.of_rows(arguments, lambda t: t[131:133])), whole[131:133])
        assert torch.equal(call(**call.of_rows(arguments, lambda t: t[:1])), whole[:1])


@pytest.mark.parametrize("strategy", [None, "round_robin", "random"])
def test_bits_do_not_depend_on_timing(call: Call, strategy: str | None) -> None:
    arguments = call.arguments(m=9)
    with cute_kernels.simulate():
        expected = call(**arguments)
        gradients = call.gradients(arguments, torch.ones_like(expected), call)
    for seed in range(3):
        with cute_kernels.simulate(seed=seed, strategy=strategy):
            assert torch.equal(call(**arguments), expected)
            found = call.gradients(arguments, torch.ones_like(expected), call)
        assert all(torch.equal(found[name], gradients[name]) for name in found)


def test_both_generations_are_right_alike(call: Call) -> None:
    arguments = call.arguments()
    outs = {}
    for arch in ("sm_90a", "sm_100a"):
        with cute_kernels.simulate(arch) as simulation:
            outs[arch] = call(**arguments)
        assert [plan.target.arch for plan in simulation.plans] == [arch]
    assert torch.allclose(outs["sm_90a"], outs["sm_100a"], rtol=1e-2)


def test_inputs_are_not_written(call: Call) -> None:
    arguments = call.arguments()
    before = {name: value.clone() for name, value in tensors(arguments).items()}
    with cute_kernels.simulate():
        dy = torch.ones_like(call(**arguments))
        call.gradients(arguments, dy, call)
    assert all(torch.equal(arguments[name], value) for name, value in before.items())
    assert torch.equal(dy, torch.ones_like(dy))
