"""Gradients of the norms by the fused backward, registered as `cute_kernels::norm_backward` so that torch.compile traces it.

The sum that was normalised is not kept: it is read again as x and residual, with the statistics of the forward.
"""

from dataclasses import dataclass

import torch

from cute_kernels.norms.plan import NormBackward
from cute_kernels.norms.prepare import lay_out, parameter, planned
from cute_kernels.runtime.bridge import NAMES
from cute_kernels.runtime.launch import blocks_for, execute, target_for
from cute_kernels.runtime.library import Gradients, register

NAME = "norm_backward"
Wants = tuple[bool, bool, bool]  # gradients of the normalised sum, of the weight, of the bias


@dataclass(frozen=True)
class Saved:
    """What the forward leaves for the backward; stats are rstd and, of a layer norm, the mean."""

    x: torch.Tensor
    residual: torch.Tensor | None
    weight: torch.Tensor | None
    stats: torch.Tensor
    weight_offset: float


def of(saved: Saved, dy: torch.Tensor | None, dsum: torch.Tensor | None, wants: Wants) -> Gradients:
    """dx, dweight and dbias (float32), as far as wanted, from the gradients of y and of the returned sum, None where unused."""
    x, n = saved.x, saved.x.shape[-1]
    dsum = dsum.to(x.dtype) if dsum is not None and wants[0] else None
    if dy is None:
        zeros = [x.new_zeros(n, dtype=torch.float32) if wanted else None for wanted in wants[1:]]
        return (dsum if wants[0] else None, *zeros)
    if wants == (False, False, True):  # a sum over rows: x̂ is not needed
        return None, None, dy.reshape(-1, n).sum(0, dtype=torch.float32)
    weight = saved.weight if wants[0] else None
    dy = dy.to(x.dtype)
    found = registered(x, saved.residual, dy, dsum, weight, saved.stats, saved.weight_offset, list(wants))
    return tuple(value if wanted else None for value, wanted in zip(found, wants, strict=True))


def forward(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    dy: torch.Tensor,
    dsum: torch.Tensor | None,
    weight: torch.Tensor | None,
    stats: torch.Tensor,
    weight_offset: float,
    wants: list[bool],
) -> Gradients:
    """Lay the inputs out as the kernel takes them, run it, and add the clusters' partial sums in their order."""
    target = target_for(NAME, x)
    if not x.numel():
        return fake(x, residual, dy, dsum, weight, stats, weight_offset, wants)
    tensors, vector = lay_out({"x": x, "residual": residual, "dy": dy, "dsum": dsum})
    tensors |= dict(zip(("rstd", "mean"), stats.view(stats.shape[0], -1), strict=False))
    if weight is not None:
        tensors["weight"] = parameter(weight, vector)
    problem = NormBackward(
        n=x.shape[-1],
        dtype=NAMES[x.dtype],
        weight_dtype="" if weight is None else NAMES[weight.dtype],
        weight_offset=0.0 if weight is None else weight_offset,
        centre=len(stats) > 1,
        residual=residual is not None,
        dx=wants[0],
        dweight=wants[1],
        dbias=wants[2],
        dsum=dsum is not None,
        vector=vector,
    )
    kernel, rows = planned(NAME, problem, target), tensors["x"]
    partials = (blocks_for(kernel, rows) // kernel.cluster, problem.n)
    made = {name: x.new_empty(partials, dtype=torch.float32) for name in ("dweight", "dbias") if getattr(problem, name)}
    if problem.dx:
        made["dx"] = x.new_empty(rows.shape)
    execute(kernel, tensors | made)
    dweight, dbias = (made[name].sum(0) if name in made else None for name in ("dweight", "dbias"))
    return made["dx"].view(x.shape) if problem.dx else None, dweight, dbias


def fake(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    dy: torch.Tensor,
    dsum: torch.Tensor | None,
    weight: torch.Tensor | None,
    stats: torch.Tensor,
    weight_offset: float,
    wants: list[bool],
) -> Gradients:
    """What the gradients look like; zeros, so that it serves inputs without rows too."""
    sums = [x.new_zeros(x.shape[-1], dtype=torch.float32) if wanted else None for wanted in wants[1:]]
    return x.new_zeros(x.shape) if wants[0] else None, *sums


registered = register(
    NAME,
    "(Tensor x, Tensor? residual, Tensor dy, Tensor? dsum, Tensor? weight, Tensor stats, float weight_offset, bool[] wants)"
    " -> (Tensor dx, Tensor dweight, Tensor dbias)",
    forward,
    fake,
)
