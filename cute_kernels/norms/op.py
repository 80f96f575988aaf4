"""rms_norm and layer_norm for PyTorch: checks, then a plan, then a launch; registered as `cute_kernels::rms_norm` and `::layer_norm`."""

import functools
from dataclasses import dataclass
from typing import Any

import torch

from cute_kernels.norms import gradients
from cute_kernels.norms.plan import Norm
from cute_kernels.norms.prepare import lay_out, parameter, planned
from cute_kernels.runtime import inputs
from cute_kernels.runtime.bridge import NAMES
from cute_kernels.runtime.errors import refuse
from cute_kernels.runtime.launch import execute, target_for
from cute_kernels.runtime.library import Gradients, register

SCHEMA = (
    "(Tensor x, Tensor? residual, Tensor? weight, Tensor? bias, float weight_offset, float eps, "
    "bool return_sum, bool return_stats) -> (Tensor y, Tensor sum, Tensor stats)"
)
DTYPES = inputs.FLOATS  # of x
STATS = 2  # number of that output: [1 or 2, ...], rstd and, of a layer norm, the mean


def rms_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    residual: Any = None,
    weight_offset: float = 0.0,
    eps: float | None = None,
    return_residual: bool = False,
    return_stats: bool = False,
) -> Any:
    """z / √(mean(z²) + eps) · (weight_offset + weight) + bias over the last dimension, with z = x + residual.

    x         [..., N], bfloat16, float16 or float32; used in place where its last dimension has stride 1
    weight    [N], x's dtype or float32; None multiplies by nothing
    bias      [N], x's dtype or float32; None adds nothing
    residual  like x, added to it in float32; None adds nothing
    eps       None means 1e-6

    Returns y, or a tuple: y; with `return_residual` z, rounded to x's dtype (x itself where there is no residual); with
    `return_stats` None (where a layer norm has the mean) and rstd, float32 of x's leading shape, not differentiated.

    Raises TypeError or ValueError, before anything runs and on one line, for an argument that is none of these; TargetError
    where x is on a GPU that the kernels do not run on. Tensors may be arrays of any library that speaks DLPack.
    """
    return RMS.call(x, residual, weight, bias, weight_offset, eps, return_residual, return_stats)


def layer_norm(
    x: Any,
    weight: Any = None,
    bias: Any = None,
    *,
    residual: Any = None,
    weight_offset: float = 0.0,
    eps: float | None = None,
    return_residual: bool = False,
    return_stats: bool = False,
) -> Any:
    """(z − mean(z)) / √(variance(z) + eps) · (weight_offset + weight) + bias over the last dimension, with z = x + residual.

    Arguments and results are those of rms_norm, but eps None means 1e-5, and `return_stats` returns the mean and rstd.
    """
    return LAYER.call(x, residual, weight, bias, weight_offset, eps, return_residual, return_stats)


@dataclass(frozen=True)
class Operator:
    """What the two have in common, by what tells them apart."""

    name: str
    centre: bool
    eps: float

    def call(
        self,
        x: Any,
        residual: Any,
        weight: Any,
        bias: Any,
        weight_offset: float,
        eps: float | None,
        return_residual: bool,
        return_stats: bool,
    ) -> Any:
        """Check the arguments and run. Where a gradient may be asked for, the statistics are kept for it."""
        x, residual, weight, bias = tensors = self.checked(x, residual, weight, bias)
        weight_offset = inputs.number(self.name, "weight_offset", weight_offset)
        if weight is None and weight_offset:
            refuse(self.name, "weight_offset", f"{weight_offset} without a weight", "0.0 there")
        eps = inputs.epsilon(self.name, eps, self.eps)
        return_residual = inputs.flag(self.name, "return_residual", return_residual)
        return_stats = inputs.flag(self.name, "return_stats", return_stats)
        watched = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
        with_sum = return_residual and residual is not None
        y, total, stats = self.registered(*tensors, weight_offset, eps, with_sum, return_stats or watched)
        found = [y]
        if return_residual:
            found.append(total if with_sum else x)
        if return_stats:
            found += [stats[1] if self.centre else None, stats[0]]
        return tuple(found) if len(found) > 1 else y

    def checked(self, x: Any, residual: Any, weight: Any, bias: Any) -> tuple[Any, ...]:
        """The four as tensors that fit each other."""
        x = inputs.tensor(self.name, "x", x)
        inputs.dtype(self.name, "x", x, DTYPES)
        inputs.shape(self.name, "x", x, "[..., N] with N >= 1", x.dim() > 0 and x.shape[-1] > 0)
        if residual is not None:
            residual = inputs.tensor(self.name, "residual", residual)
            inputs.dtype(self.name, "residual", residual, (x.dtype,))
            inputs.shape(self.name, "residual", residual, f"x's shape, {list(x.shape)}", residual.shape == x.shape)
            inputs.same_device(self.name, "residual", residual, x)
        return x, residual, self.vector("weight", weight, x), self.vector("bias", bias, x)

    def vector(self, argument: str, value: Any, x: torch.Tensor) -> torch.Tensor | None:
        """A parameter along the columns of x."""
        if value is None:
            return None
        value = inputs.tensor(self.name, argument, value)
        inputs.dtype(self.name, argument, value, (x.dtype, torch.float32))
        inputs.shape(self.name, argument, value, f"[{x.shape[-1]}], the last extent of x", value.shape == x.shape[-1:])
        inputs.same_device(self.name, argument, value, x)
        return value

    def forward(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        weight_offset: float,
        eps: float,
        return_sum: bool,
        return_stats: bool,
    ) -> tuple[torch.Tensor | None, ...]:
        """Lay the inputs out as the kernel takes them, and run it."""
        target = target_for(self.name, x)
        outputs = self.fake(x, residual, weight, bias, weight_offset, eps, return_sum, return_stats)
        if not x.numel():
            return outputs
        tensors, vector = lay_out({"x": x, "residual": residual})
        problem = Norm(
            n=x.shape[-1],
            dtype=NAMES[x.dtype],
            weight_dtype="" if weight is None else NAMES[weight.dtype],
            bias_dtype="" if bias is None else NAMES[bias.dtype],
            weight_offset=weight_offset,
            eps=eps,
            centre=self.centre,
            residual=residual is not None,
            return_sum=return_sum,
            return_stats=return_stats,
            vector=vector,
        )
        given = (("weight", weight), ("bias", bias))
        tensors |= {name: parameter(value, vector) for name, value in given if value is not None}
        execute(planned(self.name, problem, target), tensors | of_rows(outputs))
        return outputs

    def fake(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        weight_offset: float,
        eps: float,
        return_sum: bool,
        return_stats: bool,
    ) -> tuple[torch.Tensor | None, ...]:
        """The outputs, not yet written."""
        y, total = empty(x), empty(x) if return_sum else None
        kinds = 2 if self.centre else 1
        return y, total, x.new_empty((kinds, *x.shape[:-1]), dtype=torch.float32) if return_stats else None

    def backward(
        self,
        needs: tuple[bool, ...],
        incoming: tuple[torch.Tensor | None, ...],
        arguments: tuple[Any, ...],
        kept: tuple[torch.Tensor, ...],
    ) -> Gradients:
        """The gradients that are needed, by the fused backward; x and residual have the same one."""
        x, residual, weight, bias, weight_offset, eps, return_sum, return_stats = arguments
        (stats,) = kept
        if not return_stats:  # registered operator called by itself, or a transform that hides who requires grad
            stats = self.registered(x, residual, None, None, 0.0, eps, False, True)[STATS]
        wants = (needs[0] or needs[1], needs[2], needs[3])
        saved = gradients.Saved(x, residual, weight, stats, weight_offset)
        dx, dweight, dbias = gradients.of(saved, incoming[0], incoming[1] if return_sum else None, wants)
        return (
            dx if needs[0] else None,
            dx if needs[1] else None,
            dweight if dweight is None else dweight.to(weight.dtype),
            dbias if dbias is None else dbias.to(bias.dtype),
            *[None] * 4,
        )

    @functools.cached_property
    def registered(self) -> Any:
        """`cute_kernels::<name>`."""
        return register(self.name, SCHEMA, self.forward, self.fake, self.backward, kept=(STATS,))


def empty(x: torch.Tensor) -> torch.Tensor:
    """Of x's shape, contiguous whatever x is."""
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def of_rows(outputs: tuple[torch.Tensor | None, ...]) -> dict[str, torch.Tensor]:
    """The outputs as the kernel writes them, by the plan's names."""
    y, total, stats = outputs
    assert y is not None
    found = {"y": inputs.rows(y)}
    if total is not None:
        found["sum"] = inputs.rows(total)
    if stats is not None:
        found |= dict(zip(("rstd", "mean"), stats.view(stats.shape[0], -1), strict=False))
    return found


RMS, LAYER = Operator("rms_norm", False, 1e-6), Operator("layer_norm", True, 1e-5)
for _operator in (RMS, LAYER):
    _ = _operator.registered  # with the import, so that torch.ops has them
