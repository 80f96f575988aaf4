"""rms_norm forward beside a copy of as many bytes, Inductor and quack."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

import cute_kernels as ck
from cute_kernels.norms import cases, reference
from perf.measure import Call, microseconds, sets_of
from perf.peers import quack_rms_norm
from perf.rule import checked
from perf.table import Row

ROW_LENGTHS = ((65536, 512), (65536, 1024), (65536, 2048), (65536, 4096), (65536, 8192), (32768, 16384))
CASES = tuple(cases.Case(m, n, "bfloat16", "bfloat16") for m, n in ROW_LENGTHS)


def run(peers: Sequence[str]) -> list[Row]:
    return [row(case, peers) for case in CASES]


def row(case: cases.Case, peers: Sequence[str]) -> Row:
    """One case: checked first, then timed beside everything that does the same."""
    count = sets_of(cases.bytes_least(case))
    sets = [cases.inputs(case, "cuda", seed) for seed in range(count)]
    accuracy = checked(ck.rms_norm, reference, sets[0])
    outputs = [torch.empty_like(arguments["x"]) for arguments in sets]
    contenders: dict[str, list[Call]] = {
        "ours": over(sets, ck.rms_norm),
        "copy": [lambda x=s["x"], y=y: y.copy_(x) for s, y in zip(sets, outputs, strict=True)],  # type: ignore[misc]
    }
    if "inductor" in peers:
        torch._dynamo.reset()
        contenders["inductor"] = over(sets, torch.compile(reference.pytorch))
    if "quack" in peers:
        contenders["quack"] = over(sets, quack_rms_norm())
    times = microseconds(contenders)
    rate = f"{cases.bytes_least(case) / times['ours'] * 1e-6:.2f} TB/s, {times['copy'] / times['ours']:.1%} of copy"
    return Row(
        "rms_norm",
        str(case),
        accuracy,
        times,
        min(set(times) - {"ours", "copy"}, key=times.__getitem__, default="copy"),
        rate,
    )


def over(sets: Sequence[dict[str, Any]], function: Callable[..., Any]) -> list[Call]:
    """A call of `function` for each set of arguments."""
    return [lambda s=s: function(**s) for s in sets]  # type: ignore[misc]
