"""Gradients of hyper-connections, for now by PyTorch's formulas in float32."""

from typing import Any

import torch

from cute_kernels.runtime.library import Gradients


def of_post(
    needs: tuple[bool, ...],
    incoming: tuple[torch.Tensor | None, ...],
    arguments: tuple[Any, ...],
    kept: tuple[Any, ...],
) -> Gradients:
    """df = Σ_j post_j dO_j, dX_i = Σ_j comb_ij dO_j, dpost_j = Σ f dO_j, dcomb_ij = Σ X_i dO_j, as far as needed."""
    f, x, post, comb = arguments
    assert incoming[0] is not None
    out = incoming[0].float()
    df = (post[..., None, :] @ out).squeeze(-2).to(f.dtype) if needs[0] else None
    dx = (comb @ out).to(x.dtype) if needs[1] else None
    dpost = (out @ f.float()[..., None]).squeeze(-1) if needs[2] else None
    dcomb = x.float() @ out.mT if needs[3] else None
    return df, dx, dpost, dcomb


def of_pre(
    needs: tuple[bool, ...],
    incoming: tuple[torch.Tensor | None, ...],
    arguments: tuple[Any, ...],
    kept: tuple[Any, ...],
) -> Gradients:
    """Gradients of the mixes, their sums of squares, X, scale and base, as far as needed."""
    dot_mix, sqrsum, x, scale, base, rms_eps, pre_eps, sinkhorn_eps, post_mult, repeats = arguments
    n, h = x.shape[-2:]
    streams = x.reshape(-1, n, h)
    y, q = dot_mix.sum(0), sqrsum.sum(0)[:, None]
    rstd = torch.rsqrt(q / (n * h) + rms_eps)
    factor = scale.repeat_interleave(torch.tensor([n, n, n * n], device=x.device), output_size=len(base))
    z = y * rstd * factor + base
    dpost, dcomb, dlayer = (
        None if g is None else g.reshape(len(y), *last).float()
        for g, last in zip(incoming, ((n,), (n, n), (h,)), strict=True)
    )
    gates = z[:, : 2 * n].sigmoid()
    slope = gates * (1 - gates)
    dz = torch.zeros_like(z)
    if dlayer is not None:
        dz[:, :n] = (streams.float() @ dlayer[..., None]).squeeze(-1) * slope[:, :n]
    if dpost is not None:
        dz[:, n : 2 * n] = dpost * post_mult * slope[:, n:]
    if dcomb is not None:
        dz[:, 2 * n :] = of_sinkhorn(z[:, 2 * n :].view(-1, n, n), dcomb, sinkhorn_eps, repeats).flatten(1)
    dx = None
    if needs[2]:
        dx = torch.zeros_like(streams) if dlayer is None else (gates[:, :n, None] + pre_eps) * dlayer[:, None]
        dx = dx.to(x.dtype).view(x.shape)
    dm = dz * factor
    dy = (dm * rstd).expand_as(dot_mix).clone() if needs[0] else None
    dq = (
        (-0.5 * (dm * y).sum(1) * rstd[:, 0] / (q[:, 0] + rms_eps * n * h)).expand_as(sqrsum).clone()
        if needs[1]
        else None
    )
    dscale = torch.stack([g.sum() for g in (dz * y * rstd).split([n, n, n * n], 1)]) if needs[3] else None
    return dy, dq, dx, dscale, dz.sum(0) if needs[4] else None, *[None] * 5


def of_sinkhorn(logits: torch.Tensor, gradient: torch.Tensor, eps: float, repeats: int) -> torch.Tensor:
    """Back through every division, Y = A / d with d = ΣA + eps over an axis: G ← (G − Σ G · Y) / d; then through the softmax."""
    p = logits.softmax(-1)
    y, steps = p + eps, []
    for axis in (-2, *(-1, -2) * (repeats - 1)):
        divisor = y.sum(axis, keepdim=True) + eps
        y = y / divisor
        steps.append((axis, divisor, y))
    for axis, divisor, y in reversed(steps):
        gradient = (gradient - (gradient * y).sum(axis, keepdim=True)) / divisor
    return p * (gradient - (gradient * p).sum(-1, keepdim=True))
