"""Barriers, queues and tiles, one at a time."""

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cute_kernels.simulator.engine import Engine, Queue, Unit
from cute_kernels.simulator.events import NAMES, Events
from cute_kernels.simulator.faults import WrongCount
from cute_kernels.simulator.memory import Barrier, Tile
from cute_kernels.simulator.strategies import Late, RoundRobin


@pytest.fixture
def cta() -> Any:
    return SimpleNamespace(number=0, events=Events([]), engine=Engine(RoundRobin()))


def barrier(cta: Any, expected: int = 1) -> Barrier:
    return Barrier(cta, "b", expected, True, lambda: "nobody")


def test_a_phase_needs_all_arrivals_and_all_bytes(cta: Any) -> None:
    b = barrier(cta, 2)
    b.arrive("one", 1, announced=16)
    b.arrive("two", 1)
    assert b.phases == 0
    b.land(16)
    assert (b.phases, b.pending, b.bytes) == (1, 2, 0)


def test_bytes_may_come_before_they_are_announced(cta: Any) -> None:
    b = barrier(cta)
    b.land(16)
    assert (b.phases, b.bytes) == (0, -16)
    b.arrive("one", 1, announced=16)
    assert b.phases == 1


def test_a_fresh_barrier_has_passed_the_phase_before_its_first(cta: Any) -> None:
    worker = SimpleNamespace(block=lambda on, point: pytest.fail("blocked"))
    barrier(cta).until(worker, 1)


def test_arrivals_beyond_the_count(cta: Any) -> None:
    with pytest.raises(WrongCount, match="2 arrivals on b of CTA 0, which expects 1 more"):
        barrier(cta).arrive("one", 2)


def test_a_queue_finishes_in_order_whatever_the_strategy() -> None:
    engine, seen = Engine(Late()), []
    queue = Queue(engine, Unit(0, 0, "TMA"), "q")
    for i in range(5):
        queue.issue(lambda i=i: seen.append(i), "copy", 1)  # type: ignore[misc]
    engine.run()
    assert seen == [0, 1, 2, 3, 4]
    assert (queue.issued, queue.done, queue.settled) == (5, 5, 0)


def test_a_tile_rounds_to_its_type_and_forgets_what_it_derived(cta: Any) -> None:
    tile = Tile(cta, "t", np.zeros((1, 2), ml_dtypes.bfloat16))
    assert tile.values.tolist() == [[0, 0]]
    tile.fill(np.array([[1.0, 1.001]], np.float32))
    assert tile.values.tolist() == [[1, 1]]


def test_every_observer_hears_an_event_in_order() -> None:
    heard: list[str] = []
    listeners = [SimpleNamespace(left=lambda cta, i=i: heard.append(f"{i} {cta}")) for i in range(3)]
    for count in range(4):
        Events(listeners[:count]).left("gone")
    assert heard == ["0 gone", "0 gone", "1 gone", "0 gone", "1 gone", "2 gone"]
    assert len(set(NAMES)) == len(NAMES)
