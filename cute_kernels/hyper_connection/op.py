"""Hyper-connections for PyTorch: checks, then a plan, then a launch; each operator registered under its name."""

from typing import Any

import torch

from cute_kernels.hyper_connection import gradients
from cute_kernels.hyper_connection.plan import NORMED_ELEMENTS, Post, Pre
from cute_kernels.hyper_connection.prepare import (
    as_table,
    checked,
    checked_parameter,
    checked_streams,
    in_splits,
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
POST, PRE, NORMED = "mhc_post", "mhc_pre_big_fuse", "mhc_pre_big_fuse_with_prenorm"
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
    dot_mix, scale, base = checked_projection(PRE, X, dot_mix, scale, base)
    sqrsum = in_splits(PRE, "sqrsum", sqrsum, X)
    if len(dot_mix) != len(sqrsum):
        refuse(PRE, "sqrsum", f"in {len(sqrsum)} parts", f"as many as dot_mix has, {len(dot_mix)}")
    options = checked_options(PRE, rms_eps, pre_eps, sinkhorn_eps, post_mult, sinkhorn_repeats)
    return pre_registered(dot_mix, sqrsum, X, scale, base, *options)


def mhc_pre_big_fuse_with_prenorm(
    dot_mix: Any,
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
    """mhc_pre_big_fuse of a projection in one part that comes without its sums of squares: they are found here, X being read once."""
    X = checked_streams(NORMED, X)
    dot_mix, scale, base = checked_projection(NORMED, X, dot_mix, scale, base)
    if len(dot_mix) != 1:
        refuse(NORMED, "dot_mix", f"in {len(dot_mix)} parts", "one part")
    options = checked_options(NORMED, rms_eps, pre_eps, sinkhorn_eps, post_mult, sinkhorn_repeats)
    return normed_registered(dot_mix, X, scale, base, *options)


def checked_projection(operator: str, X: torch.Tensor, dot_mix: Any, scale: Any, base: Any) -> tuple[torch.Tensor, ...]:
    """dot_mix in parts, scale and base."""
    mixes = X.shape[-2] * (2 + X.shape[-2])
    dot_mix = in_splits(operator, "dot_mix", dot_mix, X, mixes)
    return (
        dot_mix,
        checked_parameter(operator, "scale", scale, 3, X),
        checked_parameter(operator, "base", base, mixes, X),
    )


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
    dot_mix: torch.Tensor, sqrsum: torch.Tensor, X: torch.Tensor, scale: torch.Tensor, base: torch.Tensor, *options: Any
) -> tuple[torch.Tensor, ...]:
    """Run the kernel that is given the sums of squares."""
    return run_pre(PRE, X, {"dot_mix": dot_mix, "scale": scale, "base": base, "sqrsum": sqrsum}, options)


def normed_forward(
    dot_mix: torch.Tensor, X: torch.Tensor, scale: torch.Tensor, base: torch.Tensor, *options: Any
) -> tuple[torch.Tensor, ...]:
    """Run the kernel that finds them."""
    return run_pre(NORMED, X, {"dot_mix": dot_mix, "scale": scale, "base": base}, options)


def run_pre(
    operator: str, X: torch.Tensor, given: dict[str, torch.Tensor], options: tuple[Any, ...]
) -> tuple[torch.Tensor, ...]:
    """Lay the inputs out as the kernel takes them, and run it."""
    target, (n, h) = target_for(operator, X, "X"), X.shape[-2:]
    post, comb, layer_input = outputs = pre_outputs(X)
    if not X.numel():
        return outputs
    tensors = split("x", X) | {"layer_input": inputs.rows(layer_input)}
    tables = {name: as_table(value, *value.shape) for name, value in given.items()}
    facts = dict(zip(("rms_eps", "pre_eps", "sinkhorn_eps", "post_mult", "repeats"), options, strict=True))
    if "sqrsum" in given:
        tables["sqrsum"] = tables["sqrsum"][..., None]
    else:
        facts |= {"normed": True, "elements": NORMED_ELEMENTS}
    problem = Pre(n, h, NAMES[X.dtype], len(given["dot_mix"]), vector=vector(tensors), **facts)
    tables |= {"post": post.view(-1, n), "comb": comb.view(-1, n * n)}
    execute(planned(operator, problem, target), tensors | tables)
    return outputs


def pre_outputs(X: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """post, comb and layer_input, not yet written."""
    *leading, n, h = X.shape
    post, comb = (X.new_empty((*leading, *last), dtype=torch.float32) for last in ((n,), (n, n)))
    return post, comb, X.new_empty((*leading, h))


def pre_fake(dot_mix: torch.Tensor, sqrsum: torch.Tensor, X: torch.Tensor, *others: Any) -> tuple[torch.Tensor, ...]:
    """What the results look like."""
    return pre_outputs(X)


def normed_fake(dot_mix: torch.Tensor, X: torch.Tensor, *others: Any) -> tuple[torch.Tensor, ...]:
    """The same."""
    return pre_outputs(X)


OPTIONS = "float rms_eps, float pre_eps, float sinkhorn_eps, float post_mult, int repeats"
RESULTS = "(Tensor post, Tensor comb, Tensor layer_input)"
pre_registered = register(
    PRE,
    f"(Tensor dot_mix, Tensor sqrsum, Tensor X, Tensor scale, Tensor base, {OPTIONS}) -> {RESULTS}",
    pre_forward,
    pre_fake,
    gradients.of_pre,
)
normed_registered = register(
    NORMED,
    f"(Tensor dot_mix, Tensor X, Tensor scale, Tensor base, {OPTIONS}) -> {RESULTS}",
    normed_forward,
    normed_fake,
    gradients.of_normed,
)
