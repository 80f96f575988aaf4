"""Modules with the parameters of the operators they call; names and shapes of parameters are torch.nn's."""

import torch
from torch import nn

from cute_kernels.linear_norm.op import linear_norm
from cute_kernels.norms.op import rms_norm

__all__ = ["LinearNorm", "RMSNorm"]


class RMSNorm(nn.Module):
    """rms_norm with a weight of ones to begin with. State dicts are those of torch.nn.RMSNorm over one dimension."""

    def __init__(
        self,
        n: int,
        eps: float | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(n, device=device, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.weight, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"


class LinearNorm(nn.Linear):
    """A linear without bias and the norm of its output, in one kernel. Initialised, and saved, as torch.nn.Linear is."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        norm: str = "rms",
        eps: float | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias=False, device=device, dtype=dtype)
        self.norm, self.eps = norm, eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return linear_norm(x, self.weight, norm=self.norm, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, norm={self.norm!r}, eps={self.eps}"
