"""Gradients of linear_norm by PyTorch in float32, the product and its statistics recomputed: right, not fast."""

from typing import Any

import torch

from cute_kernels.runtime.library import Gradients


def backward(
    needs: tuple[bool, ...], incoming: tuple[Any, ...], arguments: tuple[Any, ...], kept: tuple[Any, ...]
) -> Gradients:
    """Exactly the gradients that are needed, from those of y and of the returned z (None where unused)."""
    x, weight, bias, norm_weight, norm_bias, residual, norm, eps, *_ = arguments
    n = weight.shape[0]
    dy, dz_returned = (g if g is None else g.reshape(-1, n).float().contiguous() for g in incoming[:2])
    rows, wide = x.reshape(-1, x.shape[-1]).float(), weight.float()
    dz = dz_returned
    dnorm_weight = dnorm_bias = None
    if dy is not None:
        unit, rstd = standardised(rows @ wide.mT, bias, residual, norm, eps)
        dnorm_weight = (dy * unit).sum(0) if needs[3] else None
        dnorm_bias = dy.sum(0) if needs[4] else None
        through = of_norm(dy if norm_weight is None else dy * norm_weight.float(), unit, rstd, norm)
        dz = through if dz is None else dz + through
    if dz is None:
        dz = rows.new_zeros(rows.shape[0], n)
    return (
        (dz @ wide).view(x.shape).to(x.dtype) if needs[0] else None,
        (dz.mT @ rows).to(weight.dtype) if needs[1] else None,
        dz.sum(0).to(bias.dtype) if needs[2] else None,
        of_vector(dnorm_weight, norm_weight) if needs[3] else None,
        of_vector(dnorm_bias, norm_bias) if needs[4] else None,
        dz.view(residual.shape).to(residual.dtype) if needs[5] else None,
        *[None] * 4,
    )


def standardised(
    z: torch.Tensor, bias: torch.Tensor | None, residual: torch.Tensor | None, norm: str, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """What norm_weight multiplies, and rstd, from the product."""
    z = z if bias is None else z + bias.float()
    z = z if residual is None else z + residual.reshape(z.shape).float()
    centred = z - z.mean(-1, keepdim=True) if norm == "layer" else z
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return centred * rstd, rstd


def of_norm(gradient: torch.Tensor, unit: torch.Tensor, rstd: torch.Tensor, norm: str) -> torch.Tensor:
    """rstd · (ĝ − mean(ĝ) − x̂ · mean(ĝ · x̂)), without mean(ĝ) for rms."""
    along = (gradient * unit).mean(-1, keepdim=True)
    centred = gradient - gradient.mean(-1, keepdim=True) if norm == "layer" else gradient
    return rstd * (centred - unit * along)


def of_vector(gradient: torch.Tensor | None, parameter: torch.Tensor) -> torch.Tensor:
    """In the parameter's dtype; zeros where y has no gradient."""
    return torch.zeros_like(parameter) if gradient is None else gradient.to(parameter.dtype)
