"""The shapes of linear_norm that tests, benchmarks, the demo and the documentation share, and their inputs."""

from dataclasses import dataclass
from typing import Any

import torch

from cute_kernels.plan import itemsize


@dataclass(frozen=True)
class Case:
    """One call. `bias`, `norm_weight` and `norm_bias` are a dtype's name, or "" for none; `mean` is added to rows of z, by the bias, where
    their standard deviation is about 1."""

    m: int
    k: int
    n: int
    dtype: str = "bfloat16"
    norm: str = "rms"
    bias: str = ""
    norm_weight: str = ""
    norm_bias: str = ""
    residual: bool = False
    mean: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.m}x{self.k}x{self.n}-{self.dtype}-{self.norm}"]
        parts += [f"{name}-{dtype}" for name in VECTORS if (dtype := getattr(self, name))]
        parts += ["residual"] if self.residual else []
        parts += [f"mean-{self.mean:g}"] if self.mean else []
        return "-".join(parts)


VECTORS = ("bias", "norm_weight", "norm_bias")
AFFINE: dict[str, Any] = {"norm_weight": "float32", "norm_bias": "bfloat16"}
DEMO = Case(1000, 512, 512)  # two CTAs a row, several row tiles a cluster, the last one ragged

# A CTA alone, clusters of 2 to 5; rows fewer than a tile, ragged, whole; K shorter than a stage, ragged, many; columns that fill
# their slices or do not; each option alone and all together.
CASES = (
    Case(1, 8, 64),
    Case(3, 16, 8, norm="layer", bias="float32"),
    Case(70, 24, 24, "float16", "layer", "float16", "float16", "float32", residual=True),
    Case(100, 64, 128, "float16"),
    Case(128, 200, 256, norm="layer"),
    Case(130, 128, 320, bias="bfloat16", **AFFINE),
    Case(300, 512, 512, norm="layer", bias="bfloat16", residual=True, **AFFINE),
    Case(129, 72, 512, "float16", residual=True),
    Case(40, 64, 520, norm="layer", norm_weight="bfloat16"),
    Case(33, 64, 768, norm="layer", bias="float32", mean=1e4),
    Case(64, 64, 1024),
    Case(16, 64, 1280, norm_bias="float32"),
)

# What the benchmarks measure: m, k, n of the design's speed table.
SPEED = (
    Case(262144, 512, 512),
    Case(262144, 512, 512, norm="layer", **AFFINE),
    Case(262144, 1024, 512),
    Case(262144, 1024, 1024),
    Case(262144, 2048, 512),
)


def inputs(case: Case, device: str = "cpu", seed: int = 0) -> dict[str, Any]:
    """Arguments of a call, the same for the operator, the reference and the yardstick. Rows of z are of size about 1; None is left out."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*extents: int, dtype: str, scale: float = 1.0) -> torch.Tensor:
        return (torch.randn(extents, generator=generator, device=device) * scale).to(getattr(torch, dtype))

    found: dict[str, Any] = {
        "x": normal(case.m, case.k, dtype=case.dtype),
        "weight": normal(case.n, case.k, dtype=case.dtype, scale=case.k**-0.5),
        "norm": case.norm,
    }
    found |= {name: normal(case.n, dtype=dtype) for name in VECTORS if (dtype := getattr(case, name))}
    if case.mean:
        found["bias"] = found["bias"] + case.mean
    if case.residual:
        found["residual"] = normal(case.m, case.n, dtype=case.dtype)
    return found


def bytes_least(case: Case) -> int:
    """Bytes that must cross HBM: every input once, the output once."""
    vectors = case.n * sum(itemsize(dtype) for name in VECTORS if (dtype := getattr(case, name)))
    return (case.m * case.k + case.n * case.k + (1 + case.residual) * case.m * case.n) * itemsize(case.dtype) + vectors
