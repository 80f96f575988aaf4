"""The shapes of rms_norm that tests, benchmarks and the documentation share, and their inputs."""

from dataclasses import dataclass
from typing import Any

import torch

from cute_kernels.plan import itemsize


@dataclass(frozen=True)
class Case:
    """One call. `weight` is a dtype's name, or "" for none."""

    m: int
    n: int
    dtype: str = "bfloat16"
    weight: str = ""
    weight_offset: float = 0.0

    def __str__(self) -> str:
        return f"{self.m}x{self.n}-{self.dtype}" + (
            f"-weight-{self.weight}+{self.weight_offset:g}" if self.weight else ""
        )


DEMO = Case(200, 4096, "bfloat16", "float32")

# Odd, tiny and ragged rows; rows of a warp, of a CTA; every dtype; with and without a weight.
CASES = (
    Case(5, 1),
    Case(3, 7, "float32"),
    Case(9, 33, "float16", "float16"),
    Case(37, 64, "bfloat16", "float32"),
    Case(6, 500, "bfloat16", "bfloat16", 1.0),
    Case(130, 512),
    Case(3, 1024, "float32", "float32"),
    Case(2, 4096, "float16", "float32"),
    Case(2, 8200, "bfloat16", "bfloat16"),
)

# Rows longer than a CTA holds: a cluster of 2, of 3 (ragged), of 16 (the most).
LONG = (Case(2, 32768), Case(1, 40000, "bfloat16", "float32"), Case(1, 262144, "float32"))

# What the benchmarks measure, token counts of a training step.
SPEED = tuple(
    Case(m, n, "bfloat16", "bfloat16") for m, n in ((65536, 512), (65536, 1024), (32768, 4096), (8192, 16384))
)


def inputs(case: Case, device: str = "cpu", seed: int = 0) -> dict[str, Any]:
    """Arguments of a call, the same for the operator, the reference and the yardstick."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*extents: int, dtype: str) -> torch.Tensor:
        return torch.randn(extents, generator=generator, device=device).to(getattr(torch, dtype))

    weight = normal(case.n, dtype=case.weight) if case.weight else None
    return {"x": normal(case.m, case.n, dtype=case.dtype), "weight": weight, "weight_offset": case.weight_offset}


def bytes_least(case: Case) -> int:
    """Bytes that must cross HBM: the input once, the output once, the weight once."""
    return 2 * case.m * case.n * itemsize(case.dtype) + (case.n * itemsize(case.weight) if case.weight else 0)
