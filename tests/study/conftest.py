"""A run made by hand: small enough to know by heart, with everything a real one has (overlap, waits, two CTAs, odd names)."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest


@dataclass(frozen=True)
class HandMade:
    track: str
    name: str
    start: float
    end: float
    kind: str
    detail: str = ""


def of_cta(cta: int) -> list[HandMade]:
    def track(name: str) -> str:
        return f"CTA {cta} {name}"

    return [
        HandMade(track("load"), "load", 0, 10, "copy", "x -> x_tiles[0]"),
        HandMade(track("load"), "operands.acquire", 10, 900, "wait", "operands[1] empty"),
        HandMade(track("TMA"), "x", 0, 500, "copy", "128 x 64 & more"),
        HandMade(track("TMA"), "weight", 10, 600, "copy", "<256> x 64"),
        HandMade(track("TMA"), "x", 600, 700, "copy"),
        HandMade(track("multiply 0"), "operands.wait", 0, 600, "wait"),
        HandMade(track("multiply 0"), "row_sum", 600, 1000, "compute"),
        HandMade(track("multiply 1"), "operands.wait", 0, 700, "wait"),
        HandMade(track("multiply 1"), "mail.send", 700, 700, "exchange"),
    ]


@pytest.fixture
def run() -> list[HandMade]:
    return of_cta(10) + of_cta(2)


@pytest.fixture
def report() -> SimpleNamespace:
    return SimpleNamespace(
        bytes_read=3_000_000,
        bytes_written=262_144,
        dsmem_bytes=4_096,
        mma_flops=134_217_728,
        verbs=1_234,
        seed=7,
        strategy="timed",
    )
