"""No figure without a right result in the same process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from cute_kernels.runtime.accuracy import measure

ROWS = 4096


def checked(operator: Callable[..., torch.Tensor], reference: Any, arguments: dict[str, Any]) -> str:
    """The accuracy of the operator's first and last rows, in a word; SystemExit where the rule is broken, or any row is not finite."""
    with poisoned():
        y = operator(**arguments)
    x, said = arguments["x"], ""
    if not y.isfinite().all():
        raise SystemExit(f"perf: {operator.__name__} of {list(x.shape)} has NaN or Inf; no figure is printed")
    for rows in (slice(0, ROWS), slice(max(0, x.shape[0] - ROWS), None)):
        part = {**arguments, "x": x[rows]}
        exact, yardstick = (getattr(reference, operator.__name__ + suffix)(**part) for suffix in ("", "_yardstick"))
        said = word(operator.__name__, x, y[rows], exact, yardstick)
    return said


@contextmanager
def poisoned() -> Iterator[None]:
    """torch.empty gives NaN inside: an element that a kernel does not write shows."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def checked_gradients(operator: Callable[..., torch.Tensor], reference: Any, arguments: dict[str, Any]) -> str:
    """The same of dx and of every parameter's gradient, over the first rows."""
    arguments = {**arguments, "x": arguments["x"][:ROWS]}
    dy, said = torch.randn_like(arguments["x"]), ""
    found = gradients_of(operator, arguments, dy)
    exact = gradients_of(getattr(reference, operator.__name__), arguments, dy, torch.float64)
    yardstick = gradients_of(getattr(reference, f"{operator.__name__}_yardstick"), arguments, dy, torch.float32)
    for name, ours in found.items():
        chain = yardstick[name].to(ours.dtype)
        said = word(f"{operator.__name__}'s gradient of {name}", arguments["x"], ours, exact[name], chain)
    return said


def gradients_of(
    how: Callable[..., torch.Tensor], arguments: dict[str, Any], dy: torch.Tensor, dtype: torch.dtype | None = None
) -> dict[str, torch.Tensor]:
    """Gradients by all tensors among the arguments, taken as leaves of `dtype`."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    leaves = {name: v.detach().to(dtype or v.dtype).requires_grad_() for name, v in tensors.items()}
    out = how(**{**arguments, **leaves})
    return dict(zip(leaves, torch.autograd.grad(out, list(leaves.values()), dy.to(out.dtype)), strict=True))


def word(what: str, x: torch.Tensor, out: torch.Tensor, exact: torch.Tensor, yardstick: torch.Tensor) -> str:
    """Both errors; SystemExit where ours breaks the rule."""
    accuracy = measure(out, exact, yardstick)
    if not accuracy.right:
        raise SystemExit(f"perf: {what} of {list(x.shape)} is {accuracy}; no figure is printed")
    return f"{accuracy.error:.1e} (yardstick {accuracy.yardstick:.1e})"
