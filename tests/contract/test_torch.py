"""torch.library and torch.compile, for every operator."""

from typing import Any

import pytest
import torch

import cute_kernels
from tests.contract.conftest import Call


@pytest.fixture(autouse=True)
def _no_leftovers() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(call: Call, grad: bool) -> None:
    arguments = call.arguments()
    x, weight = (arguments[name].requires_grad_(grad) for name in ("x", "weight"))
    static = (0.5, 1e-6) if call.operator.name == "rms_norm" else ("rms", 1e-6)
    with cute_kernels.simulate():
        results = torch.library.opcheck(
            getattr(torch.ops.cute_kernels, call.operator.name).default, (x, weight, *static)
        )
    assert set(results.values()) == {"SUCCESS"}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_without_a_graph_break(call: Call, backend: str, dynamic: bool) -> None:
    function = getattr(cute_kernels, call.operator.name)

    def loss(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (function(x, weight) * 2).float().square().sum()

    compiled = torch.compile(loss, fullgraph=True, backend=backend, dynamic=dynamic)
    for m in (6, 7):
        arguments = call.arguments(m=m)
        results = []
        for how in (loss, compiled):
            x, weight = (arguments[name].detach().requires_grad_() for name in ("x", "weight"))
            with cute_kernels.simulate():
                value = how(x, weight)
                value.backward()
            results.append((value, x.grad, weight.grad))
        for eager, traced in zip(*results, strict=True):
            assert torch.equal(eager, traced)


def test_the_direct_path_gives_the_registered_operator_s_bits(call: Call) -> None:
    arguments = call.arguments()
    static = (0.5, 1e-6) if call.operator.name == "rms_norm" else ("rms", 1e-6)
    registered = getattr(torch.ops.cute_kernels, call.operator.name)
    with cute_kernels.simulate():
        direct = call.operator.module("op").registered(arguments["x"], arguments["weight"], *static)
        assert torch.equal(direct, registered(arguments["x"], arguments["weight"], *static))


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
