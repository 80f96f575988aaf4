"""Gradients of hyper-connections: kernels for what has a column for each of a token's, PyTorch for the few numbers a token beside it.

The kernels are registered operators, so that torch.compile traces a backward.
"""

from typing import Any

import torch

from cute_kernels.hyper_connection.formulas import Mixes
from cute_kernels.hyper_connection.plan import Parts, PostBackward, PreBackward
from cute_kernels.hyper_connection.prepare import as_table, planned, split, vector
from cute_kernels.runtime import inputs
from cute_kernels.runtime.bridge import NAMES
from cute_kernels.runtime.launch import execute, target_for
from cute_kernels.runtime.library import Gradients, register

POST, PRE, PARTS = "mhc_post_backward", "mhc_pre_backward", "mhc_add_parts"
Incoming = tuple[torch.Tensor | None, ...]


def of_post(
    needs: tuple[bool, ...], incoming: Incoming, arguments: tuple[Any, ...], kept: tuple[Any, ...]
) -> Gradients:
    """df, dX, dpost and dcomb, as far as needed."""
    f, x, post, comb = arguments
    n, wants = x.shape[-2], [needs[0], needs[1], needs[2] or needs[3]]
    assert incoming[0] is not None
    df, dx, tables = post_backward(f, x, post, comb, incoming[0].to(x.dtype), wants)
    dpost, dcomb = (tables[:, :n], tables[:, n:]) if wants[2] else (tables, tables)
    return (
        df if needs[0] else None,
        dx if needs[1] else None,
        dpost.reshape(post.shape) if needs[2] else None,
        dcomb.reshape(comb.shape) if needs[3] else None,
    )


def run_post_backward(
    f: torch.Tensor, x: torch.Tensor, post: torch.Tensor, comb: torch.Tensor, dout: torch.Tensor, wants: list[bool]
) -> tuple[torch.Tensor | None, ...]:
    """Run the kernel for what is wanted: df, dX, and a row of dpost and dcomb a token."""
    target, (n, h) = target_for(POST, x, "X"), x.shape[-2:]
    df, dx, tables = found = post_backward_fake(f, x, post, comb, dout, wants)
    if not x.numel():
        return found
    tensors = split("dout", dout)
    tensors |= {"f": inputs.rows(f), **split("x", x)} if wants[2] else {}
    tensors |= {"df": inputs.rows(df)} if df is not None else {}
    tensors |= split("dx", dx) if dx is not None else {}
    facts = dict(zip(("df", "dx", "dtables"), wants, strict=True))
    problem = PostBackward(n, h, NAMES[x.dtype], vector=vector(tensors), **facts)
    kernel = planned(POST, problem, target)
    coefficients = {"post": as_table(post, -1, n), "comb": as_table(comb, -1, n * n)}
    if tables is not None:
        coefficients["parts"] = tables.new_empty(kernel.slices, *tables.shape)
    execute(kernel, tensors | {name: coefficients[name] for name in coefficients if has(kernel, name)})
    return df, dx, None if tables is None else added(coefficients["parts"])


def has(kernel: Any, name: str) -> bool:
    """Whether the plan has a tensor of that name."""
    return any(tensor.name == name for tensor in kernel.tensors)


def added(parts: torch.Tensor) -> torch.Tensor:
    """[splits, T, columns] added over the splits, in their order."""
    splits, tokens, columns = parts.shape
    if splits == 1:
        return parts[0]
    total = parts.new_empty(tokens, columns)
    kernel = planned(PARTS, Parts(splits, columns), target_for(PARTS, parts, "parts"))
    execute(kernel, {"parts": parts, "total": total})
    return total


def post_backward_fake(
    f: torch.Tensor, x: torch.Tensor, post: torch.Tensor, comb: torch.Tensor, dout: torch.Tensor, wants: list[bool]
) -> tuple[torch.Tensor | None, ...]:
    """What they look like."""
    n, tokens = x.shape[-2], post.numel() // x.shape[-2]
    return (
        f.new_empty(f.shape) if wants[0] else None,
        x.new_empty(x.shape) if wants[1] else None,
        post.new_empty(tokens, n + n * n) if wants[2] else None,
    )


def of_pre(needs: tuple[bool, ...], incoming: Incoming, arguments: tuple[Any, ...], kept: tuple[Any, ...]) -> Gradients:
    """Gradients of the mixes, their sums of squares, X, scale and base, as far as needed."""
    dot_mix, sqrsum, x, scale, base, *options = arguments
    dpost, dcomb, dlayer = incoming
    wants = [needs[2], needs[0] or needs[1] or needs[3] or needs[4]]
    dx, dpre = through_layer_input(dot_mix, sqrsum, x, scale, base, options, dlayer, wants)
    mixes = Mixes(dot_mix.sum(0), sqrsum.sum(0), scale, base, x.shape[-2], x.shape[-2:].numel(), *options)
    dz = mixes.logit_gradients(dpost, dcomb, dpre)
    dy = (dz * mixes.factor * mixes.rstd).expand_as(dot_mix).clone() if needs[0] else None
    dq = mixes.square_gradients(dz).expand_as(sqrsum).clone() if needs[1] else None
    return dy, dq, dx, *mixes.parameter_gradients(dz, needs[3:5]), *[None] * 5


def of_normed(
    needs: tuple[bool, ...], incoming: Incoming, arguments: tuple[Any, ...], kept: tuple[Any, ...]
) -> Gradients:
    """The same where the sums of squares come from X: their gradient goes on to it, dX += 2 dq · X."""
    dot_mix, x, scale, base, *options = arguments
    dpost, dcomb, dlayer = incoming
    wide = x.float().contiguous()  # torch adds in an order that depends on strides
    squares = wide.square().sum((-2, -1)).flatten()
    _, dpre = through_layer_input(dot_mix, squares[None], x, scale, base, options, dlayer, [False, True])
    mixes = Mixes(dot_mix.sum(0), squares, scale, base, x.shape[-2], x.shape[-2:].numel(), *options)
    dz, dx = mixes.logit_gradients(dpost, dcomb, dpre), None
    if needs[1]:
        through_squares = 2 * mixes.square_gradients(dz).view(x.shape[:-2])[..., None, None] * wide
        dx = (mixes.stream_gradients(x, dlayer) + through_squares).to(x.dtype)
    dy = (dz * mixes.factor * mixes.rstd)[None] if needs[0] else None
    return dy, dx, *mixes.parameter_gradients(dz, needs[2:4]), *[None] * 5


def through_layer_input(
    dot_mix: torch.Tensor,
    sqrsum: torch.Tensor,
    x: torch.Tensor,
    scale: torch.Tensor,
    base: torch.Tensor,
    options: list[Any],
    dlayer: torch.Tensor | None,
    wants: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """dX = pre_j · dU and dpre [T, n], as far as wanted; nothing comes through a layer_input that was not used."""
    if dlayer is None:
        return x.new_zeros(x.shape) if wants[0] else None, None
    if not any(wants):
        return None, None
    dx, dpre = pre_backward(dot_mix, sqrsum, x, scale, base, dlayer.to(x.dtype), options[:2], wants)
    return dx if wants[0] else None, dpre if wants[1] else None


def run_pre_backward(
    dot_mix: torch.Tensor,
    sqrsum: torch.Tensor,
    x: torch.Tensor,
    scale: torch.Tensor,
    base: torch.Tensor,
    dlayer: torch.Tensor,
    eps: list[float],
    wants: list[bool],
) -> tuple[torch.Tensor | None, ...]:
    """Run the kernel for what is wanted: dX, and dpre [T, n]; eps are rms_eps and pre_eps."""
    target, (n, h) = target_for(PRE, x, "X"), x.shape[-2:]
    dx, dpre = found = pre_backward_fake(dot_mix, sqrsum, x, scale, base, dlayer, eps, wants)
    if not x.numel():
        return found
    tensors = {"dlayer_input": inputs.rows(dlayer)}
    tensors |= split("dx", dx) if dx is not None else {}
    tensors |= split("x", x) if wants[1] else {}
    width = vector(tensors)
    problem = PreBackward(n, h, NAMES[x.dtype], len(dot_mix), eps[0], eps[1], wants[0], wants[1], width)
    kernel = planned(PRE, problem, target)
    tables = {
        "dot_mix": as_table(dot_mix, *dot_mix.shape),
        "sqrsum": as_table(sqrsum, *sqrsum.shape, 1),
        "scale": as_table(scale, 3),
        "base": as_table(base, -1),
    }
    if dpre is not None:
        tables["parts"] = dpre.new_empty(kernel.slices, *dpre.shape)
    execute(kernel, tensors | {name: tables[name] for name in tables if has(kernel, name)})
    return dx, None if dpre is None else added(tables["parts"])


def pre_backward_fake(
    dot_mix: torch.Tensor,
    sqrsum: torch.Tensor,
    x: torch.Tensor,
    scale: torch.Tensor,
    base: torch.Tensor,
    dlayer: torch.Tensor,
    eps: list[float],
    wants: list[bool],
) -> tuple[torch.Tensor | None, ...]:
    """What they look like."""
    dpre = dot_mix.new_empty(dot_mix.shape[1], x.shape[-2]) if wants[1] else None
    return x.new_empty(x.shape) if wants[0] else None, dpre


post_backward = register(
    POST,
    "(Tensor f, Tensor X, Tensor post, Tensor comb, Tensor dout, bool[] wants) -> (Tensor df, Tensor dX, Tensor dtables)",
    run_post_backward,
    post_backward_fake,
)
pre_backward = register(
    PRE,
    "(Tensor dot_mix, Tensor sqrsum, Tensor X, Tensor scale, Tensor base, Tensor dlayer_input, float[] eps, "
    "bool[] wants) -> (Tensor dX, Tensor dpre)",
    run_pre_backward,
    pre_backward_fake,
)
