"""linear_norm as mathematics: the float64 specification, and the float32 chain rounded once that errors are judged by."""

from typing import Any

import torch

EPS = {"rms": 1e-6, "layer": 1e-5}


def linear_norm(x: torch.Tensor, weight: torch.Tensor, bias: Any = None, **options: Any) -> Any:
    """z = x · weightᵀ + bias + residual; y = norm(z) · norm_weight + norm_bias, in float64; with returns as asked for: y, z, mean, rstd.

    norm(z) is z / √(mean(z²) + eps), or (z − mean(z)) / √(variance(z) + eps).
    """
    return in_precision(torch.float64, x, weight, bias, **options)


def linear_norm_yardstick(x: torch.Tensor, weight: torch.Tensor, bias: Any = None, **options: Any) -> Any:
    """The same in float32, y and z rounded once to x's dtype."""
    found = in_precision(torch.float32, x, weight, bias, **options)
    if isinstance(found, torch.Tensor):
        return found.to(x.dtype)
    rounded = 1 + bool(options.get("return_z"))
    return (*(value.to(x.dtype) for value in found[:rounded]), *found[rounded:])


def in_precision(dtype: torch.dtype, x: torch.Tensor, weight: torch.Tensor, bias: Any, **options: Any) -> Any:
    """The formula, computed in `dtype`. Options are linear_norm's keywords."""
    norm = options["norm"]
    eps = EPS[norm] if options.get("eps") is None else options["eps"]
    z = x.to(dtype) @ weight.to(dtype).mT
    for addend in (bias, options.get("residual")):
        z = z if addend is None else z + addend.to(dtype)
    mean = z.mean(-1, keepdim=True) if norm == "layer" else None
    centred = z if mean is None else z - mean
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    y = centred * rstd
    y = y if options.get("norm_weight") is None else y * options["norm_weight"].to(dtype)
    y = y if options.get("norm_bias") is None else y + options["norm_bias"].to(dtype)
    statistics = (mean if mean is None else mean.squeeze(-1), rstd.squeeze(-1)) if options.get("return_stats") else ()
    found = (y, *((z,) if options.get("return_z") else ()), *statistics)
    return found if len(found) > 1 else y


def linear_norm_pytorch(x: torch.Tensor, weight: torch.Tensor, bias: Any = None, **options: Any) -> torch.Tensor:
    """What one would write with PyTorch's own operators: to time beside."""
    norm, n = options["norm"], weight.shape[:1]
    eps = EPS[norm] if options.get("eps") is None else options["eps"]
    vectors = (bias, options.get("norm_weight"), options.get("norm_bias"))
    bias, scale, shift = (value if value is None else value.to(x.dtype) for value in vectors)
    z = torch.nn.functional.linear(x, weight, bias)
    z = z if options.get("residual") is None else z + options["residual"]
    if norm == "layer":
        return torch.nn.functional.layer_norm(z, n, scale, shift, eps)
    y = torch.nn.functional.rms_norm(z, n, scale, eps)
    return y if shift is None else y + shift
