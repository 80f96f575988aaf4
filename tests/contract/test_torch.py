"""torch.library and torch.compile, for every operator."""

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
        results = torch.library.opcheck(call.operator.module("op").registered, (x, weight, *static))
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
