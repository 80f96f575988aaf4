"""Hyper-connections for PyTorch: checks, then a plan, then a launch; each operator registered under its name."""

from typing import Any

import torch

from cute_kernels.hyper_connection import gradients
from cute_kernels.hyper_connection.plan import Post, Pre
from cute_kernels.hyper_connection.prepare import (
    as_table,
    checked,
    checked_mixes,
    checked_parameter,
    checked_streams,
    planned,
    split,
    vector,
)
from cute_kernels.runtime import inputs
from cute_kernels.runtime.bridge import NAMES
from cute_kernels.runtime.errors import refuse
from cute_kernels.runtime.launch import execute, target_for
from cute_kernels.runtime.library import register

DTYPES = inputs.HALVES  # of X
POST, PRE = "mhc_post", "mhc_pre_big_fuse"
EPS = 1e-6
POST_MULT, SINKHORN_REPEATS = 2.0, 20


def mhc_post(f: Any, X: Any, post: Any, comb: Any) -> torch.Tensor:
    """The streams behind a layer: out_j = f · post_j + Σ_i comb_ij · X_i.

    f     [..., H], what the layer made, X's dtype
    X     [..., n, H], the streams before it, bfloat16 or float16, n 2, 4 or 8; used in place where its last dimension has stride 1
    post  [..., n], float32
    comb  [..., n, n], float32; i, the stream that goes in, comes first

    Returns [..., n, H] in X's dtype, accumulated in float32 and rounded once.
    """
    X = checked_streams(POST, X)
    n, h = X.shape[-2:]
    f = checked(POST, "f", f, X, X.dtype, h)
    post = checked(POST, "post", post, X, torch.float32, n)
    comb = checked(POST, "comb", comb, X, torch.float32, n, n)
    return post_registered(f, X, post, comb)


def post_forward(f: torch.Tensor, X: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    """Lay the inputs out as the kernel takes them, and run it."""
    target, (n, h) = target_for(POST, X, "X"), X.shape[-2:]
    out = post_fake(f, X, post, comb)
    if not X.numel():
        return out
    tensors = {"f": inputs.rows(f)} | split("x", X) | split("out", out)
    tables = {"post": as_table(post, -1, n), "comb": as_table(comb, -1, n * n)}
    execute(planned(POST, Post(n, h, NAMES[X.dtype], vector(tensors)), target), tensors | tables)
    return out


def post_fake(f: torch.Tensor, X: torch.Tensor, post: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    """The output, not yet written."""
    return torch.empty_like(X, memory_format=torch.contiguous_format)


post_registered = register(
    POST, "(Tensor f, Tensor X, Tensor post, Tensor comb) -> Tensor", post_forward, post_fake, gradients.of_post
)


def mhc_pre_big_fuse(
    dot_mix: Any,
    sqrsum: Any,
    X: Any,
    scale: Any,
    base: Any,
    *,
    rms_eps: float = EPS,
    pre_eps: float = EPS,
    sinkhorn_eps: float = EPS,
    post_mult: float = POST_MULT,
    sinkhorn_repeats: int = SINKHORN_REPEATS,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What goes into a layer, and the coefficients of its streams, from their projection. With M = n (2 + n) mixes a token:

    dot_mix  [T, M] or, in S parts, [S, T, M], float32, T the tokens of X
    sqrsum   [T] or [S, T], float32, sums of squares of a token's n · H elements
    X        [..., n, H], bfloat16 or float16, n 2, 4 or 8; used in place where its last dimension has stride 1
    scale    [3], float32, of pre, post and comb
    base     [M], float32

    z = Σ dot_mix / √(Σ sqrsum / (n H) + rms_eps) · scale + base, parts added in their order; pre = σ(z_pre) + pre_eps;
    post = post_mult · σ(z_post); comb: softmax of the rows + sinkhorn_eps, columns divided by their sums + sinkhorn_eps, then
    sinkhorn_repeats − 1 times rows and columns; layer_input = Σ_j pre_j · X_j.

    Returns post [..., n] and comb [..., n, n], float32, and layer_input [..., H] in X's dtype.
    """
    X = checked_streams(PRE, X)
    n = X.shape[-2]
    dot_mix, sqrsum = checked_mixes(PRE, dot_mix, sqrsum, X)
    scale = checked_parameter(PRE, "scale", scale, 3, X)
    base = checked_parameter(PRE, "base", base, n * (2 + n), X)
    options = checked_options(PRE, rms_eps, pre_eps, sinkhorn_eps, post_mult, sinkhorn_repeats)
    return pre_registered(dot_mix, sqrsum, X, scale, base, *options)


def checked_options(operator: str, *options: Any) -> tuple[Any, ...]:
    """rms_eps, pre_eps, sinkhorn_eps, post_mult and the repeats, as numbers."""
    names = ("rms_eps", "pre_eps", "sinkhorn_eps")
    found = tuple(inputs.epsilon(operator, value, EPS, name) for name, value in zip(names, options[:3], strict=True))
    *_, post_mult, repeats = options
    if not isinstance(repeats, int) or isinstance(repeats, bool):
        refuse(operator, "sinkhorn_repeats", repr(repeats), "an integer >= 1", TypeError)
    if repeats < 1:
        refuse(operator, "sinkhorn_repeats", repeats, "an integer >= 1")
    return *found, inputs.number(operator, "post_mult", post_mult), repeats


def pre_forward(
    dot_mix: torch.Tensor,
    sqrsum: torch.Tensor,
    X: torch.Tensor,
    scale: torch.Tensor,
    base: torch.Tensor,
    rms_eps: float,
    pre_eps: float,
    sinkhorn_eps: float,
    post_mult: float,
    repeats: int,
) -> tuple[torch.Tensor, ...]:
    """Lay the inputs out as the kernel takes them, and run it."""
    target, (n, h) = target_for(PRE, X, "X"), X.shape[-2:]
    post, comb, layer_input = outputs = pre_outputs(X)
    if not X.numel():
        return outputs
    tensors = split("x", X) | {"layer_input": inputs.rows(layer_input)}
    tables = {
        "dot_mix": as_table(dot_mix, *dot_mix.shape),
        "sqrsum": as_table(sqrsum, *sqrsum.shape, 1),
        "scale": as_table(scale, 3),
        "base": as_table(base, -1),
        "post": post.view(-1, n),
        "comb": comb.view(-1, n * n),
    }
    splits, numbers = len(dot_mix), (rms_eps, pre_eps, sinkhorn_eps, post_mult, repeats)
    problem = Pre(n, h, NAMES[X.dtype], splits, *numbers, vector=vector(tensors))
    execute(planned(PRE, problem, target), tensors | tables)
    return outputs


def pre_outputs(X: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """post, comb and layer_input, not yet written."""
    *leading, n, h = X.shape
    post, comb = (X.new_empty((*leading, *last), dtype=torch.float32) for last in ((n,), (n, n)))
    return post, comb, X.new_empty((*leading, h))


def pre_fake(dot_mix: torch.Tensor, sqrsum: torch.Tensor, X: torch.Tensor, *others: Any) -> tuple[torch.Tensor, ...]:
    """What the results look like."""
    return pre_outputs(X)


pre_registered = register(
    PRE,
    "(Tensor dot_mix, Tensor sqrsum, Tensor X, Tensor scale, Tensor base, float rms_eps, float pre_eps, "
    "float sinkhorn_eps, float post_mult, int repeats) -> (Tensor post, Tensor comb, Tensor layer_input)",
    pre_forward,
    pre_fake,
    gradients.of_pre,
)
