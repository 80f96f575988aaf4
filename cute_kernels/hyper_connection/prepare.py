"""What the operators do between arguments and a launch: checks, plans, and tensors laid out as the kernels take them."""

import functools
import math
from typing import Any

import torch

from cute_kernels.hyper_connection import streams
from cute_kernels.hyper_connection.plan import Problem, plan
from cute_kernels.plan import Plan, PlanError, Target
from cute_kernels.runtime import inputs

STREAMS = (2, 4, 8)
Tensors = dict[str, torch.Tensor]


@functools.lru_cache(maxsize=1024)
def planned(operator: str, problem: Problem, target: Target) -> Plan:
    """The plan, or one line on why there is none."""
    try:
        return plan(problem, target)
    except PlanError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{operator}: no plan takes {problem} ({reason})") from error


def checked_streams(operator: str, x: Any) -> torch.Tensor:
    """X as a tensor of streams."""
    x = inputs.tensor(operator, "X", x)
    inputs.dtype(operator, "X", x, inputs.HALVES)
    right = x.dim() > 1 and x.shape[-2] in STREAMS and x.shape[-1] > 0
    inputs.shape(operator, "X", x, "[..., n, H] with n 2, 4 or 8 and H >= 1", right)
    return x


def checked(operator: str, argument: str, value: Any, x: torch.Tensor, dtype: torch.dtype, *last: int) -> torch.Tensor:
    """An argument with the tokens of X, and `last` of its own, as a tensor."""
    value = inputs.tensor(operator, argument, value)
    inputs.dtype(operator, argument, value, (dtype,))
    takes = [*x.shape[:-2], *last]
    inputs.shape(operator, argument, value, f"{takes}, beside X of {list(x.shape)}", list(value.shape) == takes)
    inputs.same_device(operator, argument, value, x)
    return value


def checked_parameter(operator: str, argument: str, value: Any, extent: int, x: torch.Tensor) -> torch.Tensor:
    """A float32 vector of so many elements."""
    value = inputs.tensor(operator, argument, value)
    inputs.dtype(operator, argument, value, (torch.float32,))
    inputs.shape(operator, argument, value, f"[{extent}]", value.shape == (extent,))
    inputs.same_device(operator, argument, value, x)
    return value


def in_splits(operator: str, argument: str, value: Any, x: torch.Tensor, *last: int) -> torch.Tensor:
    """An argument in one part or several, each with the tokens of X, these in X's dimensions or in one: [splits, tokens, *last]."""
    value = inputs.tensor(operator, argument, value)
    inputs.dtype(operator, argument, value, (torch.float32,))
    shape, leading = list(value.shape), list(x.shape[:-2])
    tokens = math.prod(leading)
    whole, flat = [*leading, *last], [tokens, *last]
    one = shape == whole or shape == flat  # torch.compile does not trace `in` where tokens are dynamic
    split = len(shape) > len(last) and shape[0] > 0 and (shape[1:] == whole or shape[1:] == flat)
    inputs.shape(operator, argument, value, f"{flat}, or [S, …] of these, beside X of {list(x.shape)}", one or split)
    inputs.same_device(operator, argument, value, x)
    return value.reshape(1 if one else shape[0], tokens, *last)


def split(of: str, x: torch.Tensor) -> Tensors:
    """The streams of X by the plan's names, each as rows."""
    n, h = x.shape[-2:]
    each = x.reshape(-1, n, h).unbind(1)
    return {name: inputs.rows(one) for name, one in zip(streams.names(of, n), each, strict=True)}


def vector(tensors: Tensors) -> int:
    """Elements that a thread can move at once in all of them."""
    return min(map(inputs.vector, tensors.values()))


def as_table(value: torch.Tensor, *extents: int) -> torch.Tensor:
    """Coefficients without gaps, aligned for the widest load, in a shape whose strides all mean something."""
    return inputs.aligned(value.reshape(-1)).view(extents)
