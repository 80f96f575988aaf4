"""`run`: one operator on one shape, in the simulator or on the GPU, measured against float64."""

import itertools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from cute_kernels.cli.catalogue import Operator
from cute_kernels.cli.progress import progress
from cute_kernels.plan import Plan
from cute_kernels.runtime import accuracy
from cute_kernels.runtime.simulate import simulate
from cute_kernels.runtime.targets import here

ROUNDS, WARMUP = 20, 3
SUM_BYTES = 4  # a float32 a row


def in_simulator(operator: Operator, case: Any, arch: str, seed: int, picture: Path | None = None) -> dict[str, Any]:
    """Run the schedule; what was counted, and where its picture is if one is asked for."""
    arguments = operator.module("cases").inputs(case, seed=seed)
    start = time.perf_counter()
    with progress(f"simulating {operator.name}"), simulate(arch, seed, trace=picture is not None) as simulation:
        out = operator.call(**arguments)
    seconds = time.perf_counter() - start
    plan, report = simulation.plans[-1], simulation.reports[-1]
    facts = {
        "operator": operator.name,
        "case": str(case),
        "where": f"simulator, {arch}, seed {seed}",
        "cluster": plan.cluster,
        "row_tiles": -(-case.m // plan.rows),
        **judged(operator, arguments, out),
        "verbs": report.verbs,
        "seconds": seconds,
        "bytes_moved": report.bytes_read + report.bytes_written,
        "bytes_least": operator.module("cases").bytes_least(case),
        "dsmem_bytes": report.dsmem_bytes,
    }
    if picture is not None:
        facts |= draw(picture, plan, report)
    return facts


def draw(picture: Path, plan: Plan, report: Any) -> dict[str, str]:
    """The page at `picture`, beside it the timeline alone and the trace; their paths."""
    from cute_kernels.study import page, perfetto, timeline_svg

    files = {
        "picture": (picture, page(plan, report.spans, report)),
        "timeline": (picture.with_suffix(".svg"), timeline_svg(report.spans)),
        "trace": (picture.with_suffix(".json"), json.dumps(perfetto(report.spans))),
    }
    picture.parent.mkdir(parents=True, exist_ok=True)
    for path, text in files.values():
        path.write_text(text, encoding="utf-8")
    return {name: str(path) for name, (path, _) in files.items()}


def on_gpu(operator: Operator, case: Any, seed: int) -> dict[str, Any]:
    """Run the kernel on the current GPU and time it."""
    here()
    arguments = operator.module("cases").inputs(case, device="cuda", seed=seed)
    with progress(f"compiling {operator.name}"):
        out = operator.call(**arguments)
        torch.cuda.synchronize()
    seconds = timed(lambda: operator.call(**arguments))
    least = operator.module("cases").bytes_least(case)
    return {
        "operator": operator.name,
        "case": str(case),
        "where": torch.cuda.get_device_name(),
        **judged(operator, arguments, out),
        "microseconds": seconds * 1e6,
        "pytorch_microseconds": timed(lambda: operator.pytorch(**arguments)) * 1e6,
        "bytes_least": least,
        "bytes_a_second": least / seconds,
    }


def judged(operator: Operator, arguments: dict[str, Any], out: Any) -> dict[str, Any]:
    """The result's errors beside the yardstick's; of several outputs, the worst one's."""
    exact, chain = operator.reference(**arguments), operator.yardstick(**arguments)
    found = accuracy.measure(out, exact, chain, operator.allowed(**arguments))
    return {"right": found.right, "error": found.error, "yardstick_error": found.yardstick, "accuracy": str(found)}


def timed(call: Any) -> float:
    """Median seconds of a call on the GPU, launches back to back."""
    for _ in range(WARMUP):
        call()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(ROUNDS + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in itertools.pairwise(marks)) * 1e-3


def describe(facts: dict[str, Any]) -> str:
    """The same for people."""
    lines = [f"{facts['operator']} {facts['case']} on {facts['where']}", facts["accuracy"]]
    if "verbs" in facts:
        lines += describe_counts(facts)
    else:
        lines.append(
            f"{facts['microseconds']:.1f} µs, {facts['bytes_a_second'] / 1e12:.2f} TB/s of the bytes that must move; "
            f"PyTorch {facts['pytorch_microseconds']:.1f} µs"
        )
    if "picture" in facts:
        lines.append(f"picture of the schedule: {facts['picture']}")
        lines.append(f"its timeline: {facts['timeline']}; the same for ui.perfetto.dev: {facts['trace']}")
    return "\n".join(lines)


def describe_counts(facts: dict[str, Any]) -> list[str]:
    """What the simulator counted."""
    moved, least, cluster = facts["bytes_moved"], facts["bytes_least"], facts["cluster"]
    lines = [
        f"{facts['verbs']:,} verbs in {facts['seconds']:.1f} s, {facts['row_tiles']} row tiles, {cluster} CTAs a row",
        f"bytes asked of L2 and memory: {moved:,}, {moved / least:.2f} times the least that memory must move, {least:,}",
    ]
    if cluster > 1:
        sums = facts["dsmem_bytes"] // SUM_BYTES
        lines.append(f"row sums exchanged through DSMEM: {sums:,} ({facts['dsmem_bytes']:,} bytes)")
    return lines
