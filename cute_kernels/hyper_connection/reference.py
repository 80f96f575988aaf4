"""Hyper-connections as mathematics: the float64 specification, and the float32 chain rounded once that errors are judged by."""

from typing import Any

import torch

Tensor = torch.Tensor


def mhc_post(f: Tensor, X: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """out_j = f · post_j + Σ_i comb_ij · X_i, in float64. Differentiable any number of times."""
    return post_in(torch.float64, f, X, post, comb)


def mhc_post_yardstick(f: Tensor, X: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """The same in float32, rounded once to X's dtype."""
    return post_in(torch.float32, f, X, post, comb).to(X.dtype)


def post_in(dtype: torch.dtype, f: Tensor, X: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """The formula, computed in `dtype`."""
    layer = post.to(dtype)[..., :, None] * f.to(dtype)[..., None, :]
    return layer + comb.to(dtype).mT @ X.to(dtype)


mhc_post_pytorch = mhc_post_yardstick


def mhc_pre_big_fuse(
    dot_mix: Tensor, sqrsum: Tensor, X: Tensor, scale: Tensor, base: Tensor, **options: Any
) -> tuple[Tensor, ...]:
    """post, comb and layer_input from mixes [S, T, M] or [T, M] and sums of squares, in float64. X has one leading dimension."""
    return big_fuse_in(torch.float64, dot_mix, sqrsum, X, scale, base, **options)


def mhc_pre_big_fuse_yardstick(*, X: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """The same in float32, layer_input rounded once to X's dtype."""
    post, comb, layer_input = big_fuse_in(torch.float32, X=X, **arguments)
    return post, comb, layer_input.to(X.dtype)


mhc_pre_big_fuse_pytorch = mhc_pre_big_fuse_yardstick


def mhc_pre_big_fuse_allowed(**arguments: Any) -> tuple[float | None, ...]:
    """Absolute errors that the outputs may have: of coefficients 1e-5 and what rounding the largest logit brings."""
    z = logits_in(torch.float64, **arguments)
    most = float(z.nan_to_num(0, 0, 0).abs().max()) if z.numel() else 0.0
    coefficients = 1e-5 + 4 * 2.0**-23 * most
    return coefficients, coefficients, None


def mhc_pre_big_fuse_with_prenorm(X: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """The same of a projection in one part, its sums of squares those of X."""
    return mhc_pre_big_fuse(X=X, sqrsum=X.double().square().sum((-2, -1)), **arguments)


def mhc_pre_big_fuse_with_prenorm_yardstick(X: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """The same in float32."""
    return mhc_pre_big_fuse_yardstick(X=X, sqrsum=X.float().square().sum((-2, -1)), **arguments)


mhc_pre_big_fuse_with_prenorm_pytorch = mhc_pre_big_fuse_with_prenorm_yardstick


def mhc_pre_big_fuse_with_prenorm_allowed(X: Tensor, **arguments: Any) -> tuple[float | None, ...]:
    """The same bounds."""
    return mhc_pre_big_fuse_allowed(X=X, sqrsum=X.double().square().sum((-2, -1)), **arguments)


def logits_in(
    dtype: torch.dtype, dot_mix: Tensor, sqrsum: Tensor, X: Tensor, scale: Tensor, base: Tensor, **options: Any
) -> Tensor:
    """z = y / √(q / K + eps) · scale + base, [T, M], with y and q the sums over the splits."""
    n, h = X.shape[-2:]
    y, q = dot_mix.to(dtype), sqrsum.to(dtype)
    y, q = (y.sum(0), q.sum(0)) if dot_mix.dim() > X.dim() - 1 else (y, q)
    rstd = torch.rsqrt(q / (n * h) + options.get("rms_eps", 1e-6))
    return y * rstd[..., None] * scale.to(dtype).repeat_interleave(
        torch.tensor([n, n, n * n], device=X.device)
    ) + base.to(dtype)


def big_fuse_in(
    dtype: torch.dtype, dot_mix: Tensor, sqrsum: Tensor, X: Tensor, scale: Tensor, base: Tensor, **options: Any
) -> tuple[Tensor, ...]:
    """The formulas, computed in `dtype`. Options: rms_eps, pre_eps, sinkhorn_eps, post_mult, sinkhorn_repeats."""
    n = X.shape[-2]
    z = logits_in(dtype, dot_mix, sqrsum, X, scale, base, **options)
    pre = z[..., :n].sigmoid() + options.get("pre_eps", 1e-6)
    post = options.get("post_mult", 2.0) * z[..., n : 2 * n].sigmoid()
    comb = sinkhorn(
        z[..., 2 * n :].unflatten(-1, (n, n)), options.get("sinkhorn_eps", 1e-6), options.get("sinkhorn_repeats", 20)
    )
    return post, comb, (pre[..., None, :] @ X.to(dtype)).squeeze(-2)


def sinkhorn(logits: Tensor, eps: float, repeats: int) -> Tensor:
    """Softmax of the rows + eps; columns divided by their sums + eps; then repeats - 1 times rows, columns."""
    a = logits.softmax(-1) + eps
    a = a / (a.sum(-2, keepdim=True) + eps)
    for _ in range(repeats - 1):
        a = a / (a.sum(-1, keepdim=True) + eps)
        a = a / (a.sum(-2, keepdim=True) + eps)
    return a
