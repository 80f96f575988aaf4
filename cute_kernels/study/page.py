"""One self-contained HTML page to understand a kernel's schedule from: plan, memory, timeline, counted traffic."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol
from xml.etree.ElementTree import Element

from cute_kernels.plan import Plan, Target
from cute_kernels.study.flow import flow_picture
from cute_kernels.study.markup import colour_rules, html_text
from cute_kernels.study.markup import element as e
from cute_kernels.study.memory_map import memory_picture
from cute_kernels.study.sections import programs, rings_table, roles_table, table, words
from cute_kernels.study.spans import (
    KINDS,
    Lane,
    Span,
    busy_share,
    extent,
    lanes,
    natural,
    split_track,
    time_by_kind,
    waits,
)
from cute_kernels.study.timeline import duration_text, timeline_picture

CTAS_SHOWN = 8  # more make a timeline that nobody reads
WAITS_SHOWN = 12
WIDTH, WIDTH_MOST = 1200, 8000  # pixels of a timeline
READABLE = 10  # pixels

STYLE = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,Arial,sans-serif;color:#1f2328;background:#f6f8fa;margin:0}
main{max-width:1232px;margin:0 auto;padding:24px 16px 64px}
h1{font-size:26px;margin:0 0 4px}h2{font-size:19px;margin:36px 0 8px}p{margin:6px 0;max-width:92ch}
.quiet{color:#59636e}.scroll{overflow-x:auto}.picture{display:block;max-width:none}.fit .picture{width:100%;height:auto}
table{border-collapse:collapse;background:#fff;font-size:14px;margin:8px 0}
th,td{border:1px solid #d0d7de;padding:4px 10px;text-align:left;vertical-align:top}
th{background:#eef1f4;font-weight:600}td.number{text-align:right;font-variant-numeric:tabular-nums}
pre{background:#fff;border:1px solid #d0d7de;border-radius:6px;padding:10px 14px;overflow-x:auto;
font-size:13px;line-height:1.45}
.facts span{display:inline-block;background:#fff;border:1px solid #d0d7de;border-radius:12px;
padding:0 10px;margin:2px 4px 2px 0}
.note{border-left:4px solid #c98b00;padding:4px 12px;background:#fff}
.shares{display:flex;width:420px;height:14px;background:transparent;border:1px solid #d0d7de}
summary{cursor:pointer}
@media (prefers-color-scheme:dark){
body{color:#e6edf3;background:#0d1117}table,pre,.facts span,.note{background:#15191f}
th{background:#21262d}th,td,pre,.facts span,.shares{border-color:#3d444d}.quiet{color:#9198a1}}
"""


class Report(Protocol):
    """What a simulated run counted."""

    bytes_read: int
    bytes_written: int
    dsmem_bytes: int
    mma_flops: int
    verbs: int
    seed: Any
    strategy: Any


def page(plan: Plan, spans: Sequence[Span], report: Report) -> str:
    """The HTML text. Nothing in it is fetched from elsewhere, and equal runs give equal text."""
    title = f"{plan.operator} on {plan.target.arch} ({plan.target.generation})"
    body = e(
        "main",
        e("h1", title),
        e("p", shape(plan), class_="quiet"),
        e("p", *(e("span", fact) for fact in facts(plan.problem)), class_="facts"),
        *words(plan),
        *flow_section(plan),
        e("h2", "Why this plan"),
        e("ul", *(e("li", why) for why in plan.why)),
        *roles_table(plan),
        *rings_table(plan),
        *memory_section(plan),
        *timeline_section(plan, spans),
        *time_section(spans),
        *traffic_section(plan.target, report),
        *programs(plan),
    )
    head = e(
        "head", e("meta", charset="utf-8"), e("title", title), e("style", STYLE + colour_rules(".shares", "background"))
    )
    return html_text(e("html", head, e("body", body), lang="en"))


def shape(plan: Plan) -> str:
    """The grid in a line."""
    grid = "persistent: each cluster walks over tiles" if plan.persistent else "one tile for each cluster"
    ctas = "1 CTA" if plan.cluster == 1 else f"a cluster of {plan.cluster} CTAs"
    return f"{plan.rows} row{'s' * (plan.rows != 1)} a tile, handled by {ctas} of {plan.roles.threads} threads; {grid}"


def facts(problem: Any, prefix: str = "") -> list[str]:
    """The fields of a problem, nested ones with their owner's name."""
    if not dataclasses.is_dataclass(problem):
        return [str(problem)]
    found = []
    for field in dataclasses.fields(problem):
        value = getattr(problem, field.name)
        if dataclasses.is_dataclass(value):
            found += facts(value, f"{prefix}{field.name}.")
        else:
            found.append(f"{prefix}{field.name} = {value!r}")
    return found


def flow_section(plan: Plan) -> list[Element]:
    text = (
        "Roles from left to right, and what they hand on. Data mostly goes from engine to memory to engine and not "
        "through the warps: an arrow says which role starts a transfer and which waits for it."
    )
    return [e("h2", "Who hands what to whom"), e("p", text), e("div", flow_picture(plan), class_="fit")]


def memory_section(plan: Plan) -> list[Element]:
    text = (
        "Shared memory of one CTA, to scale. A block is a stage. Colours say what passes through: blue copies by TMA, "
        "violet letters between CTAs, gold results on their way out, green what only the CTA's own threads touch. "
        "Bars above one another that cover the same bytes are a deliberate overlay."
    )
    return [e("h2", "Memory"), e("p", text), e("div", memory_picture(plan), class_="fit")]


def timeline_section(plan: Plan, spans: Sequence[Span]) -> list[Element]:
    """The whole run at a glance and, where that is too dense to read, once more at a readable scale."""
    target = plan.target
    shown = of_first_ctas(spans)
    left_out = (
        "" if len(shown) == len(spans) else f" The first {CTAS_SHOWN} CTAs are drawn; the tables below count all."
    )
    model = (
        "The timeline is a model of the schedule, not a measurement: its durations come from the cost model of the "
        f"target ({target.arch}: {target.clock_hz / 1e9:g} GHz, {target.copy_rate / 1e12:g} TB/s, "
        f"{target.mma_flops_a_cycle} FLOP a cycle and SM). Trust the order and the overlaps, not the nanoseconds."
        f"{left_out}"
    )
    kinds = [
        e("li", e("b", kind), f": {meaning}") for kind, meaning in KINDS.items() if any(s.kind == kind for s in shown)
    ]
    parts = [e("h2", "Timeline"), e("p", model, class_="note"), e("ul", *kinds)]
    parts.append(e("div", timeline_picture(shown, WIDTH), class_="fit"))
    if (wide := readable_width(shown)) > WIDTH:
        enlarged = e("div", timeline_picture(shown, wide), class_="scroll")
        parts.append(e("details", e("summary", "The same, enlarged: scroll along it"), enlarged))
    return parts


def of_first_ctas(spans: Sequence[Span]) -> list[Span]:
    """The spans of as many CTAs as are drawn, and those of no CTA."""
    ctas = sorted({cta for s in spans if (cta := split_track(s.track)[0])}, key=natural)
    drawn = {"", *ctas[:CTAS_SHOWN]}
    return [s for s in spans if split_track(s.track)[0] in drawn]


def readable_width(spans: Sequence[Span]) -> int:
    """Pixels at which three quarters of what is done can be told apart."""
    start, end = extent(spans)
    lengths = sorted(s.end - s.start for s in spans if s.kind != "wait" and s.end > s.start)
    return min(WIDTH_MOST, int((end - start) * READABLE / lengths[len(lengths) // 4])) if lengths else WIDTH


def time_section(spans: Sequence[Span]) -> list[Element]:
    """Each track's time by kind, and the longest waits."""
    start, end = extent(spans)
    alike: dict[str, list[Lane]] = {}
    for lane in lanes(spans):
        alike.setdefault(lane.name, []).append(lane)
    rows = [share_row(name, of_name, end - start) for name, of_name in alike.items()]
    waited = [[track, name, f"{count:,}", duration_text(ns)] for (track, name), (count, ns) in waits(spans).items()]
    text = (
        f"The part of the {duration_text(end - start)} in which each track works, on average over the CTAs; the rest "
        "is waiting (grey) or nothing at all (blank). An engine works while anything is in flight in it. The busiest "
        "one bounds the kernel: where none is near 100 %, look in the timeline for what it waits for."
    )
    return [
        e("h2", "Where the time goes"),
        e("p", text),
        table(("track", "CTAs", "share of the time, by kind", "busy", "least", "most"), rows),
        e("p", "The longest waits, summed over all CTAs and stages:" if waited else "Nobody waits for anybody."),
        *([table(("track", "waits for", "times", "in all"), waited[:WAITS_SHOWN])] if waited else []),
    ]


def share_row(name: str, of_name: Sequence[Lane], duration: float) -> list[Element | str]:
    """A track as it is in all CTAs: the kinds' shares on average, and how busy it is on average, least and most."""
    times: Counter[str] = Counter()
    for lane in of_name:
        times.update(time_by_kind(lane.spans))
    whole = duration * len(of_name) or 1.0
    bars = []
    for kind in [*KINDS, *sorted(set(times) - set(KINDS))]:
        if share := times[kind] / whole:
            bars.append(e("i", class_=kind, style=f"width:{share:.2%}", title=f"{kind} {share:.1%}"))
    busy = [busy_share(lane.spans, duration) for lane in of_name]
    figures = (sum(busy) / len(busy), min(busy), max(busy))
    return [name, str(len(of_name)), e("div", *bars, class_="shares"), *(f"{figure:.0%}" for figure in figures)]


def traffic_section(target: Target, report: Report) -> list[Element]:
    """What the run moved and multiplied, counted verb by verb."""
    moved = report.bytes_read + report.bytes_written
    balance = target.mma_rate / target.copy_rate
    rows = [
        ["read from global memory", f"{report.bytes_read:,} bytes"],
        ["written to global memory", f"{report.bytes_written:,} bytes"],
        ["sent between CTAs through DSMEM", f"{report.dsmem_bytes:,} bytes"],
        ["multiplied on the tensor cores", f"{report.mma_flops:,} FLOP"],
        ["FLOP for each byte of global memory", f"{report.mma_flops / moved:.1f}" if moved else "-"],
        ["verbs executed", f"{report.verbs:,}"],
        ["scheduler", str(report.strategy)],
        ["seed", str(report.seed)],
    ]
    text = (
        "Counted by the simulator, verb by verb; a byte that the L2 cache would answer counts too. "
        f"{target.arch} multiplies {balance:.0f} FLOP in the time in which it moves one byte of HBM: "
        "a kernel with fewer for each byte is bound by memory."
    )
    return [e("h2", "Counted traffic"), e("p", text), table(("what", "how much"), rows)]
