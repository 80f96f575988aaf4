"""linear_norm for PyTorch: checks, then a plan, then a launch; registered as `cute_kernels::linear_norm`."""

import functools
from typing import Any

import torch

from cute_kernels.linear_norm.plan import LinearNorm, Tiling, plan
from cute_kernels.plan import Plan, PlanError, Target
from cute_kernels.runtime import inputs
from cute_kernels.runtime.bridge import NAMES
from cute_kernels.runtime.errors import refuse
from cute_kernels.runtime.launch import execute, target_for
from cute_kernels.runtime.library import Gradients, register

NAME = "linear_norm"
DTYPES = inputs.HALVES  # of x
NORMS = {"rms": 1e-6}  # norm -> its default eps
TILING = Tiling()
CHUNK = 8  # elements of K in TMA's 16 bytes


def linear_norm(x: Any, weight: Any, *, norm: str, eps: float | None = None) -> torch.Tensor:
    """norm(x · weightᵀ) over the last dimension, in one kernel; the product itself is not written.

    x       [..., K], bfloat16 or float16, K a multiple of 8
    weight  [N, K], x's dtype, N a multiple of 64
    norm    "rms"
    eps     None means 1e-6

    Under torch.autocast both are cast to its dtype, as for a linear.
    """
    x, weight = inputs.autocast(inputs.tensor(NAME, "x", x), inputs.tensor(NAME, "weight", weight))
    inputs.dtype(NAME, "x", x, DTYPES)
    inputs.dtype(NAME, "weight", weight, (x.dtype,))
    inputs.shape(NAME, "x", x, f"[..., K] with K a multiple of {CHUNK}", x.dim() > 0 and fits(x.shape[-1], CHUNK))
    right = weight.dim() == 2 and weight.shape[1] == x.shape[-1] and fits(weight.shape[0], TILING.part)
    inputs.shape(NAME, "weight", weight, f"[N, {x.shape[-1]}] with N a multiple of {TILING.part}", right)
    inputs.same_device(NAME, "weight", weight, x)
    if not isinstance(norm, str) or norm not in NORMS:
        refuse(NAME, "norm", repr(norm), " or ".join(map(repr, NORMS)))
    return registered(x, weight, norm, inputs.epsilon(NAME, eps, NORMS[norm]))


def fits(extent: int, multiple: int) -> bool:
    """Whether an extent is a multiple, and not 0."""
    return extent > 0 and extent % multiple == 0


def forward(x: torch.Tensor, weight: torch.Tensor, norm: str, eps: float) -> torch.Tensor:
    """Lay the inputs out as TMA takes them, and run the kernel."""
    target = target_for(NAME, x)
    n = weight.shape[0]
    y = torch.empty(*x.shape[:-1], n, dtype=x.dtype, device=x.device)
    kernel = planned(target, k=x.shape[-1], n=n, dtype=NAMES[x.dtype], norm=norm, eps=eps)
    if y.numel():
        rows, columns = inputs.aligned(inputs.rows(x)), inputs.aligned(inputs.rows(weight))
        execute(kernel, {"x": rows, "weight": columns, "y": inputs.rows(y)})
    return y


@functools.lru_cache(maxsize=1024)
def planned(target: Target, **facts: Any) -> Plan:
    """The plan by the facts of its problem, or one line on why there is none."""
    problem = LinearNorm(**facts)
    try:
        return plan(problem, target)
    except PlanError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{NAME}: weight has N = {problem.n}; no plan takes it ({reason})") from error


def fake(x: torch.Tensor, weight: torch.Tensor, norm: str, eps: float) -> torch.Tensor:
    """What the result looks like."""
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def backward(
    needs: tuple[bool, ...], gradients: tuple[Any, ...], arguments: tuple[Any, ...], kept: tuple[Any, ...]
) -> Gradients:
    """dx and dweight by PyTorch in float32, the product recomputed."""
    (gradient,), (x, weight, _, eps) = gradients, arguments
    rows, wide, dy = x.reshape(-1, x.shape[-1]).float(), weight.float(), gradient.reshape(-1, weight.shape[0]).float()
    z = rows @ wide.mT
    rstd = torch.rsqrt(z.square().mean(-1, keepdim=True) + eps)
    unit = z * rstd
    dz = rstd * (dy - unit * (dy * unit).mean(-1, keepdim=True))
    dx = (dz @ wide).view(x.shape).to(x.dtype) if needs[0] else None
    dweight = (dz.mT @ rows).to(weight.dtype) if needs[1] else None
    return dx, dweight, None, None


registered = register(
    NAME,
    "(Tensor x, Tensor weight, str norm, float eps) -> Tensor",
    forward,
    fake,
    backward,
)
