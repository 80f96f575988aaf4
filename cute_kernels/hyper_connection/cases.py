"""The shapes of hyper-connections that tests, benchmarks and the documentation share, and their inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from cute_kernels.plan import itemsize

FLOAT = 4  # bytes
Normal = Callable[..., torch.Tensor]


@dataclass(frozen=True)
class Post:
    """mhc_post of m tokens, n streams of h columns."""

    m: int
    h: int
    n: int = 4
    dtype: str = "bfloat16"

    def __str__(self) -> str:
        return f"{self.m}x{self.h}x{self.n}-{self.dtype}"

    @property
    def bytes_least(self) -> int:
        """f, X and the coefficients once, the output once."""
        wide = (2 * self.n + 1) * self.m * self.h * itemsize(self.dtype)
        return wide + self.m * (self.n + self.n**2) * FLOAT

    def arguments(self, normal: Normal) -> dict[str, Any]:
        """comb about doubly stochastic, post between 0 and 2, as big_fuse gives them."""
        m, n, h = self.m, self.n, self.h
        return {
            "f": normal(m, h, dtype=self.dtype),
            "X": normal(m, n, h, dtype=self.dtype),
            "post": 2 * normal(m, n).sigmoid(),
            "comb": normal(m, n, n).softmax(-1),
        }


@dataclass(frozen=True)
class Pre:
    """mhc_pre_big_fuse of m tokens, n streams of h columns, mixes in so many splits; `logit` is about the largest.

    One split is a projection without a dimension of splits. repeats None leaves the operator's own.
    """

    m: int
    h: int
    splits: int = 1
    n: int = 4
    dtype: str = "bfloat16"
    repeats: int | None = None
    logit: float = 3.0

    def __str__(self) -> str:
        more = [f"repeats-{self.repeats}"] if self.repeats else []
        more += [f"logits-{self.logit:g}"] if self.logit != 3.0 else []
        return "-".join([f"{self.m}x{self.h}x{self.splits}x{self.n}-{self.dtype}", *more])

    @property
    def bytes_least(self) -> int:
        """X, mixes and sums once, the outputs once."""
        mixes = self.n * (2 + self.n)
        wide = (self.n + 1) * self.m * self.h * itemsize(self.dtype)
        return wide + self.m * (self.splits * (mixes + 1) + mixes - self.n) * FLOAT

    def arguments(self, normal: Normal) -> dict[str, Any]:
        """Parts that add up to what a projection of X with weights of deviation 1 / √K would give."""
        m, n, h, s = self.m, self.n, self.h, self.splits
        x = normal(m, n, h, dtype=self.dtype)
        squares = x.float().square().sum((1, 2))
        found: dict[str, Any] = {
            "dot_mix": (normal(s, m, n * (2 + n)) / s**0.5).squeeze(0),
            "sqrsum": (squares / s).expand(s, -1).contiguous().squeeze(0),
            "X": x,
            "scale": self.logit / 3 * (1 + 0.1 * normal(3)),
            "base": self.logit / 3 * normal(n * (2 + n)),
        }
        return found | ({"sinkhorn_repeats": self.repeats} if self.repeats else {})


@dataclass(frozen=True)
class Normed(Pre):
    """The same of mhc_pre_big_fuse_with_prenorm, which has one split and finds the sums of squares itself."""

    def arguments(self, normal: Normal) -> dict[str, Any]:
        found = super().arguments(normal)
        del found["sqrsum"]
        return found


Case = Post | Pre

DEMO: dict[str, Case] = {
    "mhc_post": Post(40, 1280),
    "mhc_pre_big_fuse": Pre(40, 1280, 2),
    "mhc_pre_big_fuse_with_prenorm": Normed(40, 2560),
}

# Streams shorter than a thread's piece, of a warp, of a CTA, of many; odd ones; 2 and 8 of them.
POST = (
    Post(1, 8),
    Post(13, 64),
    Post(129, 128, dtype="float16"),
    Post(2, 1280),
    Post(3, 4096),
    Post(5, 1003),
    Post(2, 7168, 2),
    Post(7, 520, 8),
    Post(1, 16392),
    Post(1, 32768),
)
# The same, and every kind of split; few and many repeats; logits that gates and powers overflow at.
PRE = (
    Pre(1, 8, 3),
    Pre(13, 64, 2, dtype="float16"),
    Pre(129, 128),
    Pre(2, 1280, 66),
    Pre(3, 4096, 16),
    Pre(5, 1003, 4),
    Pre(2, 7168, n=2),
    Pre(7, 520, 8, n=8),
    Pre(1, 16392),
    Pre(1, 32768),
    Pre(13, 128, repeats=1),
    Pre(13, 128, repeats=2),
    Pre(13, 128, logit=0.0),
    Pre(13, 128, 2, logit=50.0),
    Pre(13, 128, 2, logit=1e4),
)
NORMED = (
    Normed(1, 8),
    Normed(13, 64, dtype="float16"),
    Normed(129, 128),
    Normed(2, 1280),
    Normed(3, 4096),
    Normed(5, 1003),
    Normed(2, 7168, n=2),
    Normed(7, 520, n=8),
    Normed(1, 16392),
    Normed(1, 32768),
    Normed(1, 32768, n=8),
    Normed(13, 128, repeats=1),
    Normed(13, 128, logit=50.0),
)
CASES: dict[str, tuple[Case, ...]] = {
    "mhc_post": POST,
    "mhc_pre_big_fuse": PRE,
    "mhc_pre_big_fuse_with_prenorm": NORMED,
}

# What the benchmarks measure.
SPEED: dict[str, tuple[Case, ...]] = {
    "mhc_post": (Post(4096, 4096), Post(4096, 7168), Post(128, 7168)),
    "mhc_pre_big_fuse": (
        Pre(4096, 4096),
        Pre(4096, 7168),
        Pre(128, 7168),
        Pre(128, 7168, 16),
        Pre(1, 4096, 16),
    ),
    "mhc_pre_big_fuse_with_prenorm": (Normed(4096, 4096), Normed(4096, 7168)),
}


def inputs(case: Case, device: str = "cpu", seed: int = 0) -> dict[str, Any]:
    """Arguments of a call, the same for the operator, the reference and the yardstick."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*extents: int, dtype: str = "float32") -> torch.Tensor:
        return torch.randn(extents, generator=generator, device=device).to(getattr(torch, dtype))

    return case.arguments(normal)


def bytes_least(case: Case) -> int:
    """Bytes that must cross HBM."""
    return case.bytes_least
