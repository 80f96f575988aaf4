"""The page stands alone, says what a reader needs and survives hostile text."""

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.norms.plan import Norm
from cute_kernels.norms.plan import plan as rms_norm
from cute_kernels.plan import SM90A, SM100A
from cute_kernels.study import page
from cute_kernels.study.page import CTAS_SHOWN

VOID = {"meta"}


class Reader(HTMLParser):
    """Checks that tags nest, and keeps what there is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def hopper() -> Any:
    return plan(LinearNorm(512, 512, "bfloat16"), SM90A)


@pytest.mark.parametrize(
    "the_plan",
    [hopper(), plan(LinearNorm(512, 768, "float16"), SM100A), rms_norm(Norm(4096, "bfloat16"), SM90A)],
    ids=lambda p: f"{p.operator}-{p.target.arch}",
)
def test_the_page_says_what_the_plan_says(the_plan: Any, run: Any, report: Any) -> None:
    read = Reader(page(the_plan, run, report))
    text = " ".join(read.texts)
    for role in the_plan.roles:
        assert role.name in read.texts
        assert f"def {role.program.__name__}(ctx" in text
    for ring in the_plan.rings:
        assert (ring.name in read.texts) == bool(ring.stages)
    for why in the_plan.why:
        assert why in read.texts
    for figure in ("3,000,000 bytes", "262,144 bytes", "4,096 bytes", "134,217,728 FLOP", "1,234", "timed", "7"):
        assert figure in read.texts
    assert "not a measurement" in text
    assert read.tags["svg"] >= 3


def test_the_page_fetches_nothing(run: Any, report: Any) -> None:
    text = page(hopper(), run, report)
    read = Reader(text)
    assert not {name for name, _ in read.attributes} & {"src", "href", "xlink:href", "srcset", "action", "data"}
    assert not read.tags.keys() & {"script", "link", "iframe", "object", "embed", "img", "image", "use"}
    assert not re.search(r"url\(|@import|//", text.replace('xmlns="http://www.w3.org/2000/svg"', ""))


def test_text_is_escaped(run: Any, report: Any) -> None:
    hostile = replace(run[0], name="</title><script>alert(1)</script>", detail="a < b && \"c\" > 'd'", start=0, end=900)
    the_plan = replace(hopper(), why=("1 < 2 & <b>bold</b>",))
    read = Reader(page(the_plan, [*run, hostile], report))
    assert "script" not in read.tags
    assert "1 < 2 & <b>bold</b>" in read.texts
    assert any(hostile.name in text and hostile.detail in text for text in read.texts)


def test_shares_are_those_of_the_run(run: Any, report: Any) -> None:
    text = page(hopper(), run, report)
    read = Reader(text)
    tma = read.texts[read.texts.index("share of the time, by kind") :]
    at = tma.index("TMA")
    assert tma[at : at + 5] == ["TMA", "2", "70%", "70%", "70%"]
    assert "width:70.00%" in text


def test_equal_runs_give_equal_pages(run: Any, report: Any) -> None:
    assert page(hopper(), run, report) == page(hopper(), run[::-1], report)


def test_a_large_grid_shows_its_first_ctas_and_says_so(run: Any, report: Any) -> None:
    grid = [
        replace(s, track=s.track.replace("CTA 2 ", f"CTA {i} ")) for i in range(20) for s in run if "CTA 2 " in s.track
    ]
    read = Reader(page(hopper(), grid, report))
    assert f"CTA {CTAS_SHOWN - 1}" in read.texts
    assert f"CTA {CTAS_SHOWN}" not in read.texts
    assert any(f"The first {CTAS_SHOWN} CTAs are drawn" in text for text in read.texts)
    assert "20" in read.texts


def test_a_run_without_spans_still_makes_a_page(report: Any) -> None:
    report.bytes_read = report.bytes_written = 0
    assert Reader(page(hopper(), [], report)).tags["svg"] == 3


def test_study_needs_neither_torch_nor_the_dsl() -> None:
    script = "import sys, cute_kernels.study; print(sorted({'torch', 'cutlass', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
