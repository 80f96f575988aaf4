"""The shapes of linear_norm that tests, benchmarks, the demo and the documentation share, and their inputs."""

from dataclasses import dataclass
from typing import Any

import torch

from cute_kernels.plan import itemsize


@dataclass(frozen=True)
class Case:
    """y[m, n] = norm(x[m, k] · weight[n, k]ᵀ)."""

    m: int
    k: int
    n: int
    dtype: str = "bfloat16"

    def __str__(self) -> str:
        return f"{self.m}x{self.k}x{self.n}-{self.dtype}"


DEMO = Case(1000, 512, 512)  # two CTAs a row, several row tiles a cluster, the last one ragged

# A CTA alone, clusters of 2 to 5; rows fewer than a tile, ragged, whole; K shorter than a stage, ragged, many.
CASES = (
    Case(1, 8, 64),
    Case(100, 64, 128, "float16"),
    Case(128, 200, 256),
    Case(130, 128, 320),
    Case(300, 512, 512),
    Case(129, 72, 512, "float16"),
    Case(64, 64, 1024),
    Case(16, 64, 1280),
)

# What the benchmarks measure: m, k, n of the design's speed table.
SPEED = (Case(262144, 512, 512), Case(262144, 1024, 512), Case(262144, 1024, 1024), Case(262144, 2048, 512))


def inputs(case: Case, device: str = "cpu", seed: int = 0) -> dict[str, Any]:
    """Arguments of a call, the same for the operator, the reference and the yardstick. Rows of z are of size about 1."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*extents: int) -> torch.Tensor:
        return torch.randn(extents, generator=generator, device=device)

    dtype = getattr(torch, case.dtype)
    weight = normal(case.n, case.k) / case.k**0.5
    return {"x": normal(case.m, case.k).to(dtype), "weight": weight.to(dtype), "norm": "rms"}


def bytes_least(case: Case) -> int:
    """Bytes that must cross HBM: both inputs once, the output once."""
    return (case.m * case.k + case.n * case.k + case.m * case.n) * itemsize(case.dtype)
