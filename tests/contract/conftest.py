"""Small calls of every operator, for the rules that all of them keep."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from cute_kernels.cli.catalogue import OPERATORS, Operator
from cute_kernels.runtime.accuracy import measure

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Small:
    """A small call of an operator, and what the rules must know of its arguments.

    case        fields of its case, other than the demonstration's
    rows        arguments of rows of a token, in the dtype of the result; the first is the one that rows are spoiled in
    registered  the arguments of the registered operator
    tables      arguments of a few float32 a token
    behind      dimensions of the first of the rows behind the tokens
    parameter   a tensor whose shape and dtype are refused when they do not fit
    eps         the argument that is an eps, if any
    too_wide    arguments of more columns than a cluster holds, where a cluster has to hold them
    """

    case: dict[str, Any]
    rows: tuple[str, ...]
    registered: Callable[[Arguments], tuple[Any, ...]]
    tables: tuple[str, ...] = ()
    behind: int = 1
    parameter: str = "weight"
    eps: str = "eps"
    too_wide: Callable[[], Arguments] | None = None

    @property
    def by_token(self) -> tuple[str, ...]:
        """Arguments of one entry a token."""
        return self.rows + self.tables


SMALL: dict[str, Small] = {
    "rms_norm": Small(
        {"m": 6, "n": 96, "dtype": "bfloat16", "weight": "float32"},
        ("x", "residual"),
        lambda a: (a["x"], None, a["weight"], None, 0.5, 1e-6, False, True),
        too_wide=lambda: {"x": torch.zeros(1, 262145)},
    ),
    "layer_norm": Small(
        {"m": 6, "n": 96, "dtype": "bfloat16", "weight": "float32", "bias": "bfloat16", "residual": True},
        ("x", "residual"),
        lambda a: (a["x"], a["residual"], a["weight"], a["bias"], 0.0, 1e-5, True, True),
        too_wide=lambda: {"x": torch.zeros(1, 262145)},
    ),
    "mhc_post": Small(
        {"m": 6, "h": 72},
        ("X", "f"),
        lambda a: (a["f"], a["X"], a["post"], a["comb"]),
        tables=("post", "comb"),
        behind=2,
        parameter="post",
        eps="",
    ),
    "mhc_pre_big_fuse": Small(
        {"m": 6, "h": 72, "splits": 1},
        ("X",),
        lambda a: (a["dot_mix"][None], a["sqrsum"][None], a["X"], a["scale"], a["base"], *(1e-6,) * 3, 2.0, 20),
        tables=("dot_mix", "sqrsum"),
        behind=2,
        parameter="base",
        eps="rms_eps",
    ),
    "mhc_pre_big_fuse_with_prenorm": Small(
        {"m": 6, "h": 72},
        ("X",),
        lambda a: (a["dot_mix"][None], a["X"], a["scale"], a["base"], *(1e-6,) * 3, 2.0, 20),
        tables=("dot_mix",),
        behind=2,
        parameter="base",
        eps="rms_eps",
        too_wide=lambda: {
            "X": torch.zeros(1, 4, 1 << 17).half(),
            "dot_mix": torch.zeros(1, 24),
            "scale": torch.zeros(3),
            "base": torch.zeros(24),
        },
    ),
    "linear_norm": Small(
        {
            "m": 6,
            "k": 64,
            "n": 128,
            "norm": "layer",
            "bias": "bfloat16",
            "norm_weight": "float32",
            "norm_bias": "bfloat16",
            "residual": True,
        },
        ("x", "residual"),
        lambda a: (
            *(a[name] for name in ("x", "weight", "bias", "norm_weight", "norm_bias", "residual")),
            *("layer", 1e-5, True, True),
        ),
        too_wide=lambda: {"x": torch.zeros(1, 8).half(), "weight": torch.zeros(1 << 15, 8).half(), "norm": "rms"},
    ),
}


@dataclass(frozen=True)
class Call:
    """An operator and a way to make its arguments."""

    operator: Operator

    @property
    def small(self) -> Small:
        return SMALL[self.operator.name]

    @property
    def main(self) -> str:
        """The argument that has the tokens."""
        return self.small.rows[0]

    def arguments(self, seed: int = 0, **changes: Any) -> Arguments:
        case = replace(self.operator.demo, **{**self.small.case, **changes})
        return self.operator.module("cases").inputs(case, seed=seed)

    def __call__(self, **arguments: Any) -> torch.Tensor:
        return self.side_by_side(arguments, self.operator.call(**arguments))

    def side_by_side(self, arguments: Arguments, out: Any) -> torch.Tensor:
        """All that an operator returns of a token, in a row: [..., columns]."""
        leading = arguments[self.main].shape[: -self.small.behind]
        outs = out if isinstance(out, tuple) else (out,)
        rows = [value.reshape(*leading, value.shape[len(leading) :].numel()) for value in outs]
        return rows[0] if len(rows) == 1 else torch.cat(rows, -1)

    def registered(self, arguments: Arguments) -> tuple[Any, tuple[Any, ...]]:
        """The operator as torch knows it, and a call's arguments as it takes them."""
        self.operator.module("op")
        op = getattr(torch.ops.cute_kernels, self.operator.name).default
        return op, self.small.registered(arguments)

    def gradients(self, arguments: Arguments, dy: torch.Tensor, how: Callable[..., Any]) -> dict[str, torch.Tensor]:
        """Gradients of `how` by all tensors among the arguments."""
        leaves = {name: value.detach().requires_grad_() for name, value in tensors(arguments).items()}
        out = self.side_by_side(arguments, how(**{**arguments, **leaves}))
        found = torch.autograd.grad(out, list(leaves.values()), dy.to(out.dtype))
        return dict(zip(leaves, found, strict=True))

    def of_rows(self, arguments: Arguments, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
        """The arguments, those by token changed."""
        return changed(arguments, self.small.by_token, change)

    def of_values(self, arguments: Arguments, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
        """The arguments, those of a token's rows changed, and its tables left as they are."""
        return changed(arguments, self.small.rows, change)

    def spoiled(self, arguments: Arguments, row: int, poison: float) -> Arguments:
        """The arguments with one bad element among those of a token."""
        x = arguments[self.main].clone()
        x.flatten(1)[row, 3] = poison
        return arguments | {self.main: x}


def changed(arguments: Arguments, names: tuple[str, ...], change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
    """The arguments, those of the names changed."""
    return arguments | {name: change(arguments[name]) for name in names if name in arguments}


def tensors(arguments: Arguments) -> dict[str, torch.Tensor]:
    """Those among the arguments."""
    return {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}


def assert_right(call: Call, arguments: Arguments, **more: Any) -> None:
    """Hold a call to the correctness rule."""
    operator, arguments = call.operator, arguments | more
    exact, chain = operator.reference(**arguments), operator.yardstick(**arguments)
    found = measure(operator.call(**arguments), exact, chain, operator.allowed(**arguments))
    assert found.right, str(found)


def transposed(x: torch.Tensor) -> torch.Tensor:
    """The same values with the strides of a transpose."""
    return x.mT.contiguous().mT if x.dim() > 1 else x


def as_arrays_have(value: torch.Tensor) -> torch.Tensor:
    """In a dtype that NumPy has."""
    return value.half() if value.dtype is torch.bfloat16 else value


@pytest.fixture(params=OPERATORS)
def call(request: pytest.FixtureRequest) -> Call:
    return Call(OPERATORS[request.param])


@pytest.fixture(params=[name for name, small in SMALL.items() if small.too_wide])
def call_of_a_cluster(request: pytest.FixtureRequest) -> Call:
    return Call(OPERATORS[request.param])


@pytest.fixture(params=[name for name, small in SMALL.items() if small.eps])
def call_with_eps(request: pytest.FixtureRequest) -> Call:
    return Call(OPERATORS[request.param])
