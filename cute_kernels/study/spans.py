"""Spans of a simulated run, sorted for reading: by CTA and track, overlapping ones apart; and where time goes.

A span is whatever has these six attributes (the simulator's Span has), so study needs neither the simulator nor a GPU.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

# In the order of legends, each with what it says to somebody who sees it for the first time.
KINDS = {
    "copy": "TMA or thread copies, global to shared memory or registers",
    "mma": "matrix products on the tensor core",
    "compute": "arithmetic in registers",
    "exchange": "row statistics between the CTAs of a cluster, through DSMEM",
    "store": "results on their way to global memory",
    "sync": "arriving at barriers, fences, meetings: what the schedule costs a role",
    "wait": "nothing to do until somebody else is done",
}
WAITING = ("wait",)


class Span(Protocol):
    """One verb or one operation of an engine, `start` to `end` in nanoseconds."""

    @property
    def track(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def kind(self) -> str: ...
    @property
    def detail(self) -> str: ...


@dataclass(frozen=True)
class Lane:
    """One track of one CTA: `rows` of spans of which none overlaps another of its row."""

    cta: str
    name: str
    rows: tuple[tuple[Span, ...], ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        """All of them."""
        return tuple(span for row in self.rows for span in row)


def split_track(track: str) -> tuple[str, str]:
    """ "CTA 0 multiply 1" -> ("CTA 0", "multiply 1"); a track of no CTA belongs to none."""
    found = re.fullmatch(r"(CTA \d+) (.+)", track)
    return (found[1], found[2]) if found else ("", track)


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key in which "CTA 10" follows "CTA 2"."""
    pieces = re.findall(r"\d+|\D+", text)
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in pieces)


def extent(spans: Sequence[Span]) -> tuple[float, float]:
    """First start and last end; (0, 0) of no spans."""
    return min((s.start for s in spans), default=0.0), max((s.end for s in spans), default=0.0)


def lanes(spans: Sequence[Span]) -> tuple[Lane, ...]:
    """Every span, in lanes sorted by CTA, then in the order in which work first reaches a track, alike in every CTA."""
    tracks: dict[tuple[str, str], list[Span]] = {}
    first_work: dict[str, float] = {}
    for span in spans:
        cta, name = split_track(span.track)
        tracks.setdefault((cta, name), []).append(span)
        if span.kind not in WAITING:
            stem = name.rstrip(" 0123456789")
            first_work[stem] = min(span.start, first_work.get(stem, span.start))

    def order(key: tuple[str, str]) -> tuple[object, ...]:
        cta, name = key
        stem = name.rstrip(" 0123456789")
        return natural(cta), first_work.get(stem, float("inf")), natural(name)

    return tuple(Lane(*key, rows=pack(tracks[key])) for key in sorted(tracks, key=order))


def pack(spans: Iterable[Span]) -> tuple[tuple[Span, ...], ...]:
    """As few rows as keep overlapping spans apart: each goes into the first row that is free when it starts.

    Spans of no length at the same moment count as overlapping.
    """
    rows: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: (s.start, s.end, s.name, s.detail)):
        for row in rows:
            if row[-1].end <= span.start and not row[-1].start == span.start == span.end:
                row.append(span)
                break
        else:
            rows.append([span])
    return tuple(map(tuple, rows))


def time_by_kind(spans: Iterable[Span]) -> dict[str, float]:
    """Nanoseconds of each kind on one track. Where spans overlap, work counts before waiting, then who started last."""
    spans = tuple(spans)
    moments = sorted({moment for s in spans for moment in (s.start, s.end)})
    waiting_to_start = sorted(spans, key=lambda s: -s.start)
    totals: dict[str, float] = {}
    alive: list[Span] = []
    for begin, end in pairwise(moments):
        while waiting_to_start and waiting_to_start[-1].start <= begin:
            alive.append(waiting_to_start.pop())
        alive = [s for s in alive if s.end > begin]
        if alive:
            top = max(alive, key=lambda s: (s.kind not in WAITING, s.start, s.kind))
            totals[top.kind] = totals.get(top.kind, 0.0) + end - begin
    return totals


def busy_share(spans: Iterable[Span], duration: float) -> float:
    """The part of `duration` in which a track works rather than waits or has nothing to do."""
    worked = sum(ns for kind, ns in time_by_kind(spans).items() if kind not in WAITING)
    return worked / duration if duration else 0.0


def waits(spans: Iterable[Span]) -> dict[tuple[str, str], tuple[int, float]]:
    """(track, what it waits for) -> how often and how long, over all CTAs and stages; longest first."""
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for span in spans:
        if span.kind in WAITING:
            key = (split_track(span.track)[1], re.sub(r"\[\d+\]|CTA \d+ ", "", span.detail or span.name))
            count, total = found.get(key, (0, 0.0))
            found[key] = (count + 1, total + span.end - span.start)
    return dict(sorted(found.items(), key=lambda item: (-item[1][1], item[0])))
