"""The one rule by which a result is called right, for tests, benchmarks and the demo alike.

Everything is measured against float64 from the same rounded inputs. The yardstick is a chain with float32 intermediates whose
output is rounded once: no kernel that writes the same dtype can be much better, and none of ours may be much worse.
"""

from dataclasses import dataclass
from typing import Any

import torch

SLACK = 1.5  # times the yardstick's relative error
FLOOR = 1e-6  # relative error that is always allowed: float32 sums in another order
TINY = 1e-30  # a reference below this norm has no relative error


@dataclass(frozen=True)
class Accuracy:
    """Errors of a result and of the yardstick beside it."""

    error: float  # ‖out − ref‖ / ‖ref‖
    yardstick: float
    worst: float  # largest elementwise error as a fraction of what is allowed
    complete: bool  # no NaN or Inf where the yardstick has none
    relative: bool = True  # whether the relative error counts too

    @property
    def right(self) -> bool:
        close = not self.relative or self.error <= SLACK * self.yardstick + FLOOR
        return self.complete and self.worst <= 1 and close

    def __str__(self) -> str:
        verdict = "right" if self.right else "WRONG"
        hole = "" if self.complete else ", NaN or Inf where the yardstick has none"
        return (
            f"{verdict}: relative error {self.error:.3g} beside the yardstick's {self.yardstick:.3g}, "
            f"worst element at {self.worst:.0%} of its bound{hole}"
        )


def measure(out: Any, reference: Any, yardstick: Any, allowed: Any = None) -> Accuracy:
    """Compare a result and the yardstick, both in the output's dtype, with the float64 reference; of several outputs, the worst.

    `allowed` is the absolute error that an output may have instead of what the yardstick's allows it. Elements where the
    yardstick is not finite are left out: overflow to Inf is the dtype's, not the kernel's.
    """
    if isinstance(out, tuple):
        each = zip(out, reference, yardstick, allowed or (None,) * len(out), strict=True)
        return max((measure_one(*one) for one in each), key=lambda found: (not found.right, found.worst))
    return measure_one(out, reference, yardstick, allowed)


def measure_one(
    out: torch.Tensor, reference: torch.Tensor, yardstick: torch.Tensor, absolute: float | None
) -> Accuracy:
    """The same of one tensor."""
    if out.dtype != yardstick.dtype or out.shape != reference.shape:
        raise ValueError(
            f"accuracy: out is {out.dtype} {list(out.shape)}; it takes {yardstick.dtype} {list(reference.shape)}"
        )
    counts = torch.isfinite(yardstick)
    complete = bool(torch.isfinite(out)[counts].all())
    ref = reference[counts]
    errors, chain = (out[counts].double() - ref).abs(), (yardstick[counts].double() - ref).abs()
    if not complete or not ref.numel():
        return Accuracy(0.0, 0.0, 0.0, complete)
    bound = 2 * chain.max() + ulp(ref, out.dtype) if absolute is None else absolute
    norm = float(ref.norm())
    error, best = (float(e.norm()) / norm if norm > TINY else 0.0 for e in (errors, chain))
    return Accuracy(error, best, float((errors / bound).max()), complete, absolute is None)


def ulp(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance to the next number of `dtype`, at each float64 value."""
    facts = torch.finfo(dtype)
    power = torch.frexp(values.abs().clamp(min=facts.tiny)).exponent - 1
    return torch.ldexp(torch.full_like(values, facts.eps), power)
