"""What is put together of the kernels: the projection and its pre, post and the next sublayer's pre.

The projection is PyTorch's float32 product for now, not a kernel of ours: right, and a pass over X of its own.
"""

from typing import Any

import torch

from cute_kernels.hyper_connection.op import mhc_post, mhc_pre_big_fuse
from cute_kernels.hyper_connection.prepare import checked, checked_streams
from cute_kernels.runtime import inputs
from cute_kernels.runtime.errors import refuse

PROJECT, PRE, POST_PRE = "mhc_project", "mhc_pre", "mhc_post_pre"
PRECISIONS = ("tf32", "high")


def mhc_project(
    X: Any, W: Any, num_splits: int | None = None, *, precision: str = "tf32"
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mixes of tokens, x · Wᵀ, and their sums of squares, in parts: each of a piece of x's K = n · H elements.

    X           [..., n, H], bfloat16 or float16
    W           [M, K], float32, M = n (2 + n): rows of pre, post and comb, comb row by row
    num_splits  S >= 1 parts of ⌈K / S⌉ elements, the last ones shorter; None means 1
    precision   "tf32", relative error 5e-4 at most, or "high", 1e-5 at most; both are float32 for now

    Returns dot_mix [S, ..., M] and sqrsum [S, ...], float32, as mhc_pre_big_fuse takes them.
    """
    X, W = checked_weight(PROJECT, X, W, precision)
    splits = 1 if num_splits is None else num_splits
    if not isinstance(splits, int) or isinstance(splits, bool):
        refuse(PROJECT, "num_splits", repr(splits), "None or an integer >= 1", TypeError)
    if splits < 1:
        refuse(PROJECT, "num_splits", splits, "None or an integer >= 1")
    x = X.flatten(-2).float()
    width = -(-x.shape[-1] // splits)
    pieces = [slice(part * width, (part + 1) * width) for part in range(splits)]
    dots = torch.stack([x[..., piece] @ W[:, piece].mT for piece in pieces])
    return dots, torch.stack([x[..., piece].square().sum(-1) for piece in pieces])


def checked_weight(operator: str, X: Any, W: Any, precision: str) -> tuple[torch.Tensor, torch.Tensor]:
    """X and its projection."""
    X, W = checked_streams(operator, X), inputs.tensor(operator, "W", W)
    n, h = X.shape[-2:]
    inputs.dtype(operator, "W", W, (torch.float32,))
    inputs.shape(operator, "W", W, f"[{n * (2 + n)}, {n * h}]", tuple(W.shape) == (n * (2 + n), n * h))
    inputs.same_device(operator, "W", W, X)
    if precision not in PRECISIONS:
        refuse(operator, "precision", repr(precision), " or ".join(map(repr, PRECISIONS)))
    return X, W


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
    rstd = torch.rsqrt(q / (n * h) + options.get("rms_eps", 1e-6))[..., None]
    return (y[..., :n] * rstd * scale[0] + base[:n]).sigmoid() + options.get("pre_eps", 1e-6)


def mhc_post_pre(
    f: Any, X: Any, post: Any, comb: Any, W: Any, scale: Any, base: Any, **options: Any
) -> tuple[torch.Tensor, ...]:
    """mhc_post of one sublayer, then mhc_pre of the next, whose W, scale, base and `options` it takes: the streams, then what mhc_pre returns.

    The bits are those of the two calls.
    """
    streams = mhc_post(f, X, post, comb)
    return streams, *mhc_pre(streams, W, scale, base, **options)
