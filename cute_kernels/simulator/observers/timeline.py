"""Spans of a run in which time passes: what every worker and every unit of the hardware did, from when to when."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """One verb of a worker or one operation of a unit, in nanoseconds of the modelled GPU.

    track  "CTA 0 multiply 1", "CTA 0 TMA", "CTA 0 tensor core"
    kind   copy, mma, compute, exchange, store, sync or wait
    """

    track: str
    name: str
    start: float
    end: float
    kind: str
    detail: str = ""


class Timeline:
    """Keeps them all."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def span(self, span: Span) -> None:
        self.spans.append(span)
