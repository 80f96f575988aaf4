"""linear_norm as mathematics: the float64 specification, and the float32 chain rounded once that errors are judged by."""

import torch


def linear_norm(x: torch.Tensor, weight: torch.Tensor, *, norm: str, eps: float = 1e-6) -> torch.Tensor:
    """z = x · weightᵀ; y = z / √(mean(z²) + eps), in float64. Differentiable any number of times."""
    return in_precision(torch.float64, x, weight, norm, eps)


def linear_norm_yardstick(x: torch.Tensor, weight: torch.Tensor, *, norm: str, eps: float = 1e-6) -> torch.Tensor:
    """The same in float32, rounded once to x's dtype."""
    return in_precision(torch.float32, x, weight, norm, eps).to(x.dtype)


def in_precision(dtype: torch.dtype, x: torch.Tensor, weight: torch.Tensor, norm: str, eps: float) -> torch.Tensor:
    """The formula, computed in `dtype`."""
    if norm != "rms":
        raise ValueError(f"linear_norm: no reference for norm {norm!r}")
    z = x.to(dtype) @ weight.to(dtype).mT
    return z * torch.rsqrt(z.square().mean(-1, keepdim=True) + eps)


def linear_norm_pytorch(x: torch.Tensor, weight: torch.Tensor, *, norm: str, eps: float = 1e-6) -> torch.Tensor:
    """What one would write with PyTorch's own operators: to time beside."""
    return torch.nn.functional.rms_norm(x @ weight.mT, weight.shape[:1], None, eps)
