"""The shapes of the norms that tests, benchmarks and the documentation share, and their inputs."""

from dataclasses import dataclass
from typing import Any

import torch

from cute_kernels.plan import itemsize


@dataclass(frozen=True)
class Case:
    """One call. `weight` and `bias` are a dtype's name, or "" for none; `mean` is added to rows of standard deviation 1."""

    m: int
    n: int
    dtype: str = "bfloat16"
    weight: str = ""
    weight_offset: float = 0.0
    bias: str = ""
    residual: bool = False
    mean: float = 0.0

    def __str__(self) -> str:
        parts = [f"{self.m}x{self.n}-{self.dtype}"]
        parts += [f"weight-{self.weight}+{self.weight_offset:g}"] if self.weight else []
        parts += [f"bias-{self.bias}"] if self.bias else []
        parts += ["residual"] if self.residual else []
        parts += [f"mean-{self.mean:g}"] if self.mean else []
        return "-".join(parts)


DEMO = Case(200, 4096, "bfloat16", "float32")

# Odd, tiny and ragged rows; rows of a warp, of a CTA; every dtype; with and without each option.
CASES = (
    Case(5, 1),
    Case(3, 7, "float32", "float32", bias="float32"),
    Case(9, 33, "float16", "float16", residual=True),
    Case(37, 64, "bfloat16", "float32", bias="bfloat16"),
    Case(6, 500, "bfloat16", "bfloat16", 1.0),
    Case(130, 512),
    Case(11, 256, "float32", bias="float32", residual=True),
    Case(3, 1024, "float32", "float32", mean=1e3),
    Case(2, 4096, "float16", "float32", 0.5, "float32", residual=True),
    Case(2, 8200, "bfloat16", "bfloat16"),
)

# Rows longer than a CTA holds: a cluster of 4, of 5 (ragged), of 16 (the most).
LONG = (
    Case(2, 32768, bias="bfloat16"),
    Case(1, 40000, "bfloat16", "float32", residual=True),
    Case(1, 262144, "float32"),
)

# What the benchmarks measure, token counts of a training step.
SPEED = tuple(
    Case(m, n, "bfloat16", "bfloat16") for m, n in ((65536, 512), (65536, 1024), (32768, 4096), (8192, 16384))
)


def inputs(case: Case, device: str = "cpu", seed: int = 0) -> dict[str, Any]:
    """Arguments of a call, the same for the operator, the reference and the yardstick; None is left out."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*extents: int, dtype: str, mean: float = 0.0) -> torch.Tensor:
        return (torch.randn(extents, generator=generator, device=device) + mean).to(getattr(torch, dtype))

    found: dict[str, Any] = {"x": normal(case.m, case.n, dtype=case.dtype, mean=case.mean)}
    if case.weight:
        found |= {"weight": normal(case.n, dtype=case.weight), "weight_offset": case.weight_offset}
    if case.bias:
        found["bias"] = normal(case.n, dtype=case.bias)
    if case.residual:
        found["residual"] = normal(case.m, case.n, dtype=case.dtype)
    return found


def bytes_least(case: Case) -> int:
    """Bytes that must cross HBM: every input once, the output once."""
    vectors = sum(itemsize(dtype) for dtype in (case.weight, case.bias) if dtype)
    return (2 + case.residual) * case.m * case.n * itemsize(case.dtype) + case.n * vectors


def bytes_least_backward(case: Case) -> int:
    """Of the backward: x (and residual) and dy once, dx once; what is small beside them left out."""
    return (3 + case.residual) * case.m * case.n * itemsize(case.dtype)
