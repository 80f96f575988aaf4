"""Gradients: exactly those asked for, against float64, for every operator."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import cute_kernels
from cute_kernels.runtime import library, simulate
from cute_kernels.runtime.accuracy import measure
from tests.contract.conftest import Call, tensors


def test_gradients_against_float64(call: Call) -> None:
    arguments = call.arguments(m=70)
    with cute_kernels.simulate():
        out = call(**arguments)
        dy = torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).bfloat16().to(out.dtype)
        found = call.gradients(arguments, dy, call)
    wide = arguments | {name: value.double() for name, value in tensors(arguments).items()}
    single = arguments | {name: value.float() for name, value in tensors(arguments).items()}
    exact = call.gradients(wide, dy, call.operator.reference)
    yardstick = call.gradients(single, dy, call.operator.yardstick)
    for name in tensors(arguments):
        assert found[name].dtype == arguments[name].dtype
        accuracy = measure(found[name], exact[name], yardstick[name].to(found[name].dtype))
        assert accuracy.right, f"{name}: {accuracy}"


@pytest.mark.parametrize("count", range(6))
def test_any_subset(call: Call, count: int) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate():
        dy = torch.randn_like(call(**arguments))
        everything = call.gradients(arguments, dy, call)
        for asked in itertools.combinations(everything, count):
            leaves = {name: value.detach().requires_grad_(name in asked) for name, value in tensors(arguments).items()}
            out = call(**{**arguments, **leaves})
            assert out.requires_grad == bool(asked)
            if asked:
                out.backward(dy)
            assert [name for name in leaves if leaves[name].grad is not None] == list(asked)
            assert all(close(leaves[name].grad, everything[name]) for name in asked)


class Work(TorchDispatchMode):
    """Counts the elements that operators make."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        outputs = found if isinstance(found, (tuple, list)) else (found,)
        self.elements += sum(output.numel() for output in outputs if isinstance(output, torch.Tensor))
        return found


def test_no_work_for_gradients_that_nobody_asked(call: Call) -> None:
    arguments = call.arguments()

    def elements(asked: tuple[str, ...]) -> int:
        leaves = {name: value.detach().requires_grad_(name in asked) for name, value in tensors(arguments).items()}
        with cute_kernels.simulate():
            out = call(**arguments | leaves)
            with Work() as work:
                torch.autograd.grad(out, [leaves[name] for name in asked], torch.ones_like(out))
        return work.elements

    everything = elements(tuple(tensors(arguments)))
    for name in (call.main, call.small.parameter):
        assert elements((name,)) < everything, name


def close(one: torch.Tensor | None, other: torch.Tensor) -> bool:
    """Equal but for the order of float32 sums: a bias alone takes another way than a bias with the rest."""
    return one is not None and torch.allclose(one, other, rtol=2 * torch.finfo(other.dtype).eps, atol=1e-5)


def test_incoming_gradients_of_any_layout_and_dtype(call: Call) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate():
        out = call(**arguments)
        dy = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(out.dtype)
        ones = torch.ones(1, 1, dtype=out.dtype).expand_as(out)
        for odd in (dy.mT.contiguous().mT, ones, torch.stack([dy, dy], dim=-1)[..., 0]):
            expected, found = (call.gradients(arguments, d, call) for d in (odd.contiguous(), odd))
            assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_an_incoming_gradient_in_float32(call: Call) -> None:
    arguments = call.arguments()
    x = arguments.pop(call.main).requires_grad_()
    with cute_kernels.simulate():
        out = call(**{call.main: x}, **arguments)
        dy = torch.randn(out.shape)
        found, expected = (torch.autograd.grad(out, x, d, retain_graph=True)[0] for d in (dy, dy.to(out.dtype)))
    assert torch.equal(found, expected)


def test_twice_with_retain_graph(call: Call) -> None:
    arguments = call.arguments()
    x = arguments.pop(call.main).requires_grad_()
    with cute_kernels.simulate():
        loss = call(**{call.main: x}, **arguments).float().square().sum()
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_double_backward_says_so(call: Call) -> None:
    arguments = call.arguments()
    x = arguments.pop(call.main).requires_grad_()
    with cute_kernels.simulate():
        out = call(**{call.main: x}, **arguments)
    (gradient,) = torch.autograd.grad(out.float().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match=f"{call.operator.name}: double backward is not supported"):
        gradient.float().sum().backward()


def test_forward_mode_says_so(call: Call) -> None:
    arguments = call.arguments()
    x = arguments.pop(call.main)

    def out(x: torch.Tensor) -> torch.Tensor:
        return call(**{call.main: x}, **arguments).float().square().sum()

    def by_dual_numbers() -> Any:
        with torch.autograd.forward_ad.dual_level():
            return out(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))

    ways: tuple[Callable[[], Any], ...] = (
        lambda: torch.func.jvp(out, (x,), (torch.ones_like(x),)),
        by_dual_numbers,
    )
    for way in ways:
        with (
            cute_kernels.simulate(),
            pytest.raises(
                NotImplementedError, match=f"{call.operator.name}: forward-mode .* is not supported"
            ) as caught,
        ):
            way()
        assert "\n" not in str(caught.value)


def test_tangents_of_something_else_do_no_harm(call: Call) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate(), torch.autograd.forward_ad.dual_level():
        torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
        inside = call(**arguments)
        assert torch.equal(inside, call(**arguments))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_a_graph(call: Call, mode: type) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate(), mode():
        out = call(**{**arguments, call.main: arguments[call.main].requires_grad_()})
    assert not out.requires_grad


def test_autocast_with_float32_weights(call: Call) -> None:
    arguments = call.arguments(dtype="bfloat16")
    name = call.small.parameter
    weight = arguments[name].float().requires_grad_()
    with cute_kernels.simulate(), torch.autocast("cpu", torch.bfloat16):
        out, expected = call(**{**arguments, name: weight}), call(**arguments)
        assert torch.equal(out, expected)
    out.float().sum().backward()
    assert out.dtype is expected.dtype
    assert weight.grad is not None
    assert weight.grad.dtype is torch.float32


def test_backward_runs_under_the_simulation_of_its_forward(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate("sm_100a") as simulation:
        out = call(**{**arguments, call.main: arguments[call.main].requires_grad_()})
    seen = []

    def spy(entered: Any) -> Any:
        seen.append(entered)
        return simulate.entered(entered)

    monkeypatch.setattr(library, "entered", spy)
    out.backward(torch.ones_like(out))
    assert seen == [simulation]
    assert {plan.target.arch for plan in simulation.plans} == {"sm_100a"}
    assert simulate.current() is None
