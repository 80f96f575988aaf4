"""Small calls of every operator, for the rules that all of them keep."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from cute_kernels.cli.catalogue import OPERATORS, Operator

# Fields of a small case, by operator.
SMALL: dict[str, dict[str, Any]] = {
    "rms_norm": {"m": 6, "n": 96, "dtype": "bfloat16", "weight": "float32"},
    "linear_norm": {"m": 6, "k": 64, "n": 128},
}


@dataclass(frozen=True)
class Call:
    """An operator and a way to make its arguments."""

    operator: Operator

    def arguments(self, seed: int = 0, **changes: Any) -> dict[str, Any]:
        cases = self.operator.module("cases")
        return cases.inputs(cases.Case(**{**SMALL[self.operator.name], **changes}), seed=seed)

    def __call__(self, **arguments: Any) -> torch.Tensor:
        return self.operator.call(**arguments)

    def gradients(
        self, arguments: dict[str, Any], dy: torch.Tensor, how: Callable[..., Any]
    ) -> dict[str, torch.Tensor]:
        """Gradients of `how` by all tensors among the arguments."""
        leaves = {n: v.detach().requires_grad_() for n, v in arguments.items() if isinstance(v, torch.Tensor)}
        out = how(**{**arguments, **leaves})
        found = torch.autograd.grad(out, list(leaves.values()), dy.to(out.dtype))
        return dict(zip(leaves, found, strict=True))


@pytest.fixture(params=OPERATORS)
def call(request: pytest.FixtureRequest) -> Call:
    return Call(OPERATORS[request.param])
