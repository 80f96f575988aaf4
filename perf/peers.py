"""Kernels of others, called as their authors mean them to be. Importing quack patches the DSL's tensor classes: perf only."""

from collections.abc import Callable
from typing import Any

import torch


def quack_rms_norm() -> Callable[..., Any]:
    """quack's rmsnorm_fwd with our arguments."""
    from quack.rmsnorm import rmsnorm_fwd

    return lambda x, weight, weight_offset: rmsnorm_fwd(x, weight, eps=1e-6)


def quack_layer_norm() -> Callable[..., Any]:
    """quack's layernorm_fwd; weight and bias float32."""
    from quack.rmsnorm import layernorm_fwd

    return lambda x, weight, weight_offset, bias: layernorm_fwd(x, weight, bias, eps=1e-5)


def quack_rms_norm_backward() -> Callable[..., Any]:
    """quack's rmsnorm_bwd from what a forward saved."""
    from quack.rmsnorm import rmsnorm_bwd

    return lambda x, weight, dy, stats: rmsnorm_bwd(x, weight, dy, stats[0])


def quack_layer_norm_backward() -> Callable[..., Any]:
    """quack's layernorm_bwd from what a forward saved."""
    from quack.rmsnorm import layernorm_bwd

    return lambda x, weight, dy, stats: layernorm_bwd(x, weight, dy, stats[0], stats[1])


def quack_gemm() -> Callable[..., Any]:
    """quack's gemm(A, B), B as (K, N), in its default configuration."""
    from quack.gemm_interface import gemm

    return lambda a, b: gemm(a, b, tuned=False)


FLASHINFER_SPLITS = (1, 2, 4, 8, 16)


def flashinfer_mhc(operator: str, arguments: dict[str, Any]) -> Callable[..., Any] | None:
    """FlashInfer's kernel of an operator, outputs allocated with it as ours are; None where it has none for these arguments."""
    x = arguments["X"]
    dot_mix = arguments.get("dot_mix")
    splits = dot_mix.shape[0] if dot_mix is not None and dot_mix.dim() == 3 else 1
    if x.shape[1] != 4 or splits not in FLASHINFER_SPLITS or operator not in ("mhc_post", "mhc_pre_big_fuse"):
        return None
    from flashinfer import mhc

    tokens, n, h = x.shape

    def post(f: torch.Tensor, X: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> None:  # noqa: N803
        mhc._mhc_post_impl(torch.empty_like(X), f, X, post, comb)

    def big_fuse(X: torch.Tensor, dot_mix: torch.Tensor, sqrsum: torch.Tensor, **named: Any) -> None:  # noqa: N803
        outs = (X.new_empty((tokens, *last), dtype=torch.float32) for last in ((n,), (n, n)))
        given = (dot_mix, sqrsum, X, named["scale"], named["base"])
        eps = (1e-6, 1e-6, 1e-6)
        mhc._mhc_pre_big_fuse_impl(*outs, X.new_empty(tokens, h), *given, n * h, *eps, 2.0, 20, splits, 0)

    return post if operator == "mhc_post" else big_fuse
