"""Small calls of every operator, for the rules that all of them keep."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from cute_kernels.cli.catalogue import OPERATORS, Operator
from cute_kernels.runtime.accuracy import measure

# Fields of a small case, by operator.
SMALL: dict[str, dict[str, Any]] = {
    "rms_norm": {"m": 6, "n": 96, "dtype": "bfloat16", "weight": "float32"},
    "layer_norm": {"m": 6, "n": 96, "dtype": "bfloat16", "weight": "float32", "bias": "bfloat16", "residual": True},
    "linear_norm": {
        "m": 6,
        "k": 64,
        "n": 128,
        "norm": "layer",
        "bias": "bfloat16",
        "norm_weight": "float32",
        "norm_bias": "bfloat16",
        "residual": True,
    },
}

# What its function hands to the registered operator, other than the tensors that this takes first, in its order.
REGISTERED: dict[str, tuple[tuple[str, ...], tuple[Any, ...]]] = {
    "rms_norm": (("x", "residual", "weight", "bias"), (0.5, 1e-6, False, True)),
    "layer_norm": (("x", "residual", "weight", "bias"), (0.0, 1e-5, True, True)),
    "linear_norm": (
        ("x", "weight", "bias", "norm_weight", "norm_bias", "residual"),
        ("layer", 1e-5, True, True),
    ),
}
BY_ROW = ("x", "residual")  # arguments of a row a token
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """An operator and a way to make its arguments."""

    operator: Operator

    def arguments(self, seed: int = 0, **changes: Any) -> Arguments:
        cases = self.operator.module("cases")
        return cases.inputs(cases.Case(**{**SMALL[self.operator.name], **changes}), seed=seed)

    def __call__(self, **arguments: Any) -> torch.Tensor:
        return self.operator.call(**arguments)

    def registered(self, arguments: Arguments) -> tuple[Any, tuple[Any, ...]]:
        """The operator as torch knows it, and a call's arguments as it takes them."""
        self.operator.module("op")
        tensors, static = REGISTERED[self.operator.name]
        op = getattr(torch.ops.cute_kernels, self.operator.name).default
        return op, (*(arguments.get(name) for name in tensors), *static)

    def gradients(self, arguments: Arguments, dy: torch.Tensor, how: Callable[..., Any]) -> dict[str, torch.Tensor]:
        """Gradients of `how` by all tensors among the arguments."""
        leaves = {name: value.detach().requires_grad_() for name, value in tensors(arguments).items()}
        out = how(**{**arguments, **leaves})
        found = torch.autograd.grad(out, list(leaves.values()), dy.to(out.dtype))
        return dict(zip(leaves, found, strict=True))


def tensors(arguments: Arguments) -> dict[str, torch.Tensor]:
    """Those among the arguments."""
    return {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}


def assert_right(call: Call, arguments: Arguments, **more: Any) -> None:
    """Hold a call to the correctness rule."""
    arguments = arguments | more
    found = measure(call(**arguments), call.operator.reference(**arguments), call.operator.yardstick(**arguments))
    assert found.right, str(found)


def of_rows(arguments: Arguments, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
    """The arguments, those by row changed."""
    return arguments | {name: change(arguments[name]) for name in BY_ROW if name in arguments}


@pytest.fixture(params=OPERATORS)
def call(request: pytest.FixtureRequest) -> Call:
    return Call(OPERATORS[request.param])
