"""Hyper-connections beside a copy of as many bytes, Inductor and FlashInfer."""

from collections.abc import Sequence
from typing import Any

import torch

from cute_kernels.cli.catalogue import OPERATORS, Operator
from cute_kernels.hyper_connection import cases
from cute_kernels.runtime.accuracy import measure
from perf import peers as others
from perf.measure import Call, microseconds, sets_of
from perf.norms import copies, over
from perf.rule import poisoned
from perf.table import Row

TOKENS = 512  # judged at either end; all are looked at for NaN and Inf
BY_TOKEN = {"X": 0, "f": 0, "post": 0, "comb": 0, "dot_mix": -2, "sqrsum": -1}  # argument -> its dimension of tokens


def run(peers: Sequence[str]) -> list[Row]:
    return [row(OPERATORS[name], case, peers) for name, speed in cases.SPEED.items() for case in speed]


def row(operator: Operator, case: cases.Case, peers: Sequence[str]) -> Row:
    """One case: checked first, then timed beside everything that does the same."""
    least = cases.bytes_least(case)
    sets = [cases.inputs(case, "cuda", seed) for seed in range(sets_of(least))]
    accuracy = checked(operator, sets[0])
    contenders: dict[str, list[Call]] = {
        "ours": over(sets, lambda **arguments: operator.call(**arguments)),
        "copy": copies(len(sets), least),
    }
    if "inductor" in peers:
        torch._dynamo.reset()
        contenders["inductor"] = over(sets, torch.compile(operator.pytorch))
    if "flashinfer" in peers and (call := others.flashinfer_mhc(operator.name, sets[0])):
        contenders["flashinfer"] = over(sets, call)
    times = microseconds(contenders)
    bound = "flashinfer" if "flashinfer" in times else "copy"
    rate = f"{least / times['ours'] * 1e-6:.2f} TB/s, {times['copy'] / times['ours']:.1%} of copy"
    return Row(operator.name, f"{operator.name} {case}", accuracy, times, bound, rate)


def checked(operator: Operator, arguments: dict[str, Any]) -> str:
    """The accuracy of the first and the last tokens; SystemExit where the rule is broken, or anything is not finite."""
    with poisoned():
        out = operator.call(**arguments)
    outs, said = out if isinstance(out, tuple) else (out,), ""
    if not all(value.isfinite().all() for value in outs):
        raise SystemExit(f"perf: {operator.name} has NaN or Inf; no figure is printed")
    count = len(arguments["X"])
    for tokens in (slice(0, TOKENS), slice(max(0, count - TOKENS), count)):
        part = of_tokens(arguments, tokens)
        found = measure(
            tuple(value[tokens] for value in outs),
            in_tuple(operator.reference(**part)),
            in_tuple(operator.yardstick(**part)),
            operator.allowed(**part),
        )
        if not found.right:
            raise SystemExit(f"perf: {operator.name} is {found}; no figure is printed")
        said = str(found).partition(":")[0]
    return said


def in_tuple(out: Any) -> tuple[torch.Tensor, ...]:
    return out if isinstance(out, tuple) else (out,)


def of_tokens(arguments: dict[str, Any], tokens: slice) -> dict[str, Any]:
    """The arguments of some tokens."""
    length = tokens.stop - tokens.start
    found = {
        name: arguments[name].narrow(axis, tokens.start, min(length, arguments[name].shape[axis] - tokens.start))
        for name, axis in BY_TOKEN.items()
        if name in arguments
    }
    return arguments | found
