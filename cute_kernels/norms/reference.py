"""The norms as mathematics: the float64 specification, and the float32 chain rounded once that errors are judged by."""

from typing import Any

import torch

EPS = {"rms": 1e-6, "layer": 1e-5}


def rms_norm(x: torch.Tensor, weight: Any = None, bias: Any = None, **options: Any) -> torch.Tensor:
    """y = z / √(mean(z²) + eps) · (weight_offset + weight) + bias with z = x + residual, in float64."""
    return in_precision(torch.float64, "rms", x, weight, bias, **options)


def layer_norm(x: torch.Tensor, weight: Any = None, bias: Any = None, **options: Any) -> torch.Tensor:
    """The same of z − mean(z)."""
    return in_precision(torch.float64, "layer", x, weight, bias, **options)


def rms_norm_yardstick(x: torch.Tensor, *parameters: Any, **options: Any) -> torch.Tensor:
    """rms_norm in float32, rounded once to x's dtype."""
    return in_precision(torch.float32, "rms", x, *parameters, **options).to(x.dtype)


def layer_norm_yardstick(x: torch.Tensor, *parameters: Any, **options: Any) -> torch.Tensor:
    """layer_norm in float32, rounded once to x's dtype."""
    return in_precision(torch.float32, "layer", x, *parameters, **options).to(x.dtype)


def in_precision(
    dtype: torch.dtype, norm: str, x: torch.Tensor, weight: Any = None, bias: Any = None, **options: Any
) -> torch.Tensor:
    """The formula, computed in `dtype`. Options: residual, weight_offset, eps."""
    residual = options.get("residual")
    z = x.to(dtype) if residual is None else x.to(dtype) + residual.to(dtype)
    z = z - z.mean(-1, keepdim=True) if norm == "layer" else z
    y = z * torch.rsqrt(z.square().mean(-1, keepdim=True) + options.get("eps", EPS[norm]))
    y = y if weight is None else y * (weight.to(dtype) + options.get("weight_offset", 0.0))
    return y if bias is None else y + bias.to(dtype)


def rms_norm_pytorch(x: torch.Tensor, weight: Any = None, bias: Any = None, **options: Any) -> torch.Tensor:
    """What one would write with PyTorch's own operators: to time beside."""
    return pytorch("rms", x, weight, bias, **options)


def layer_norm_pytorch(x: torch.Tensor, weight: Any = None, bias: Any = None, **options: Any) -> torch.Tensor:
    """The same for layer_norm."""
    return pytorch("layer", x, weight, bias, **options)


def pytorch(norm: str, x: torch.Tensor, weight: Any, bias: Any, **options: Any) -> torch.Tensor:
    """torch's norm, and beside it what it has no argument for."""
    z = x if options.get("residual") is None else x + options["residual"]
    scale = None if weight is None else (weight + options.get("weight_offset", 0.0)).to(x.dtype)
    function = getattr(torch.nn.functional, f"{norm}_norm")
    y = function(z, z.shape[-1:], weight=scale, eps=options.get("eps", EPS[norm]))
    return y if bias is None else y + bias.to(x.dtype)
