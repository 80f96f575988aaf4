"""Strides, alignment, sizes, and errors, for every operator."""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cute_kernels
from cute_kernels.cli.catalogue import OPERATORS
from tests.contract.conftest import SMALL, Call, as_arrays_have, assert_right, tensors, transposed

ROOT = Path(__file__).resolve().parents[2]


def wide(x: torch.Tensor) -> torch.Tensor:
    """The same values as columns of a wider tensor, NaN around them."""
    room = x.new_full((*x.shape[:-1], x.shape[-1] + 16), float("nan"))
    room[..., 8:-8] = x
    return room[..., 8:-8]


def misaligned(x: torch.Tensor) -> torch.Tensor:
    """The same values one element past an aligned address."""
    room = x.new_empty(x.numel() + 1)
    room[1:] = x.flatten()
    return room[1:].view(x.shape)


def stepped(x: torch.Tensor) -> torch.Tensor:
    """The same values, every other element of a row."""
    return torch.stack([x, torch.full_like(x, float("nan"))], dim=-1).flatten(-2)[..., ::2]


def fused(x: torch.Tensor) -> torch.Tensor:
    """The same values as the middle one of three projections in one tensor, NaN in the others."""
    nan = torch.full_like(x, float("nan"))
    return torch.stack([nan, x, nan], dim=-2)[..., 1, :]


def negated(x: torch.Tensor) -> torch.Tensor:
    """The same values, their sign still to be flipped: torch does that when somebody reads them."""
    return torch._neg_view(-x)


def with_pitch(stride: int, x: torch.Tensor) -> torch.Tensor:
    """A single row that says it is `stride` elements from the next one."""
    return x.as_strided(x.shape, (stride, *x.stride()[1:]))


LAYOUTS = (wide, misaligned, stepped, transposed, fused, negated)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_every_tensor(call: Call, layout: Callable[[torch.Tensor], torch.Tensor]) -> None:
    arguments = call.arguments()
    changed = {name: layout(value) for name, value in tensors(arguments).items()}
    with cute_kernels.simulate():
        expected = call(**arguments)
        for name, value in changed.items():
            assert torch.equal(call(**{**arguments, name: value}), expected)
        assert torch.equal(call(**{**arguments, **changed}), expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_every_layout(call: Call, layout: Callable[[torch.Tensor], torch.Tensor]) -> None:
    arguments = call.arguments()
    changed = arguments | {name: layout(value) for name, value in tensors(arguments).items()}
    with cute_kernels.simulate():
        dy = torch.randn_like(call(**arguments))
        expected, found = (call.gradients(a, dy, call) for a in (arguments, changed))
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_expanded_rows(call: Call) -> None:
    arguments = call.arguments()
    one = call.of_rows(arguments, lambda t: t[:1])
    five = call.of_rows(arguments, lambda t: t[:1].expand(5, *t.shape[1:]))
    with cute_kernels.simulate():
        assert torch.equal(call(**five), call(**one).expand(5, -1))


def test_expanded_columns(call: Call) -> None:
    arguments = call.arguments()
    for name, value in tensors(arguments).items():
        thin = value[..., :1].expand(value.shape)
        with cute_kernels.simulate():
            assert torch.equal(call(**{**arguments, name: thin}), call(**{**arguments, name: thin.contiguous()}))


def test_strides_of_a_single_row_mean_nothing(call: Call) -> None:
    """No kernel of their own either."""
    arguments = call.of_rows(call.arguments(), lambda t: t[:1].clone())
    with cute_kernels.simulate() as simulation:
        expected = call(**arguments)
        for stride in (1, 301, 1 << 40):
            odd = call.of_rows(arguments, functools.partial(with_pitch, stride))
            assert torch.equal(call(**odd), expected)
    assert len(set(simulation.plans)) == 1


def test_parameters(call: Call) -> None:
    arguments = call.arguments()
    parameters = {name: torch.nn.Parameter(value) for name, value in tensors(arguments).items()}
    with cute_kernels.simulate():
        out = call(**arguments | parameters)
        expected = call.gradients(arguments, torch.ones_like(out), call)
        out.backward(torch.ones_like(out))
        with torch.no_grad():
            assert torch.equal(call(**arguments | parameters), out)
    assert all(torch.equal(value.grad, expected[name]) for name, value in parameters.items() if value.grad is not None)
    assert all(value.grad is not None for value in parameters.values())


@pytest.mark.parametrize("leading", [(), (6,), (2, 3), (1, 2, 3, 1)])
def test_leading_shapes(call: Call, leading: tuple[int, ...]) -> None:
    rows = call.arguments() if leading else call.of_rows(call.arguments(), lambda t: t[:1])
    arguments = call.of_rows(rows, lambda t: t.view((*leading, *t.shape[1:])))
    with cute_kernels.simulate():
        out, flat = call(**arguments), call(**rows)
        found, expected = (call.gradients(a, torch.ones_like(o), call) for a, o in ((arguments, out), (rows, flat)))
    assert out.shape == (*leading, flat.shape[-1])
    assert torch.equal(out.view(flat.shape), flat)
    assert all(found[name].shape == arguments[name].shape for name in found)
    assert all(torch.equal(found[name].view(expected[name].shape), expected[name]) for name in found)


@pytest.mark.parametrize("leading", [(0,), (3, 0), (0, 2)])
def test_no_tokens(call: Call, leading: tuple[int, ...]) -> None:
    arguments = call.of_rows(call.arguments(), lambda t: t.new_empty((*leading, *t.shape[1:])))
    with cute_kernels.simulate() as simulation:
        out = call(**arguments)
        found = call.gradients(arguments, torch.empty_like(out), call)
    assert out.shape[:-1] == leading
    assert not simulation.reports
    assert all(torch.equal(found[name], torch.zeros_like(arguments[name])) for name in found)
    with cute_kernels.simulate():
        assert_right(call, call.arguments())  # nothing was left behind


def test_arrays_of_other_libraries(call: Call) -> None:
    arguments = call.arguments(dtype="float16")
    arguments |= {name: as_arrays_have(value) for name, value in tensors(arguments).items()}
    arrays = arguments | {name: value.numpy() for name, value in tensors(arguments).items()}
    with cute_kernels.simulate():
        out = call(**arrays)
        assert torch.equal(out, call(**arguments))
    assert (type(out), out.device.type) == (torch.Tensor, "cpu")


def test_arrays_that_run_backwards(call: Call) -> None:
    """In a process of its own: torch.from_dlpack aborts over negative strides."""
    lines = (
        "import cute_kernels, torch",
        "from cute_kernels.cli.catalogue import OPERATORS",
        "from tests.contract.conftest import Call, as_arrays_have, tensors",
        f"call = Call(OPERATORS['{call.operator.name}'])",
        "arguments = call.arguments(dtype='float16')",
        "arrays = {name: as_arrays_have(value).numpy() for name, value in tensors(arguments).items()}",
        "flipped = {name: array[..., ::-1] for name, array in arrays.items()}",
        "copied = {name: torch.from_numpy(value.copy()) for name, value in flipped.items()}",
        "with cute_kernels.simulate():",
        "    assert torch.equal(call(**arguments | flipped), call(**arguments | copied))",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# What is done to which argument (the one with the tokens, a parameter, an eps), the error and its message.
REFUSED: dict[str, tuple[str, Callable[[Any], Any], type[Exception], str]] = {
    "float64": ("main", lambda v: v.double(), TypeError, "is torch.float64; it takes torch.bfloat16 or"),
    "integers": ("main", lambda v: v.int(), TypeError, "is torch.int32; it takes"),
    "no tensor": ("main", lambda v: [1.0, 2.0], TypeError, "is of type list; it takes a torch.Tensor, or"),
    "strings": ("main", lambda v: np.array(["a"]), TypeError, "is an array that cannot be exported"),
    "no dimension": ("main", lambda v: v.flatten()[0], ValueError, r"is of shape \[\]; it takes"),
    "no columns": ("main", lambda v: v[..., :0], ValueError, r"is of shape \[6, .*0\]; it takes"),
    "another length": ("parameter", lambda v: v[..., :-1], ValueError, "is of shape"),
    "another rank": ("parameter", lambda v: v[None], ValueError, "is of shape"),
    "elsewhere": ("parameter", lambda v: v.to("meta"), ValueError, "is on meta; it takes a tensor on"),
    "another dtype": ("parameter", lambda v: v.half(), TypeError, "is torch.float16; it takes"),
    "negative": ("eps", lambda v: -1e-6, ValueError, "is -1e-06; it takes"),
    "not a number": ("eps", lambda v: float("nan"), ValueError, "is nan; it takes"),
    "infinite": ("eps", lambda v: float("inf"), ValueError, "is inf; it takes None or a finite number >= 0"),
    "beyond any float": ("eps", lambda v: 10**400, ValueError, "is 10000.*…; it takes None or a finite number >="),
    "of many lines": ("eps", lambda v: torch.eye(9), TypeError, r"is tensor\(.*; it takes None or a finite number"),
    "a string": ("eps", lambda v: "a", TypeError, "is 'a'; it takes None or a finite number >= 0"),
    "sparse": ("main", lambda v: v.to_sparse(), TypeError, "is a torch.sparse_coo tensor; it takes a strided"),
    "nested": (
        "main",
        lambda v: torch.nested.nested_tensor([v, v], layout=torch.jagged),
        TypeError,
        "is a nested tensor; it takes a strided tensor",
    ),
}


def refused(call: Call, what: str) -> str:
    """The argument of a refusal; "" where the operator has none of the kind."""
    return {"main": call.main, "parameter": call.small.parameter, "eps": call.small.eps}[REFUSED[what][0]]


@pytest.mark.parametrize(
    ("call", "what"),
    [(n, what) for n in SMALL for what in REFUSED if refused(Call(OPERATORS[n]), what)],
    indirect=["call"],
)
def test_refusals_are_one_line_before_any_launch(call: Call, what: str) -> None:
    _, change, error, message = REFUSED[what]
    arguments, argument = call.arguments(), refused(call, what)
    wrong = {argument: change(arguments.get(argument))}
    with (
        cute_kernels.simulate() as simulation,
        pytest.raises(error, match=f"{call.operator.name}: {argument} {message}") as caught,
    ):
        call.operator.call(**{**arguments, **wrong})
    assert "\n" not in str(caught.value)
    assert not simulation.reports


def test_rows_wider_than_any_cluster(call_of_a_cluster: Call) -> None:
    call = call_of_a_cluster
    assert call.small.too_wide
    with cute_kernels.simulate() as simulation, pytest.raises(ValueError, match=f"{call.operator.name}: ") as caught:
        call.operator.call(**call.small.too_wide())
    assert "\n" not in str(caught.value)
    assert "takes" in str(caught.value)
    assert not simulation.reports


def test_a_cpu_tensor_outside_simulate(call: Call) -> None:
    with pytest.raises(
        ValueError, match=f"{call.operator.name}: {call.main} is on cpu; .*cute_kernels.simulate()"
    ) as caught:
        call(**call.arguments())
    assert "\n" not in str(caught.value)


def test_an_unknown_architecture() -> None:
    with pytest.raises(ValueError, match="unknown architecture 'sm_70'"), cute_kernels.simulate("sm_70"):
        pass
