"""What is put together of the kernels: a projection and its pre, post and the next sublayer's pre."""

from typing import Any

import torch

from cute_kernels.hyper_connection.op import mhc_post, mhc_pre_big_fuse
from cute_kernels.hyper_connection.prepare import checked
from cute_kernels.hyper_connection.project import checked_weight, mhc_project

PRE = "mhc_pre"
EPS = 1e-6  # where an eps is None or not given


def mhc_pre(
    X: Any,
    W: Any,
    scale: Any,
    base: Any,
    *,
    carried_pre: Any = None,
    return_pre: bool = False,
    num_splits: int | None = None,
    precision: str = "tf32",
    **options: Any,
) -> tuple[torch.Tensor, ...]:
    """mhc_project, then mhc_pre_big_fuse, whose `options` it takes: post, comb, layer_input [, pre].

    carried_pre  [..., n], float32: the weights of layer_input in place of this token's pre, which the next sublayer then gets
    return_pre   also return pre [..., n], float32
    """
    X, W = checked_weight(PRE, X, W, precision)
    n = X.shape[-2]
    parts = mhc_project(X, W, num_splits, precision=precision)
    post, comb, layer_input = mhc_pre_big_fuse(*parts, X, scale, base, **options)
    if carried_pre is not None:
        carried_pre = checked(PRE, "carried_pre", carried_pre, X, torch.float32, n)
        layer_input = (carried_pre[..., None, :] @ X.float()).squeeze(-2).to(X.dtype)
    if not return_pre:
        return post, comb, layer_input
    return post, comb, layer_input, pre_of(*parts, X, scale, base, **options)


def pre_of(
    dot_mix: torch.Tensor, sqrsum: torch.Tensor, X: torch.Tensor, scale: Any, base: Any, **options: Any
) -> torch.Tensor:
    """σ(z) + pre_eps of pre's mixes."""
    (n, h), y, q = X.shape[-2:], dot_mix.sum(0), sqrsum.sum(0)
    rms_eps, pre_eps = (EPS if options.get(name) is None else options[name] for name in ("rms_eps", "pre_eps"))
    rstd = torch.rsqrt(q / (n * h) + rms_eps)[..., None]
    return (y[..., :n] * rstd * scale[0] + base[:n]).sigmoid() + pre_eps


def mhc_post_pre(
    f: Any, X: Any, post: Any, comb: Any, W: Any, scale: Any, base: Any, **options: Any
) -> tuple[torch.Tensor, ...]:
    """mhc_post of one sublayer, then mhc_pre of the next, whose W, scale, base and `options` it takes: the streams, then what mhc_pre returns.

    The bits are those of the two calls.
    """
    streams = mhc_post(f, X, post, comb)
    return streams, *mhc_pre(streams, W, scale, base, **options)
