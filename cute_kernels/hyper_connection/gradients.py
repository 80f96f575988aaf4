"""Gradients of hyper-connections, for now by PyTorch's formulas in float32."""

import functools
from dataclasses import dataclass
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
    dot_mix, sqrsum, x, scale, base, *options = arguments
    mixes = Mixes(dot_mix.sum(0), sqrsum.sum(0), scale, base, x.shape[-2], x.shape[-2:].numel(), *options)
    dz = mixes.logit_gradients(x, *incoming)
    dx = mixes.stream_gradients(x, incoming[2]).to(x.dtype) if needs[2] else None
    dy = (dz * mixes.factor * mixes.rstd).expand_as(dot_mix).clone() if needs[0] else None
    dq = mixes.square_gradients(dz).expand_as(sqrsum).clone() if needs[1] else None
    return dy, dq, dx, *mixes.parameter_gradients(dz, needs[3:5]), *[None] * 5


def of_normed(
    needs: tuple[bool, ...],
    incoming: tuple[torch.Tensor | None, ...],
    arguments: tuple[Any, ...],
    kept: tuple[Any, ...],
) -> Gradients:
    """The same where the sums of squares come from X: their gradient goes on to it, dX += 2 dq · X."""
    dot_mix, x, scale, base, *options = arguments
    wide = x.float().contiguous()  # torch adds in an order that depends on strides
    squares = wide.square().sum((-2, -1)).flatten()
    mixes = Mixes(dot_mix.sum(0), squares, scale, base, x.shape[-2], x.shape[-2:].numel(), *options)
    dz, dx = mixes.logit_gradients(x, *incoming), None
    if needs[1]:
        through_squares = 2 * mixes.square_gradients(dz).view(x.shape[:-2])[..., None, None] * wide
        dx = (mixes.stream_gradients(x, incoming[2]) + through_squares).to(x.dtype)
    dy = (dz * mixes.factor * mixes.rstd)[None] if needs[0] else None
    return dy, dx, *mixes.parameter_gradients(dz, needs[2:4]), *[None] * 5


@dataclass(frozen=True)
class Mixes:
    """The projection of tokens, y and q added up, and how coefficients come from it. K = `k` elements a token."""

    y: torch.Tensor  # [T, M]
    q: torch.Tensor  # [T]
    scale: torch.Tensor
    base: torch.Tensor
    n: int
    k: int
    rms_eps: float
    pre_eps: float
    sinkhorn_eps: float
    post_mult: float
    repeats: int

    @functools.cached_property
    def rstd(self) -> torch.Tensor:
        return torch.rsqrt(self.q / self.k + self.rms_eps)[:, None]

    @functools.cached_property
    def factor(self) -> torch.Tensor:
        """scale, of every mix."""
        n = self.n
        pre, post, comb = self.scale.unbind()
        return torch.cat([pre.expand(n), post.expand(n), comb.expand(n * n)])

    @functools.cached_property
    def z(self) -> torch.Tensor:
        return self.y * self.rstd * self.factor + self.base

    @functools.cached_property
    def gates(self) -> torch.Tensor:
        """σ(z) of pre and post, [T, 2, n]."""
        return self.z[:, : 2 * self.n].sigmoid().view(-1, 2, self.n)

    def logit_gradients(
        self, x: torch.Tensor, dpost: torch.Tensor | None, dcomb: torch.Tensor | None, dlayer: torch.Tensor | None
    ) -> torch.Tensor:
        """dz from the gradients of the outputs, None where unused."""
        n, tokens = self.n, len(self.y)
        slope = self.gates * (1 - self.gates)
        dpre, dgate = torch.zeros_like(slope).unbind(1)
        if dlayer is not None:
            h = x.shape[-1]
            dpre = (x.reshape(tokens, n, h).float() @ dlayer.reshape(tokens, h, 1).float()).squeeze(-1)
        if dpost is not None:
            dgate = dpost.reshape(tokens, n) * self.post_mult
        logits = self.z[:, 2 * n :]
        found = torch.zeros_like(logits)
        if dcomb is not None:
            square, gradient = logits.view(tokens, n, n), dcomb.reshape(tokens, n, n)
            found = of_sinkhorn(square, gradient, self.sinkhorn_eps, self.repeats).view(tokens, n * n)
        return torch.cat([dpre * slope[:, 0], dgate * slope[:, 1], found], 1)

    def stream_gradients(self, x: torch.Tensor, dlayer: torch.Tensor | None) -> torch.Tensor:
        """pre_j · dU of every stream, float32."""
        if dlayer is None:
            return torch.zeros_like(x, dtype=torch.float32)
        pre = (self.gates[:, 0] + self.pre_eps).view(*x.shape[:-1], 1)
        return pre * dlayer.float()[..., None, :]

    def square_gradients(self, dz: torch.Tensor) -> torch.Tensor:
        """dq = −½ (Σ dz · scale · y) · rstd / (q + eps K), [T]."""
        return -0.5 * (dz * self.factor * self.y).sum(1) * self.rstd[:, 0] / (self.q + self.rms_eps * self.k)

    def parameter_gradients(self, dz: torch.Tensor, needs: tuple[bool, ...]) -> Gradients:
        """dscale_g = Σ dz · y · rstd over the group, dbase = Σ dz."""
        groups = (dz * self.y * self.rstd).split([self.n, self.n, self.n**2], 1)
        return torch.stack([group.sum() for group in groups]) if needs[0] else None, dz.sum(0) if needs[1] else None


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
