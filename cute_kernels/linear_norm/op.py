"""linear_norm for PyTorch: checks, then a plan, then a launch; registered as `cute_kernels::linear_norm`."""

import functools
from typing import Any

import torch

from cute_kernels.linear_norm.gradients import backward
from cute_kernels.linear_norm.plan import CHUNK, LinearNorm, plan, tiling_for
from cute_kernels.plan import Plan, PlanError, Target
from cute_kernels.runtime import inputs
from cute_kernels.runtime.bridge import NAMES
from cute_kernels.runtime.errors import refuse
from cute_kernels.runtime.launch import execute, target_for
from cute_kernels.runtime.library import register

NAME = "linear_norm"
DTYPES = inputs.HALVES  # of x
NORMS = {"rms": 1e-6, "layer": 1e-5}  # norm -> its default eps
SCHEMA = (
    "(Tensor x, Tensor weight, Tensor? bias, Tensor? norm_weight, Tensor? norm_bias, Tensor? residual, str norm, float eps, "
    "bool return_z, bool return_stats) -> (Tensor y, Tensor z, Tensor stats)"
)
STATS = 2  # number of that output: [1 or 2, ...], rstd and, of a layer norm, the mean


def linear_norm(
    x: Any,
    weight: Any,
    bias: Any = None,
    *,
    norm: str,
    norm_weight: Any = None,
    norm_bias: Any = None,
    residual: Any = None,
    eps: float | None = None,
    return_z: bool = False,
    return_stats: bool = False,
) -> Any:
    """norm(z) · norm_weight + norm_bias over the last dimension of z = x · weightᵀ + bias + residual, in one kernel.

    x            [..., K], bfloat16 or float16, K a multiple of 8
    weight       [N, K], x's dtype, N a multiple of 8; a transposed view is copied first
    bias         [N], x's dtype or float32; None adds nothing
    norm         "rms": z / √(mean(z²) + eps), or "layer": (z − mean(z)) / √(variance(z) + eps)
    norm_weight  [N], x's dtype or float32; None multiplies by nothing
    norm_bias    [N], x's dtype or float32; None adds nothing
    residual     [..., N], x's dtype, added to the product in float32; None adds nothing
    eps          None means 1e-6 for rms, 1e-5 for layer

    Returns y, or a tuple: y; with `return_z` z, rounded to x's dtype; with `return_stats` the mean (None for rms) and rstd, float32
    of x's leading shape, not differentiated. Without `return_z` z is not written. Statistics are those of z before it is rounded.

    Under torch.autocast x, weight, bias and residual are cast to its dtype, as for a linear.
    ValueError or TypeError, in one line before any launch, where an argument does not fit.
    """
    x, weight, bias, residual = linear = taken(x, weight, bias, residual)
    inputs.dtype(NAME, "x", x, DTYPES)
    inputs.dtype(NAME, "weight", weight, (x.dtype,))
    inputs.shape(NAME, "x", x, f"[..., K] with K a multiple of {CHUNK}", x.dim() > 0 and fits(x.shape[-1]))
    right = weight.dim() == 2 and weight.shape[1] == x.shape[-1] and fits(weight.shape[0])
    inputs.shape(NAME, "weight", weight, f"[N, {x.shape[-1]}] with N a multiple of {CHUNK}", right)
    inputs.same_device(NAME, "weight", weight, x)
    if not isinstance(norm, str) or norm not in NORMS:
        refuse(NAME, "norm", repr(norm), " or ".join(map(repr, NORMS)))
    vectors = [
        vector(*named, x, weight) for named in (("bias", bias), ("norm_weight", norm_weight), ("norm_bias", norm_bias))
    ]
    if residual is not None:
        wanted = (*x.shape[:-1], weight.shape[0])
        inputs.dtype(NAME, "residual", residual, (x.dtype,))
        inputs.shape(NAME, "residual", residual, f"[..., N], {list(wanted)}", residual.shape == wanted)
        inputs.same_device(NAME, "residual", residual, x)
    eps = inputs.epsilon(NAME, eps, NORMS[norm])
    y, z, stats = registered(linear[0], linear[1], *vectors, residual, norm, eps, return_z, return_stats)
    statistics = (stats[1] if norm == "layer" else None, stats[0]) if return_stats else ()
    found = (y, *((z,) if return_z else ()), *statistics)
    return found if len(found) > 1 else y


def taken(x: Any, weight: Any, bias: Any, residual: Any) -> tuple[Any, ...]:
    """What a linear would take, as tensors, of autocast's dtype where that is on."""
    named = {"x": x, "weight": weight, "bias": bias, "residual": residual}
    given = {
        name: inputs.tensor(NAME, name, value)
        for name, value in named.items()
        if value is not None or name in "x weight"
    }
    cast = dict(zip(given, inputs.autocast(*given.values()), strict=True))
    return tuple(map(cast.get, named))


def vector(argument: str, value: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor | None:
    """A parameter along the columns of z."""
    if value is None:
        return None
    value, n = inputs.tensor(NAME, argument, value), weight.shape[0]
    inputs.dtype(NAME, argument, value, (x.dtype, torch.float32))
    inputs.shape(NAME, argument, value, f"[{n}], the rows of weight", value.shape == (n,))
    inputs.same_device(NAME, argument, value, x)
    return value


def fits(extent: int) -> bool:
    """Whether an extent is a multiple of 8, and not 0."""
    return extent > 0 and extent % CHUNK == 0


def forward(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    norm_weight: torch.Tensor | None,
    norm_bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    norm: str,
    eps: float,
    return_z: bool,
    return_stats: bool,
) -> tuple[torch.Tensor | None, ...]:
    """Lay the inputs out as the kernel takes them, and run it."""
    target = target_for(NAME, x)
    vectors = {"bias": bias, "norm_weight": norm_weight, "norm_bias": norm_bias}
    given = {name: value for name, value in vectors.items() if value is not None}
    kernel = planned(
        target,
        k=x.shape[-1],
        n=weight.shape[0],
        dtype=NAMES[x.dtype],
        norm=norm,
        eps=eps,
        residual=residual is not None,
        return_z=return_z,
        return_stats=return_stats,
        **{f"{name}_dtype": NAMES[value.dtype] for name, value in given.items()},
    )
    outputs = fake(x, weight, bias, norm_weight, norm_bias, residual, norm, eps, return_z, return_stats)
    y, z, stats = outputs
    assert y is not None
    if y.numel():
        tiles = {"x": x, "weight": weight} | ({} if residual is None else {"residual": residual})
        tensors = {name: inputs.aligned(inputs.rows(value)) for name, value in tiles.items()}
        tensors |= {name: inputs.aligned(value.contiguous()) for name, value in given.items()}
        tensors |= {name: inputs.rows(value) for name, value in (("y", y), ("z", z)) if value is not None}
        tensors |= {} if stats is None else dict(zip(("rstd", "mean"), stats.view(stats.shape[0], -1), strict=False))
        execute(kernel, tensors)
    return outputs


@functools.lru_cache(maxsize=1024)
def planned(target: Target, **facts: Any) -> Plan:
    """The plan by the facts of its problem, or one line on why there is none."""
    problem = LinearNorm(**facts, tiling=tiling_for(facts["k"], facts["n"], target))
    try:
        return plan(problem, target)
    except PlanError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{NAME}: weight has N = {problem.n}; no plan takes it ({reason})") from error


def fake(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    norm_weight: torch.Tensor | None,
    norm_bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    norm: str,
    eps: float,
    return_z: bool,
    return_stats: bool,
) -> tuple[torch.Tensor | None, ...]:
    """The outputs, not yet written."""
    leading = x.shape[:-1]
    y, z = (x.new_empty((*leading, weight.shape[0])) if wanted else None for wanted in (True, return_z))
    kinds = 2 if norm == "layer" else 1
    return y, z, x.new_empty((kinds, *leading), dtype=torch.float32) if return_stats else None


registered = register(NAME, SCHEMA, forward, fake, backward, kept=(STATS,))
