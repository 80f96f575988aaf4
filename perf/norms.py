"""rms_norm and layer_norm, forward and backward, beside a copy of as many bytes, Inductor and quack."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

import cute_kernels as ck
from cute_kernels.norms import cases, gradients, reference
from perf import peers as others
from perf.measure import Call, microseconds, sets_of
from perf.rule import checked, checked_gradients
from perf.table import Row

Arguments = dict[str, Any]
ROW_LENGTHS = ((65536, 512), (65536, 1024), (65536, 2048), (65536, 4096), (65536, 8192), (32768, 16384))
CASES = {
    "rms_norm": tuple(cases.Case(m, n, "bfloat16", "bfloat16") for m, n in ROW_LENGTHS),
    "layer_norm": tuple(cases.Case(m, n, "bfloat16", "float32", bias="float32") for m, n in ROW_LENGTHS),
}


def run(peers: Sequence[str]) -> list[Row]:
    return [forward(name, case, peers) for name in CASES for case in CASES[name]]


def run_backward(peers: Sequence[str]) -> list[Row]:
    return [backward(name, case, peers) for name in CASES for case in CASES[name]]


def forward(name: str, case: cases.Case, peers: Sequence[str]) -> Row:
    """One case: checked first, then timed beside everything that does the same."""
    operator, least = getattr(ck, name), cases.bytes_least(case)
    sets = [cases.inputs(case, "cuda", seed) for seed in range(sets_of(least))]
    accuracy = checked(operator, reference, sets[0])
    contenders = {"ours": over(sets, operator), "copy": copies(len(sets), least)}
    if "inductor" in peers:
        torch._dynamo.reset()
        contenders["inductor"] = over(sets, torch.compile(getattr(reference, f"{name}_pytorch")))
    if "quack" in peers:
        contenders["quack"] = over(sets, getattr(others, f"quack_{name}")())
    return judged(name, case, accuracy, microseconds(contenders), least)


def backward(name: str, case: cases.Case, peers: Sequence[str]) -> Row:
    """The same of all gradients, from what a forward saved."""
    least = cases.bytes_least_backward(case)
    sets = [saved(name, cases.inputs(case, "cuda", seed)) for seed in range(sets_of(least))]
    accuracy = checked_gradients(getattr(ck, name), reference, cases.inputs(case, "cuda"))
    contenders = {"ours": over(sets, ours), "copy": copies(len(sets), least)}
    if "inductor" in peers:
        torch._dynamo.reset()
        contenders["inductor"] = over(sets, torch.compile(formula))
    if "quack" in peers:
        contenders["quack"] = over(sets, getattr(others, f"quack_{name}_backward")())
    return judged(f"{name} backward", case, accuracy, microseconds(contenders), least)


def saved(name: str, arguments: Arguments) -> Arguments:
    """What a backward starts from: stats are rstd and, of a layer norm, the mean."""
    x, weight = arguments["x"], arguments["weight"]
    _, mean, rstd = getattr(ck, name)(**arguments, return_stats=True)
    stats = torch.stack([rstd] if mean is None else [rstd, mean])
    return {"x": x, "weight": weight, "dy": torch.randn_like(x), "stats": stats}


def ours(x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor, stats: torch.Tensor) -> Any:
    """The fused backward with everything asked for: a bias goes with a mean here."""
    return gradients.of(gradients.Saved(x, None, weight, stats, 0.0), dy, None, (True, True, len(stats) > 1))


def formula(x: torch.Tensor, weight: torch.Tensor, dy: torch.Tensor, stats: torch.Tensor) -> Any:
    """The same as a formula, for Inductor."""
    wide, dy, rstd, centre = x.float(), dy.float(), stats[0][:, None], len(stats) > 1
    unit = (wide - stats[1][:, None] if centre else wide) * rstd
    scaled = dy * weight.float()
    dx = scaled - unit * (scaled * unit).mean(-1, keepdim=True)
    dx = dx - scaled.mean(-1, keepdim=True) if centre else dx
    dbias = (dy.sum(0).to(weight.dtype),) if centre else ()
    return (dx * rstd).to(x.dtype), (dy * unit).sum(0).to(weight.dtype), *dbias


def judged(name: str, case: cases.Case, accuracy: str, times: dict[str, float], least: int) -> Row:
    """The row: ratios to the fastest peer, the rate beside the copy's."""
    bound = min(set(times) - {"ours", "copy"}, key=times.__getitem__, default="copy")
    rate = f"{least / times['ours'] * 1e-6:.2f} TB/s, {times['copy'] / times['ours']:.1%} of copy"
    return Row(name, f"{name} {case.m}x{case.n}", accuracy, times, bound, rate)


def copies(count: int, least: int) -> list[Call]:
    """Copies that read and write `least` bytes together, each on buffers of its own."""
    pairs = [torch.randn(2, least // 8, device="cuda") for _ in range(count)]
    return [lambda pair=pair: pair[0].copy_(pair[1]) for pair in pairs]  # type: ignore[misc]


def over(sets: Sequence[Arguments], function: Callable[..., Any]) -> list[Call]:
    """A call of `function` for each set of arguments."""
    return [lambda s=s: function(**s) for s in sets]  # type: ignore[misc]
