"""How coefficients come from a token's mixes, and the way back, by PyTorch in float32: a few numbers a token."""

import functools
from dataclasses import dataclass

import torch

from cute_kernels.runtime.library import Gradients


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
        self, dpost: torch.Tensor | None, dcomb: torch.Tensor | None, dpre: torch.Tensor | None
    ) -> torch.Tensor:
        """dz from the gradients of post, comb and pre, None where there is none."""
        n, tokens = self.n, len(self.y)
        slope = self.gates * (1 - self.gates)
        through_pre, through_post = torch.zeros_like(slope).unbind(1)
        if dpre is not None:
            through_pre = dpre * slope[:, 0]
        if dpost is not None:
            through_post = dpost.reshape(tokens, n) * self.post_mult * slope[:, 1]
        logits = self.z[:, 2 * n :]
        through_comb = torch.zeros_like(logits)
        if dcomb is not None:
            square, gradient = logits.view(tokens, n, n), dcomb.reshape(tokens, n, n)
            through_comb = of_sinkhorn(square, gradient, self.sinkhorn_eps, self.repeats).view(tokens, n * n)
        return torch.cat([through_pre, through_post, through_comb], 1)

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
