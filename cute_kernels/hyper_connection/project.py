"""mhc_project for PyTorch: on Hopper a kernel of its own; elsewhere, and where the kernel does not go, PyTorch's float32 product."""

import itertools
import os
from typing import Any

import torch

from cute_kernels.hyper_connection.plan import Project
from cute_kernels.hyper_connection.plan_project import TERMS, projects
from cute_kernels.hyper_connection.prepare import checked_streams, planned
from cute_kernels.runtime import inputs
from cute_kernels.runtime.bridge import NAMES
from cute_kernels.runtime.errors import refuse
from cute_kernels.runtime.launch import execute, target_for
from cute_kernels.runtime.library import Gradients, register

NAME = "mhc_project"
# Its first form multiplied by warps that were no warpgroup, an illegal instruction on the H200; the present one has not run there yet.
ON_GPU = "CUTE_KERNELS_MHC_PROJECT"
PRECISIONS = ("tf32", "high")
SPLITS = 8  # two CTAs an SM from 4096 tokens on; untuned


def mhc_project(
    X: Any, W: Any, num_splits: int | None = None, *, precision: str = "tf32"
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mixes of tokens, x · Wᵀ, and their sums of squares, in parts: each of a piece of x's K = n · H elements.

    X           [..., n, H], bfloat16 or float16, n 2, 4 or 8
    W           [M, K], float32, M = n (2 + n): rows of pre, post and comb, comb row by row
    num_splits  S >= 1 parts; None means 8, or as many as K has pieces of 64 elements
    precision   "tf32", relative error 5e-4 at most, or "high", 1e-5 at most; both take the second: two bfloat16 terms of the weight, or float32

    Returns dot_mix [S, ..., M] and sqrsum [S, ...], float32, as mhc_pre_big_fuse takes them.
    """
    X, W = checked_weight(NAME, X, W, precision)
    steps = Project(X.shape[-2], X.shape[-1]).steps
    splits = min(SPLITS, steps) if num_splits is None else num_splits
    if not isinstance(splits, int) or isinstance(splits, bool):
        refuse(NAME, "num_splits", repr(splits), "None or an integer >= 1", TypeError)
    if splits < 1:
        refuse(NAME, "num_splits", splits, "None or an integer >= 1")
    return registered(X, W, splits)


def checked_weight(operator: str, X: Any, W: Any, precision: str) -> tuple[torch.Tensor, torch.Tensor]:
    """X and its projection."""
    X, W = checked_streams(operator, X), inputs.tensor(operator, "W", W)
    n, h = X.shape[-2:]
    inputs.dtype(operator, "W", W, (torch.float32,))
    inputs.shape(operator, "W", W, f"[{n * (2 + n)}, {n * h}]", list(W.shape) == [n * (2 + n), n * h])
    inputs.same_device(operator, "W", W, X)
    if precision not in PRECISIONS:
        refuse(operator, "precision", repr(precision), " or ".join(map(repr, PRECISIONS)))
    return X, W


def forward(X: torch.Tensor, W: torch.Tensor, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The kernel where there is one, else the formula."""
    target, (n, h) = target_for(NAME, X, "X"), X.shape[-2:]
    problem = Project(n, h, NAMES[X.dtype], splits)
    off = X.dtype is not torch.bfloat16 or (
        X.is_cuda and os.environ.get(ON_GPU) != "1"
    )  # float16 has no room for a second term
    if off or not (projects(problem, target) and X.numel()):
        return formula(X, W, splits)
    dots, squares = found = fake(X, W, splits)
    tensors = {
        "x": inputs.aligned(inputs.rows(X.flatten(-2))),
        "weight": terms(W, X.dtype),
        "dot_mix": dots.view(splits, -1, len(W)),
        "sqrsum": squares.view(splits, -1, 1),
    }
    execute(planned(NAME, problem, target), tensors)
    return found


def terms(W: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """W as rows of terms, each what rounding left of those before it."""
    rest, found = W.detach(), []
    for _ in range(TERMS):
        found.append(rest.to(dtype))
        rest = rest - found[-1].float()
    return torch.cat(found)


def formula(X: torch.Tensor, W: torch.Tensor, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """PyTorch's float32 product, part by part."""
    x = X.flatten(-2).float()
    parts = pieces(X, splits)
    dots = torch.stack([x[..., piece] @ W[:, piece].mT for piece in parts])
    return dots, torch.stack([x[..., piece].square().sum(-1) for piece in parts])


def pieces(X: torch.Tensor, splits: int) -> list[slice]:
    """The elements of K in each part, as the kernel cuts it."""
    problem = Project(X.shape[-2], X.shape[-1])
    edges = [min(part * problem.steps // splits * problem.depth, problem.k) for part in range(splits + 1)]
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def fake(X: torch.Tensor, W: torch.Tensor, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the results look like."""
    leading = (splits, *X.shape[:-2])
    return X.new_empty((*leading, W.shape[0]), dtype=torch.float32), X.new_empty(leading, dtype=torch.float32)


def backward(
    needs: tuple[bool, ...],
    incoming: tuple[torch.Tensor | None, ...],
    arguments: tuple[Any, ...],
    kept: tuple[Any, ...],
) -> Gradients:
    """dX = Σ over parts of dy · W + 2 dq · x and dW = dyᵀ · x, each in its piece of K, by PyTorch in float32."""
    X, W, splits = arguments
    tokens, k = X.shape[:-2].numel(), W.shape[1]
    x, parts = X.reshape(tokens, k).float(), pieces(X, splits)
    dy = torch.zeros(splits, tokens, len(W), device=X.device) if incoming[0] is None else incoming[0]
    dy = dy.reshape(splits, tokens, len(W))
    dx = dw = None
    if needs[0]:
        found = [dy[part] @ W[:, piece] for part, piece in enumerate(parts)]
        if incoming[1] is not None:
            dq = 2 * incoming[1].reshape(splits, tokens, 1)
            found = [one + dq[part] * x[:, parts[part]] for part, one in enumerate(found)]
        dx = torch.cat(found, 1).to(X.dtype).view(X.shape)
    if needs[1]:
        dw = torch.cat([dy[part].mT @ x[:, piece] for part, piece in enumerate(parts)], 1)
    return dx, dw, None


registered = register(
    NAME, "(Tensor X, Tensor W, int splits) -> (Tensor dot_mix, Tensor sqrsum)", forward, fake, backward
)
