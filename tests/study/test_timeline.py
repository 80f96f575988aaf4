"""The timeline is true to scale, complete and hides nothing; the trace events obey the format's rules."""

import json
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from cute_kernels.study import perfetto, timeline_svg
from cute_kernels.study.timeline import MOMENT, Scale

SVG = "{http://www.w3.org/2000/svg}"


def bars(root: Element) -> list[Element]:
    return [rect for rect in root.iter(f"{SVG}rect") if rect.get("class", "").startswith("span ")]


def tooltip(bar: Element) -> str:
    return bar.findtext(f"{SVG}title") or ""


def sides(bar: Element) -> tuple[float, float, float, float]:
    x, y, width, height = (float(bar.get(name, "nan")) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def test_every_span_is_drawn_once_with_its_tooltip(run: Any) -> None:
    drawn = sorted(tooltip(bar) for bar in bars(ElementTree.fromstring(timeline_svg(run))))
    assert len(drawn) == len(run)
    for span in run:
        start = f"{span.name} ({span.kind})\n{span.detail}"
        assert any(text.startswith(start) and text.endswith(f"from {span.start:.1f} ns") for text in drawn)


@pytest.mark.parametrize("width", [600, 1200, 4000])
def test_bars_are_to_scale(run: Any, width: int) -> None:
    drawn = bars(ElementTree.fromstring(timeline_svg(run, width)))
    lengths = {
        span.name: span.end - span.start for span in run if span.name in ("row_sum", "weight", "operands.acquire")
    }
    scales = []
    for bar in drawn:
        left, _, right, _ = sides(bar)
        if (name := tooltip(bar).split(" (")[0]) in lengths:
            scales.append((right - left) / lengths[name])
    assert len(scales) == 6
    assert max(scales) == pytest.approx(min(scales), rel=1e-3)
    assert max(scales) * 1000 == pytest.approx(
        max(sides(b)[2] for b in drawn) - min(sides(b)[0] for b in drawn), rel=1e-3
    )


def test_bars_never_hide_each_other(run: Any) -> None:
    for a, b in combinations(map(sides, bars(ElementTree.fromstring(timeline_svg(run)))), 2):
        across = min(a[2], b[2]) - max(a[0], b[0])
        down = min(a[3], b[3]) - max(a[1], b[1])
        assert across < 0.01 or down <= 0


def test_a_moment_is_still_visible(run: Any) -> None:
    drawn = bars(ElementTree.fromstring(timeline_svg(run)))
    widths = [sides(bar)[2] - sides(bar)[0] for bar in drawn if tooltip(bar).startswith("mail.send")]
    assert widths == [pytest.approx(MOMENT)] * 2


def test_a_moment_is_painted_over_the_bar_that_begins_with_it(run: Any) -> None:
    moment = next(span for span in run if span.name == "mail.send")
    spans = [moment, replace(moment, name="mail.wait", end=moment.end + 300, kind="wait")]
    drawn = bars(ElementTree.fromstring(timeline_svg(spans)))
    assert [tooltip(bar).split(" (")[0] for bar in drawn] == ["mail.wait", "mail.send"]


def test_a_wait_is_captioned_with_what_it_waits_for_where_there_is_room(run: Any) -> None:
    def captions(width: int) -> list[str | None]:
        return [text.text for text in ElementTree.fromstring(timeline_svg(run, width)).iter(f"{SVG}text")]

    assert captions(1200).count("operands[1] empty") == 2
    assert "operands.acquire" not in captions(1200)
    assert "operands[1] empty" not in captions(250)


def test_everything_stays_inside_the_picture(run: Any) -> None:
    root = ElementTree.fromstring(timeline_svg(run, 900))
    height = float(root.get("height", "nan"))
    assert root.get("width") == "900"
    for x, y, right, bottom in map(sides, bars(root)):
        assert 0 <= x <= right <= 900
        assert 0 <= y <= bottom <= height


def test_the_legend_names_just_the_kinds_in_use(run: Any) -> None:
    root = ElementTree.fromstring(timeline_svg(run))
    keys = [rect.get("class") for rect in root.iter(f"{SVG}rect") if rect.get("class", "").startswith("key ")]
    assert keys == ["key copy", "key compute", "key exchange", "key wait"]


def test_equal_runs_give_equal_text_in_any_order(run: Any) -> None:
    assert timeline_svg(run) == timeline_svg(run[::-1])


def test_no_spans_give_an_empty_picture() -> None:
    assert not bars(ElementTree.fromstring(timeline_svg([])))
    assert perfetto([])["traceEvents"] == []


@pytest.mark.parametrize("end", [1.0, 7.3, 999.0, 123456.0])
def test_ticks_are_round_and_inside(end: float) -> None:
    scale = Scale(0.004 * end, end, 0, 1000)
    ticks = scale.ticks()
    assert 4 <= len(ticks) <= 11
    assert ticks[0] == scale.start == 0
    assert ticks[-1] <= end * (1 + 1e-9)
    step = ticks[1]
    assert float(f"{step:e}".split("e")[0]) in (1, 2, 5)


def test_perfetto_has_a_process_a_cta_and_every_span_in_microseconds(run: Any) -> None:
    trace = json.loads(json.dumps(perfetto(run)))
    events = trace["traceEvents"]
    processes = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert processes == ["CTA 2", "CTA 10"]
    slices = sorted((e["name"], e["ts"], e["dur"], e["args"]["detail"]) for e in events if e["ph"] == "X")
    assert slices == sorted((s.name, s.start / 1000, (s.end - s.start) / 1000, s.detail) for s in run)


def test_perfetto_threads_are_named_and_their_slices_do_not_overlap(run: Any) -> None:
    events = perfetto(run)["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(names.values()) == sorted(["TMA (1)", "TMA (2)", "load", "multiply 0", "multiply 1"] * 2)
    for thread in names:
        slices = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == thread]
        assert slices
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(slices))
