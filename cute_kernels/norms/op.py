"""rms_norm for PyTorch: checks, then a plan, then a launch; registered as `cute_kernels::rms_norm`."""

import functools
from typing import Any

import torch

from cute_kernels.norms.plan import ROW_MOST, RmsNorm, plan
from cute_kernels.plan import Plan, PlanError, Target
from cute_kernels.runtime import inputs
from cute_kernels.runtime.bridge import NAMES
from cute_kernels.runtime.errors import refuse
from cute_kernels.runtime.launch import execute, target_for
from cute_kernels.runtime.library import Gradients, register

NAME = "rms_norm"
EPS = 1e-6


def rms_norm(x: Any, weight: Any = None, *, weight_offset: float = 0.0, eps: float | None = None) -> torch.Tensor:
    """x / √(mean(x²) + eps) · (weight_offset + weight) over the last dimension.

    x       [..., N], bfloat16, float16 or float32; used in place where its last dimension has stride 1
    weight  [N], x's dtype or float32; None multiplies by nothing
    eps     None means 1e-6
    """
    x = inputs.tensor(NAME, "x", x)
    inputs.dtype(NAME, "x", x, inputs.FLOATS)
    inputs.shape(NAME, "x", x, "[..., N] with N >= 1", x.dim() > 0 and x.shape[-1] > 0)
    if weight is not None:
        weight = inputs.tensor(NAME, "weight", weight)
        inputs.dtype(NAME, "weight", weight, (x.dtype, torch.float32))
        inputs.shape(NAME, "weight", weight, f"[{x.shape[-1]}], the last extent of x", weight.shape == x.shape[-1:])
        inputs.same_device(NAME, "weight", weight, x)
    elif weight_offset:
        refuse(NAME, "weight_offset", f"{weight_offset} without a weight", "0.0 there")
    return registered(x, weight, float(weight_offset), inputs.epsilon(NAME, eps, EPS))


def forward(x: torch.Tensor, weight: torch.Tensor | None, weight_offset: float, eps: float) -> torch.Tensor:
    """Lay the inputs out as the kernel takes them, and run it."""
    target = target_for(NAME, x)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    if not x.numel():
        return y
    rows = inputs.rows(x)
    tensors, vector = {"x": rows, "y": inputs.rows(y)}, inputs.vector(rows)
    if weight is not None:
        tensors["weight"] = inputs.aligned(weight.contiguous(), vector * weight.element_size())
    kernel = planned(
        target,
        n=x.shape[-1],
        dtype=NAMES[x.dtype],
        weight_dtype="" if weight is None else NAMES[weight.dtype],
        weight_offset=weight_offset,
        eps=eps,
        vector=vector,
    )
    execute(kernel, tensors)
    return y


@functools.lru_cache(maxsize=1024)
def planned(target: Target, **facts: Any) -> Plan:
    """The plan by the facts of its problem, or one line on what there is a plan for."""
    problem = RmsNorm(**facts)
    try:
        return plan(problem, target)
    except PlanError as error:
        most = target.cluster_most * ROW_MOST
        raise ValueError(f"{NAME}: x has rows of {problem.n}; it takes up to {most} on {target.arch}") from error


def fake(x: torch.Tensor, weight: torch.Tensor | None, weight_offset: float, eps: float) -> torch.Tensor:
    """What the result looks like."""
    return x.new_empty(x.shape)


def backward(
    needs: tuple[bool, ...],
    gradient: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    weight_offset: float,
    eps: float,
) -> Gradients:
    """dx and dweight by PyTorch in float32, x̂ recomputed from x."""
    wide, dy = x.float(), gradient.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    unit = wide * rstd
    dx = dweight = None
    if needs[0]:
        scaled = dy if weight is None else dy * (weight.float() + weight_offset)
        dx = (rstd * (scaled - unit * (scaled * unit).mean(-1, keepdim=True))).to(x.dtype)
    if weight is not None and needs[1]:
        dweight = (dy * unit).reshape(-1, x.shape[-1]).sum(0).to(weight.dtype)
    return dx, dweight, None, None


registered = register(
    NAME,
    "(Tensor x, Tensor? weight, float weight_offset, float eps) -> Tensor",
    forward,
    fake,
    backward,
)
