"""Compiled kernels are kept by plan, and compiled once however many threads ask."""

import sys
import threading
import time
from types import ModuleType

import pytest

import cute_kernels
from cute_kernels.norms.plan import Norm, plan
from cute_kernels.plan import SM90A, Plan
from cute_kernels.runtime import launch


class CountingBackEnd(ModuleType):
    """A back end that takes its time and remembers what it compiled."""

    def __init__(self) -> None:
        super().__init__("cute_kernels.device")
        self.asked: list[Plan] = []

    def compile(self, plan: Plan) -> object:
        self.asked.append(plan)
        time.sleep(0.05)
        return object()


@pytest.fixture
def back_end(monkeypatch: pytest.MonkeyPatch) -> CountingBackEnd:
    counting = CountingBackEnd()
    monkeypatch.setitem(sys.modules, "cute_kernels.device", counting)
    monkeypatch.setattr(cute_kernels, "device", counting, raising=False)
    launch._compiled.cache_clear()
    return counting


def test_one_compile_a_plan(back_end: CountingBackEnd) -> None:
    first = launch.compiled(plan(Norm(64, "float32"), SM90A))
    assert launch.compiled(plan(Norm(64, "float32"), SM90A)) is first
    assert launch.compiled(plan(Norm(65, "float32"), SM90A)) is not first
    assert len(back_end.asked) == 2


def test_threads_that_ask_at_once_get_one_kernel(back_end: CountingBackEnd) -> None:
    wanted, got = plan(Norm(66, "float32"), SM90A), []
    threads = [threading.Thread(target=lambda: got.append(launch.compiled(wanted))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(back_end.asked) == 1
    assert len(set(map(id, got))) == 1
