"""Sorting spans into lanes, and the arithmetic of where time goes."""

import random
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from cute_kernels.study.spans import busy_share, lanes, pack, split_track, time_by_kind, waits


def span(start: float, end: float, kind: str = "compute", name: str = "verb") -> Any:
    return SimpleNamespace(track="CTA 0 role", name=name, start=start, end=end, kind=kind, detail="")


def test_lanes_go_by_cta_then_by_the_order_in_which_work_reaches_a_track(run: Any) -> None:
    expected = [(cta, name) for cta in ("CTA 2", "CTA 10") for name in ("TMA", "load", "multiply 0", "multiply 1")]
    assert [(lane.cta, lane.name) for lane in lanes(run)] == expected


def test_lanes_do_not_depend_on_the_order_of_spans(run: Any) -> None:
    shuffled = random.Random(0).sample(run, len(run))
    assert lanes(shuffled) == lanes(run)


def test_a_track_without_a_cta_is_kept() -> None:
    assert split_track("HBM") == ("", "HBM")
    assert split_track("CTA 12 tensor core") == ("CTA 12", "tensor core")


def test_pack_keeps_every_span_and_no_row_overlaps() -> None:
    rng = random.Random(1)
    starts = [rng.randrange(100) for _ in range(200)]
    spans = [span(start, start + rng.randrange(20), name=str(i)) for i, start in enumerate(starts)]
    rows = pack(spans)
    assert sorted(int(s.name) for row in rows for s in row) == list(range(200))
    for row in rows:
        for a, b in pairwise(row):
            assert a.end <= b.start
            assert (a.start, a.end) != (b.start, b.end)


def test_back_to_back_spans_share_a_row() -> None:
    assert len(pack([span(0, 5), span(5, 9), span(9, 12)])) == 1
    assert len(pack([span(0, 5), span(4, 9), span(5, 12)])) == 2


def test_moments_at_once_stand_apart() -> None:
    assert len(pack([span(5, 5), span(5, 5)])) == 2
    assert len(pack([span(2, 5), span(5, 5), span(5, 9)])) == 1


def test_overlapping_time_counts_once_and_work_before_waiting() -> None:
    times = time_by_kind([span(0, 10, "wait"), span(2, 4, "mma"), span(3, 6, "copy"), span(20, 30, "store")])
    assert times == {"wait": 6, "mma": 1, "copy": 3, "store": 10}


def test_time_by_kind_agrees_with_counting_nanoseconds() -> None:
    rng = random.Random(2)
    kinds = ("wait", "mma", "copy", "sync")
    spans = [span(a := rng.randrange(50), a + rng.randrange(12), rng.choice(kinds)) for _ in range(40)]
    covered = sum(any(s.start <= ns < s.end for s in spans) for ns in range(80))
    busy = sum(any(s.start <= ns < s.end and s.kind in ("mma", "copy", "sync") for s in spans) for ns in range(80))
    assert sum(time_by_kind(spans).values()) == covered
    assert busy_share(spans, 80) == pytest.approx(busy / 80)


def test_busy_share_of_nothing_is_nought() -> None:
    assert busy_share([], 0.0) == 0.0


def test_waits_sum_over_ctas_longest_first(run: Any) -> None:
    assert list(waits(run).items()) == [
        (("load", "operands empty"), (2, 1780)),
        (("multiply 1", "operands.wait"), (2, 1400)),
        (("multiply 0", "operands.wait"), (2, 1200)),
    ]
