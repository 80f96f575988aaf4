"""Modelled time: spans that make sense, and the limits the model must keep."""

from itertools import pairwise

import pytest

from cute_kernels import simulator
from cute_kernels.plan import SM90A, SM100A, Target
from cute_kernels.simulator.cost import Cost
from tests.simulator.kernels import TINY, Kernel, linear_norm

TARGETS = pytest.mark.parametrize("target", [SM90A, SM100A], ids=lambda t: t.arch)


def real(target: Target) -> Kernel:
    return linear_norm(m=128 * 4, k=512, n=512, target=target, tiling=type(TINY)())


@TARGETS
def test_spans(target: Target) -> None:
    report = real(target).run(trace=True, blocks=2)
    assert all(0 <= span.start <= span.end <= report.nanoseconds for span in report.spans)
    assert {span.kind for span in report.spans} == {"copy", "mma", "compute", "exchange", "store", "sync", "wait"}
    tracks = {span.track for span in report.spans}
    assert {"CTA 0 TMA", "CTA 1 tensor core", "CTA 0 load"} <= tracks


@TARGETS
def test_a_worker_does_one_thing_at_a_time(target: Target) -> None:
    report = real(target).run(trace=True)
    for worker in ("load", "multiply", "multiply 0", "epilogue"):
        spans = sorted((s for s in report.spans if s.track == f"CTA 0 {worker}"), key=lambda s: (s.start, s.end))
        assert all(a.end <= b.start + 1e-6 for a, b in pairwise(spans))


@TARGETS
def test_the_tensor_core_is_no_faster_than_its_rate(target: Target) -> None:
    kernel = real(target)
    report = kernel.run(strategy="timed", blocks=2)
    assert report.nanoseconds > report.mma_flops / 2 / Cost.of(kernel.plan).flops


def test_on_blackwell_the_epilogue_overlaps_the_next_tile() -> None:
    spans = real(SM100A).run(trace=True, blocks=2).spans
    products = [s for s in spans if s.track == "CTA 0 tensor core"]
    work = [s for s in spans if s.track == "CTA 0 epilogue" and s.kind == "compute"]
    assert any(p.start < w.end and w.start < p.end for p in products for w in work)


def test_the_same_time_every_time() -> None:
    assert linear_norm().run(trace=True).spans == linear_norm().run(trace=True, seed=9).spans


def test_a_trace_needs_time() -> None:
    with pytest.raises(ValueError, match="a trace needs the strategy 'timed', got 'late'"):
        linear_norm().run(trace=True, strategy="late")
    assert linear_norm().run(strategy="timed").spans == ()
    assert simulator.STRATEGIES["timed"](0).name == "timed"
