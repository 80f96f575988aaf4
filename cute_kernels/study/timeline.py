"""Who does what when, and where it waits: a simulated run as an SVG, or as trace events for ui.perfetto.dev."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any
from xml.etree.ElementTree import Element

from cute_kernels.study.markup import box, element, label, line, picture, svg_text
from cute_kernels.study.spans import KINDS, WAITING, Lane, Span, busy_share, extent, lanes, split_track

LABELS = 96  # pixels for the names of lanes, at least
SHARES = 64  # pixels for the busy shares
TOP = 64  # title and legend
HEADING = 24  # of a CTA
GAP = 5  # between lanes
ROW, THIN_ROW = 18, 13  # a lane's only row, and each of several
TICKS = 10  # on the axis, about
MOMENT = 0.6  # pixels of a span of no length
CHARACTER = 5.6  # pixels of a small letter, a little generous


def timeline_svg(spans: Sequence[Span], width: int = 1200) -> str:
    """One lane for each track, CTA by CTA; bars to scale, coloured by kind, with a tooltip each."""
    return svg_text(timeline_picture(spans, width))


def timeline_picture(spans: Sequence[Span], width: int = 1200) -> Element:
    """The same, to be put into a page."""
    start, end = extent(spans)
    names = max((len(split_track(span.track)[1]) for span in spans), default=0)
    scale = Scale(start, end, max(LABELS, 32 + 7 * names), width - SHARES)
    drawn: list[Element] = []
    y = float(TOP)
    for cta, of_cta in groupby(lanes(spans), key=lambda lane: lane.cta):
        drawn.append(label(14, y + 16, cta or "whole grid", "heading"))
        y += HEADING
        for lane in of_cta:
            drawn.append(draw_lane(lane, scale, y, width))
            y += height_of(lane) + GAP
    axis = draw_axis(scale, TOP + 2, y + 4)
    legend = draw_legend({span.kind for span in spans}, width)
    title = f"Timeline of {len(spans)} spans over {duration_text(end - start)} of modelled time"
    return picture(width, y + 36, title, *legend, *axis, *drawn)


class Scale:
    """Nanoseconds to pixels. Begins at a round moment, at or before the first span."""

    def __init__(self, start: float, end: float, left: float, right: float) -> None:
        self.duration = (end - start) or 1.0
        decade = 10.0 ** math.floor(math.log10(self.duration / TICKS))
        self.step = next(decade * m for m in (1, 2, 5, 10) if decade * m * TICKS >= self.duration * 0.999)
        self.start, self.end = math.floor(start / self.step) * self.step, end
        self.left, self.right = left, right
        self.pixels_a_ns = (right - left) / ((end - self.start) or 1.0)

    def x(self, ns: float) -> float:
        return self.left + (ns - self.start) * self.pixels_a_ns

    def ticks(self) -> list[float]:
        """Round moments, about TICKS of them."""
        first, last = round(self.start / self.step), math.floor(self.end / self.step)
        return [i * self.step for i in range(first, last + 1)]


def draw_lane(lane: Lane, scale: Scale, y: float, width: int) -> Element:
    """Name, bars and busy share."""
    height = ROW if len(lane.rows) == 1 else THIN_ROW
    middle = y + height_of(lane) / 2 + 4
    placed = [(span, y + i * height) for i, row in enumerate(lane.rows) for span in row]
    placed.sort(key=lambda at: at[0].start == at[0].end)  # moments last: on top of the bars they touch
    bars = [bar for span, top in placed for bar in draw_span(span, scale, top, height - 1)]
    share = f"{busy_share(lane.spans, scale.duration):.0%}"
    return element(
        "g", label(24, middle, lane.name), *bars, label(width - 14, middle, share, "quiet right"), class_="lane"
    )


def height_of(lane: Lane) -> int:
    return ROW if len(lane.rows) == 1 else THIN_ROW * len(lane.rows)


def draw_span(span: Span, scale: Scale, y: float, height: float) -> list[Element]:
    """A bar, and its name where there is room for it."""
    x, length = scale.x(span.start), (span.end - span.start) * scale.pixels_a_ns or MOMENT
    bars = [box(x, y, length, height, f"span {span.kind}{' edge' if length > 3 else ''}", tooltip(span))]
    if caption := next((text for text in captions(span) if length > CHARACTER * len(text) + 6), ""):
        on = "on-quiet" if span.kind in WAITING else "on"
        bars.append(label(x + length / 2, y + height / 2 + 3.5, caption, f"small centre {on}"))
    return bars


def captions(span: Span) -> tuple[str, ...]:
    """What may stand on a bar, best first: for a wait what it waits for, else what is done."""
    return (span.detail, span.name) if span.kind in WAITING and span.detail else (span.name,)


def tooltip(span: Span) -> str:
    """What a pointer shows."""
    rows = [
        f"{span.name} ({span.kind})",
        span.detail,
        f"{duration_text(span.end - span.start)}, from {span.start:.1f} ns",
    ]
    return "\n".join(row for row in rows if row)


def draw_axis(scale: Scale, top: float, bottom: float) -> list[Element]:
    """Grid lines through every lane and the time below them."""
    micro = scale.duration >= 2000
    drawn = []
    for moment in scale.ticks():
        text = f"{moment / 1000 if micro else moment:g}"
        drawn += [
            line(scale.x(moment), top, scale.x(moment), bottom, "grid"),
            label(scale.x(moment), bottom + 15, text, "small quiet centre"),
        ]
    drawn.append(line(scale.left, bottom, scale.right, bottom, "rule"))
    drawn.append(label(scale.left - 8, bottom + 15, "time in µs" if micro else "time in ns", "small quiet right"))
    return drawn


def draw_legend(kinds: Iterable[str], width: int) -> list[Element]:
    """The colours in use, and the head of the column of shares."""
    present, drawn, x = set(kinds), [], 14.0
    drawn.append(label(x, 24, "Timeline", "heading"))
    drawn.append(label(x + 66, 24, "of the modelled schedule; a CTA's tracks are its roles and its engines", "quiet"))
    for kind in [*KINDS, *sorted(present - set(KINDS))]:
        if kind in present:
            drawn.append(box(x, 38, 12, 12, f"key {kind}", KINDS.get(kind, kind)))
            drawn.append(label(x + 17, 48, kind))
            x += 17 + 7 * len(kind) + 22
    drawn.append(label(width - 14, 48, "busy", "quiet right"))
    return drawn


def duration_text(ns: float) -> str:
    """Nanoseconds, or microseconds where there are many."""
    return f"{ns / 1000:.2f} µs" if ns >= 2000 else f"{ns:.1f} ns"


def perfetto(spans: Sequence[Span]) -> dict[str, Any]:
    """Chrome trace events: a process for each CTA, a thread for each row of a track, as its slices must not overlap."""
    events: list[dict[str, Any]] = []
    processes: dict[str, int] = {}
    rows = [(lane, i) for lane in lanes(spans) for i in range(len(lane.rows))]
    for thread, (lane, i) in enumerate(rows):
        if lane.cta not in processes:
            processes[lane.cta] = len(processes)
            events.append(named("process_name", lane.cta or "whole grid", processes[lane.cta], thread))
        place = {"pid": processes[lane.cta], "tid": thread}
        events.append(named("thread_name", f"{lane.name} ({i + 1})" if len(lane.rows) > 1 else lane.name, **place))
        events.append({"ph": "M", "name": "thread_sort_index", "args": {"sort_index": thread}, **place})
        events += [
            {
                "ph": "X",
                "name": span.name,
                "cat": span.kind,
                "ts": span.start / 1000,
                "dur": (span.end - span.start) / 1000,
                "args": {"detail": span.detail, "waiting": span.kind in WAITING},
                **place,
            }
            for span in lane.rows[i]
        ]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def named(what: str, name: str, pid: int, tid: int) -> dict[str, Any]:
    """The event that names a process or a thread."""
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}
