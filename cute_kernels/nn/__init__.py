"""Modules with the parameters of the operators they call; names and shapes of parameters are torch.nn's."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from cute_kernels.hyper_connection.compose import mhc_post, mhc_pre
from cute_kernels.linear_norm.op import linear_norm
from cute_kernels.norms.op import layer_norm, rms_norm
from cute_kernels.runtime.errors import refuse

__all__ = ["HyperConnection", "LayerNorm", "LinearNorm", "RMSNorm"]


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm, by layer_norm: the same arguments, parameters and state dict."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 torch's name
        return over_last(layer_norm, input, self.normalized_shape, (self.weight, self.bias), self.eps)


class RMSNorm(nn.RMSNorm):
    """torch.nn.RMSNorm, by rms_norm: the same arguments, parameters and state dict. `eps` None means 1e-6, whatever the dtype."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 torch's name
        return over_last(rms_norm, input, self.normalized_shape, (self.weight, None), self.eps)


def over_last(
    norm: Callable[..., Any], x: torch.Tensor, shape: tuple[int, ...], parameters: tuple[Any, ...], eps: float | None
) -> torch.Tensor:
    """`norm` over as many dimensions as `shape` has."""
    if x.shape[-len(shape) :] != shape:
        takes = f"[..., {', '.join(map(str, shape))}]"
        refuse(norm.__name__, "x", f"of shape {list(x.shape)}", takes)
    weight, bias = (value if value is None else value.flatten() for value in parameters)
    return norm(x.flatten(-len(shape)), weight, bias, eps=eps).view(x.shape)


class LinearNorm(nn.Linear):
    """A linear and the norm of its output, in one kernel: norm(x · weightᵀ + bias [+ residual]) · norm_weight + norm_bias.

    weight and bias are initialised, and saved, as torch.nn.Linear's; with `elementwise_affine` norm_weight is [N] ones, and a layer norm
    has a norm_bias of zeros. `eps` None means 1e-6 for "rms", 1e-5 for "layer".
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        norm: str = "rms",
        eps: float | None = None,
        *,
        bias: bool = False,
        elementwise_affine: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, bias=bias, device=device, dtype=dtype)
        self.norm, self.eps, self.elementwise_affine = norm, eps, elementwise_affine
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        self.norm_weight = nn.Parameter(torch.ones(out_features, **like)) if elementwise_affine else None
        centred = elementwise_affine and norm == "layer"
        self.norm_bias = nn.Parameter(torch.zeros(out_features, **like)) if centred else None

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None = None) -> torch.Tensor:
        vectors: dict[str, Any] = {"norm_weight": self.norm_weight, "norm_bias": self.norm_bias}
        return linear_norm(x, self.weight, self.bias, norm=self.norm, residual=residual, eps=self.eps, **vectors)

    def extra_repr(self) -> str:
        parts = [f"{self.in_features}, {self.out_features}, norm={self.norm!r}, eps={self.eps}"]
        parts += ["bias=True"] if self.bias is not None else []
        return ", ".join([*parts, *(["elementwise_affine=True"] if self.elementwise_affine else [])])


class HyperConnection(nn.Module):
    """Any layer between `streams` residual streams, manifold-constrained: X [..., n, H] -> comb^T X + post · layer(pre · X).

    layer    takes and returns [..., H] in X's dtype
    options  of mhc_pre: sinkhorn_repeats, post_mult, the eps, num_splits, precision

    Parameters are float32: weight [n (2 + n), n H], normal of deviation 1 / √(n H); scale [3], 0.01; base [n (2 + n)], zeros.
    """

    def __init__(
        self,
        layer: Callable[..., torch.Tensor],
        hidden: int,
        streams: int = 4,
        *,
        device: torch.device | str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.layer, self.options = layer, options
        mixes, k = streams * (2 + streams), streams * hidden
        self.weight = nn.Parameter(torch.empty(mixes, k, device=device))
        self.scale = nn.Parameter(torch.empty(3, device=device))
        self.base = nn.Parameter(torch.empty(mixes, device=device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Gates begin at one half, the streams nearly evenly mixed."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)
        nn.init.constant_(self.scale, 0.01)
        nn.init.zeros_(self.base)

    def forward(self, x: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        """Further arguments go to the layer."""
        post, comb, layer_input, *_ = mhc_pre(x, self.weight, self.scale, self.base, **self.options)
        return mhc_post(self.layer(layer_input, *arguments, **named), x, post, comb)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())
