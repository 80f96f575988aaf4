"""torch.library and torch.compile, for every operator."""

from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels.runtime import library
from tests.contract.conftest import Call, tensors


@pytest.fixture(autouse=True)
def _no_leftovers() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(call: Call, grad: bool) -> None:
    arguments = call.arguments()
    for value in tensors(arguments).values():
        value.requires_grad_(grad)
    with cute_kernels.simulate():
        results = torch.library.opcheck(*call.registered(arguments))
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_without_a_graph_break(call: Call, backend: str, dynamic: bool) -> None:
    function = getattr(cute_kernels, call.operator.name)

    def loss(**arguments: Any) -> torch.Tensor:
        return (call.side_by_side(arguments, function(**arguments)) * 2).float().square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend=backend, dynamic=dynamic)
    for m in (6, 7):
        arguments = call.arguments(m=m)
        results = []
        for how in (loss, compiled):
            leaves = {name: value.detach().requires_grad_() for name, value in tensors(arguments).items()}
            with cute_kernels.simulate():
                value = how(**{**arguments, **leaves})
                value.backward()
            results.append((value, *(leaf.grad for leaf in leaves.values())))
        for eager, traced in zip(*results, strict=True):
            assert torch.equal(eager, traced)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_takes_eps_as_an_input(call_with_eps: Call, dynamic: bool) -> None:
    call = call_with_eps
    function, arguments, name = getattr(cute_kernels, call.operator.name), call.arguments(), call.small.eps

    def doubled(eps: float) -> torch.Tensor:
        return call.side_by_side(arguments, function(**arguments, **{name: eps})) * 2

    compiled = torch.compile(doubled, fullgraph=True, backend="eager", dynamic=dynamic)
    with cute_kernels.simulate():
        for eps in (1e-3, 1e-2, 1):
            assert torch.equal(compiled(eps), call(**arguments, **{name: eps}) * 2)


def test_the_direct_path_gives_the_registered_operator_s_bits(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = call.arguments()
    with cute_kernels.simulate():
        direct = call(**arguments)
        monkeypatch.setattr(library, "plain", lambda inputs: False)
        assert torch.equal(call(**arguments), direct)


def test_a_dispatch_mode_sees_the_operator(call: Call) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with cute_kernels.simulate(), Watch():
        call(**call.arguments())
    assert f"cute_kernels.{call.operator.name}.default" in seen
