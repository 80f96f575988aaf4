"""rms_norm as mathematics: the float64 specification, and the float32 chain rounded once that errors are judged by."""

import torch


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, weight_offset: float = 0.0, eps: float = 1e-6
) -> torch.Tensor:
    """y = x / √(mean(x²) + eps) · (weight_offset + weight), in float64. Differentiable any number of times."""
    return in_precision(torch.float64, x, weight, weight_offset, eps)


def yardstick(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, weight_offset: float = 0.0, eps: float = 1e-6
) -> torch.Tensor:
    """The same in float32, rounded once to x's dtype."""
    return in_precision(torch.float32, x, weight, weight_offset, eps).to(x.dtype)


def in_precision(
    dtype: torch.dtype, x: torch.Tensor, weight: torch.Tensor | None, weight_offset: float, eps: float
) -> torch.Tensor:
    """The formula, computed in `dtype`."""
    x = x.to(dtype)
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return y if weight is None else y * (weight.to(dtype) + weight_offset)


def pytorch(
    x: torch.Tensor, weight: torch.Tensor | None = None, *, weight_offset: float = 0.0, eps: float = 1e-6
) -> torch.Tensor:
    """What one would write with PyTorch's own operators: to time beside."""
    scale = None if weight is None else (weight + weight_offset).to(x.dtype)
    return torch.nn.functional.rms_norm(x, x.shape[-1:], scale, eps)
