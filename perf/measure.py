"""Timing: every contender over buffers that outrun the L2 cache, in a captured CUDA graph, rounds interleaved, medians."""

import statistics
from collections.abc import Callable, Mapping, Sequence

import torch

L2_BYTES = 60 << 20
SETS = 4  # at least: how fast memory is depends by some percent on where a tensor lies, and one place is luck
ROUNDS = 9
EAGER = ("copy",)  # not captured: a graph's copy nodes reach two thirds of the bandwidth of the same copy launched
ROUND_MS = 12.0  # long enough for events to resolve, short enough that the clock does not wander within a round

Call = Callable[[], object]


def sets_of(bytes_a_set: int) -> int:
    """Sets of buffers to rotate over so that one is gone from the cache when its turn comes again."""
    return max(SETS, min(16, -(-4 * L2_BYTES // max(bytes_a_set, 1))))


def warm(calls: Sequence[Call]) -> None:
    """Run every call once on a side stream, as a capture wants it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run_all(calls)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()


def run_all(calls: Sequence[Call]) -> list[object]:
    """Every call once. Results live until all are there, so that each has a place of its own."""
    return [call() for call in calls]


def burst(name: str, calls: Sequence[Call]) -> Call:
    """All calls as one."""
    warm(calls)
    if name in EAGER:
        return lambda: run_all(calls)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run_all(calls)
    return graph.replay


def elapsed(call: Call, times: int) -> float:
    """Milliseconds of `times` calls."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(times):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def microseconds(contenders: Mapping[str, Sequence[Call]], rounds: int = ROUNDS) -> dict[str, float]:
    """Median time of one call of each contender, which brings a call for every set of buffers."""
    bursts = {name: burst(name, calls) for name, calls in contenders.items()}
    replays = {name: max(1, int(ROUND_MS / max(elapsed(run, 2) / 2, 1e-3))) for name, run in bursts.items()}
    times: dict[str, list[float]] = {name: [] for name in bursts}
    for _ in range(rounds):
        for name, run in bursts.items():
            calls = replays[name] * len(contenders[name])
            times[name].append(1e3 * elapsed(run, replays[name]) / calls)
    return {name: statistics.median(values) for name, values in times.items()}
