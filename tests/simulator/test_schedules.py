"""Order must not matter, and the same seed must give the same order: many seeds, no false alarm, one result, replay."""

from typing import Any

import numpy as np
import pytest

from cute_kernels import simulator
from cute_kernels.simulator.strategies import Random, Starve
from tests.simulator.kernels import STANDARD, linear_norm
from tests.simulator.toys import flawed

SEEDS = 200


class Recorder:
    """Notes the order of some events."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def waited(self, worker: Any, barrier: Any) -> None:
        self.seen.append(f"{worker.name} passes {barrier.name}")

    def landed(self, barrier: Any, tile: Any) -> None:
        self.seen.append(f"{tile.name} arrives")


@pytest.mark.parametrize("strategy", ["random", "starve"])
@pytest.mark.parametrize("name", STANDARD)
def test_no_false_alarm_and_one_result(name: str, strategy: str) -> None:
    results = set()
    for seed in range(SEEDS // 2):
        kernel = STANDARD[name]()
        kernel.run(seed=seed, strategy=strategy)
        results.add(kernel.bits)
    kernel.check()
    assert len(results) == 1


@pytest.mark.parametrize("name", STANDARD)
def test_all_strategies_give_the_same_bits(name: str) -> None:
    results = set()
    for strategy in simulator.STRATEGIES:
        kernel = STANDARD[name]()
        kernel.run(strategy=strategy)
        results.add(kernel.bits)
    assert len(results) == 1


@pytest.mark.parametrize("strategy", simulator.STRATEGIES)
def test_a_run_is_replayed_from_strategy_and_seed(strategy: str) -> None:
    first, second = Recorder(), Recorder()
    for recorder in (first, second):
        linear_norm().run(seed=7, strategy=strategy, observers=[recorder])
    assert first.seen == second.seen
    assert len(first.seen) > 100


def test_seeds_give_different_orders() -> None:
    orders = set()
    for seed in range(5):
        recorder = Recorder()
        linear_norm().run(seed=seed, observers=[recorder])
        orders.add(tuple(recorder.seen))
    assert len(orders) == 5


def test_starving_draws_its_victim_from_roles_and_units() -> None:
    victims = set()
    for seed in range(40):
        strategy = Starve(seed)
        linear_norm(m=16, k=8).run(strategy=strategy)
        victims.add(strategy.victim)
    assert victims == {"load", "multiply", "TMA", "tensor core", "DSMEM", "TMA store"}


def test_a_strategy_may_be_an_object() -> None:
    report = linear_norm().run(strategy=Random(3))
    assert report.strategy == "strategy='random', seed=3"


def test_an_unknown_strategy_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown strategy 'fair': the simulator has random, round_robin"):
        linear_norm().run(strategy="fair")


def test_until_a_copy_arrives_its_destination_holds_the_old_bytes() -> None:
    """With nobody checking, a missing wait is a wrong result where copies are slow."""
    kernel = flawed("no wait, no release", m=16, k=16)
    kernel.run(strategy=Starve(victim="TMA"), observers=())
    assert np.isnan(kernel.arrays["y"].astype(np.float32)).any()
