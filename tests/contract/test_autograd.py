"""Gradients: exactly those asked for, against float64, for every operator."""

import itertools

import pytest
import torch

import cute_kernels
from cute_kernels.runtime import simulate
from cute_kernels.runtime.accuracy import measure
from tests.contract.conftest import Call

TENSORS = ("x", "weight")


def test_gradients_against_float64(call: Call) -> None:
    arguments = call.arguments(m=70)
    with cute_kernels.simulate():
        out = call(**arguments)
        dy = torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).to(out.dtype)
        found = call.gradients(arguments, dy, call)
    wide = {name: v.double() if isinstance(v, torch.Tensor) else v for name, v in arguments.items()}
    single = {name: v.float() if isinstance(v, torch.Tensor) else v for name, v in arguments.items()}
    exact = call.gradients(wide, dy, call.operator.reference)
    yardstick = call.gradients(single, dy, call.operator.module("reference").yardstick)
    for name in TENSORS:
        assert found[name].dtype == arguments[name].dtype
        accuracy = measure(found[name], exact[name], yardstick[name].to(found[name].dtype))
        assert accuracy.right, f"{name}: {accuracy}"


@pytest.mark.parametrize("asked", [c for n in range(3) for c in itertools.combinations(TENSORS, n)])
def test_any_subset(call: Call, asked: tuple[str, ...]) -> None:
    arguments = call.arguments()
    leaves = {name: arguments[name].detach().requires_grad_(name in asked) for name in TENSORS}
    with cute_kernels.simulate():
        out = call(**{**arguments, **leaves})
        assert out.requires_grad == bool(asked)
        if asked:
            out.float().sum().backward()
    assert [name for name in TENSORS if leaves[name].grad is not None] == list(asked)


def test_incoming_gradients_of_any_layout_and_dtype(call: Call) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate():
        out = call(**arguments)
        dy = torch.randn(out.shape, generator=torch.Generator().manual_seed(3)).to(out.dtype)
        expected = call.gradients(arguments, dy, call)["x"]
        assert torch.equal(call.gradients(arguments, dy.t().contiguous().t(), call)["x"], expected)
        ones = call.gradients(arguments, torch.ones_like(out), call)["x"]
        assert torch.equal(call.gradients(arguments, torch.ones(1, 1, dtype=out.dtype).expand_as(out), call)["x"], ones)


def test_twice_with_retain_graph(call: Call) -> None:
    arguments = call.arguments()
    x = arguments.pop("x").requires_grad_()
    with cute_kernels.simulate():
        loss = call(x=x, **arguments).float().square().sum()
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_double_backward_says_so(call: Call) -> None:
    arguments = call.arguments()
    x = arguments.pop("x").requires_grad_()
    with cute_kernels.simulate():
        out = call(x=x, **arguments)
    (gradient,) = torch.autograd.grad(out.float().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match=f"{call.operator.name}: double backward is not supported"):
        gradient.float().sum().backward()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_a_graph(call: Call, mode: type) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate(), mode():
        out = call(**{**arguments, "x": arguments["x"].requires_grad_()})
    assert not out.requires_grad


def test_autocast_with_float32_weights(call: Call) -> None:
    arguments = call.arguments(dtype="bfloat16")
    weight = arguments["weight"].float().requires_grad_()
    with cute_kernels.simulate(), torch.autocast("cpu", torch.bfloat16):
        out = call(**{**arguments, "weight": weight})
        assert torch.equal(out, call(**arguments))
    out.float().sum().backward()
    assert out.dtype is torch.bfloat16
    assert weight.grad is not None
    assert weight.grad.dtype is torch.float32


def test_backward_runs_under_the_simulation_of_its_forward(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate("sm_100a") as simulation:
        out = call(**{**arguments, "x": arguments["x"].requires_grad_()})
    seen = []

    def spy(tensor: torch.Tensor) -> torch.Tensor:
        seen.append(simulate.current())
        return tensor.to(torch.float32)

    monkeypatch.setattr(torch.Tensor, "float", spy)
    out.backward(torch.ones_like(out))
    assert seen
    assert set(map(id, seen)) == {id(simulation)}
    assert simulate.current() is None
