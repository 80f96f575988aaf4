"""Strides, alignment, sizes, and errors, for every operator."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cute_kernels
from tests.contract.conftest import BY_ROW, Call, assert_right, of_rows, tensors

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


def transposed(x: torch.Tensor) -> torch.Tensor:
    """The same values with the strides of a transpose."""
    return x.t().contiguous().t()


def fused(x: torch.Tensor) -> torch.Tensor:
    """The same values as the middle one of three projections in one tensor, NaN in the others."""
    nan = torch.full_like(x, float("nan"))
    return torch.stack([nan, x, nan], dim=-2)[..., 1, :]


def negated(x: torch.Tensor) -> torch.Tensor:
    """The same values, their sign still to be flipped: torch does that when somebody reads them."""
    return torch._neg_view(-x)


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
    one, five = of_rows(arguments, lambda t: t[:1]), of_rows(arguments, lambda t: t[:1].expand(5, -1))
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
    arguments = of_rows(call.arguments(), lambda t: t[:1].clone())
    with cute_kernels.simulate() as simulation:
        expected = call(**arguments)
        for stride in (1, 301, 1 << 40):
            odd = {n: t.as_strided(t.shape, (stride, 1)) for n, t in tensors(arguments).items() if n in BY_ROW}
            assert torch.equal(call(**arguments | odd), expected)
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
    arguments = of_rows(call.arguments(), lambda t: t.view(*leading, -1) if leading else t[0])
    rows = of_rows(arguments, lambda t: t.reshape(-1, t.shape[-1]))
    with cute_kernels.simulate():
        out, flat = call(**arguments), call(**rows)
        found, expected = (call.gradients(a, torch.ones_like(o), call) for a, o in ((arguments, out), (rows, flat)))
    assert out.shape == (*leading, flat.shape[-1])
    assert torch.equal(out.view(flat.shape), flat)
    assert all(found[name].shape == arguments[name].shape for name in found)
    assert all(torch.equal(found[name].view(expected[name].shape), expected[name]) for name in found)


@pytest.mark.parametrize("leading", [(0,), (3, 0), (0, 2)])
def test_no_tokens(call: Call, leading: tuple[int, ...]) -> None:
    arguments = of_rows(call.arguments(), lambda t: t.new_empty(*leading, t.shape[-1]))
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
    arguments |= {name: value.half() for name, value in tensors(arguments).items()}
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
        "from tests.contract.conftest import Call, tensors",
        f"call = Call(OPERATORS['{call.operator.name}'])",
        "arguments = call.arguments(dtype='float16')",
        "flipped = {name: value.half().numpy()[..., ::-1] for name, value in tensors(arguments).items()}",
        "copied = {name: torch.from_numpy(value.copy()) for name, value in flipped.items()}",
        "with cute_kernels.simulate():",
        "    assert torch.equal(call(**arguments | flipped), call(**arguments | copied))",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], type[Exception], str]] = {
    "float64": (lambda a: {"x": a["x"].double()}, TypeError, "x is torch.float64; it takes torch.bfloat16 or"),
    "integers": (lambda a: {"x": a["x"].int()}, TypeError, "x is torch.int32; it takes"),
    "no tensor": (lambda a: {"x": [1.0, 2.0]}, TypeError, "x is of type list; it takes a torch.Tensor, or"),
    "strings": (lambda a: {"x": np.array(["a"])}, TypeError, "x is an array that cannot be exported"),
    "no dimension": (lambda a: {"x": a["x"][0, 0]}, ValueError, r"x is of shape \[\]; it takes"),
    "no columns": (lambda a: {"x": a["x"][:, :0]}, ValueError, r"x is of shape \[6, 0\]; it takes"),
    "weight of another length": (lambda a: {"weight": a["weight"][..., :-8]}, ValueError, "weight is of shape"),
    "weight of another rank": (lambda a: {"weight": a["weight"][None]}, ValueError, "weight is of shape"),
    "weight elsewhere": (
        lambda a: {"weight": a["weight"].to("meta")},
        ValueError,
        "weight is on meta; it takes a tensor on",
    ),
    "weight of another dtype": (
        lambda a: {"weight": a["weight"].half()},
        TypeError,
        "weight is torch.float16; it takes",
    ),
    "negative eps": (lambda a: {"eps": -1e-6}, ValueError, "eps is -1e-06; it takes"),
    "eps that is not a number": (lambda a: {"eps": float("nan")}, ValueError, "eps is nan; it takes"),
    "infinite eps": (lambda a: {"eps": float("inf")}, ValueError, "eps is inf; it takes None or a finite number >= 0"),
    "eps beyond any float": (
        lambda a: {"eps": 10**400},
        ValueError,
        "eps is 10000.*…; it takes None or a finite number >=",
    ),
    "eps of many lines": (
        lambda a: {"eps": torch.eye(9)},
        TypeError,
        r"eps is tensor\(.*; it takes None or a finite number",
    ),
    "eps of a string": (lambda a: {"eps": "a"}, TypeError, "eps is 'a'; it takes None or a finite number >= 0"),
    "sparse": (lambda a: {"x": a["x"].to_sparse()}, TypeError, "x is a torch.sparse_coo tensor; it takes a strided"),
    "nested": (
        lambda a: {"x": torch.nested.nested_tensor([a["x"], a["x"]], layout=torch.jagged)},
        TypeError,
        "x is a nested tensor; it takes a strided tensor",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals_are_one_line_before_any_launch(call: Call, what: str) -> None:
    change, error, message = REFUSED[what]
    arguments = call.arguments()
    with (
        cute_kernels.simulate() as simulation,
        pytest.raises(error, match=f"{call.operator.name}: {message}") as caught,
    ):
        call(**{**arguments, **change(arguments)})
    assert "\n" not in str(caught.value)
    assert not simulation.reports


WIDER_THAN_ANY_CLUSTER: dict[str, dict[str, Any]] = {
    "rms_norm": {"x": torch.zeros(1, 262145)},
    "layer_norm": {"x": torch.zeros(1, 262145)},
    "linear_norm": {"x": torch.zeros(1, 8).half(), "weight": torch.zeros(1 << 15, 8).half(), "norm": "rms"},
}


def test_rows_wider_than_any_cluster(call: Call) -> None:
    with cute_kernels.simulate() as simulation, pytest.raises(ValueError, match=f"{call.operator.name}: ") as caught:
        call(**WIDER_THAN_ANY_CLUSTER[call.operator.name])
    assert "\n" not in str(caught.value)
    assert "takes" in str(caught.value)
    assert not simulation.reports


def test_a_cpu_tensor_outside_simulate(call: Call) -> None:
    with pytest.raises(ValueError, match=f"{call.operator.name}: x is on cpu; .*cute_kernels.simulate()") as caught:
        call(**call.arguments())
    assert "\n" not in str(caught.value)


def test_an_unknown_architecture() -> None:
    with pytest.raises(ValueError, match="unknown architecture 'sm_70'"), cute_kernels.simulate("sm_70"):
        pass
