"""The order of events as a policy. Each strategy holds what can go on, workers and operations alike, and hands one out.

A strategy has the methods of RoundRobin; quantum() is how many verbs a worker may run before the others are asked.
All are deterministic: the same seed gives the same run.
"""

import random
from collections import deque
from typing import Any

from cute_kernels.plan import Plan
from cute_kernels.simulator.engine import UNITS, Worker
from cute_kernels.simulator.events import Events


class RoundRobin:
    """First come, first served, one verb at a time."""

    name = "round_robin"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.items: deque[Any] = deque()

    def __str__(self) -> str:
        return f"strategy={self.name!r}, seed={self.seed}"

    def add(self, item: Any) -> None:
        self.items.append(item)

    def next(self) -> Any:
        return self.items.popleft() if self.items else None

    def quantum(self) -> int:
        return 1

    def pause(self, worker: Worker, verb: str, work: int, moved: int) -> None:
        self.add(worker)

    def blocks(self, worker: Worker) -> None:
        """The worker cannot go on."""

    def begin(self, plan: Plan, events: Events) -> None:
        """The run it is for."""

    def clusters_at_once(self, plan: Plan) -> int:
        """How many clusters the machine holds; 0 for whatever is handy."""
        return 0


class Random(RoundRobin):
    """Anything that can go on, drawn evenly; a worker goes on for one to eight verbs."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.ready: list[Any] = []
        self.draw = random.Random(seed).random

    def add(self, item: Any) -> None:
        self.ready.append(item)

    def next(self) -> Any:
        return take(self.ready, self.draw) if self.ready else None

    def quantum(self) -> int:
        return 1 + int(8 * self.draw())


class Starve(Random):
    """Like random, but one role or one unit of the hardware moves only when nothing else can. Which one: `victim`, or drawn
    from the seed."""

    name = "starve"

    def __init__(self, seed: int = 0, victim: str = "") -> None:
        super().__init__(seed)
        self.victim = victim
        self.starved: list[Any] = []

    def __str__(self) -> str:
        return f"{super().__str__()}, victim={self.victim!r}"

    def begin(self, plan: Plan, events: Events) -> None:
        names = [*UNITS, *(role.name for role in plan.roles)]
        self.victim = self.victim or names[int(self.draw() * len(names))]

    def add(self, item: Any) -> None:
        (self.starved if item.who == self.victim else self.ready).append(item)

    def next(self) -> Any:
        if self.ready:
            return take(self.ready, self.draw)
        return take(self.starved, self.draw) if self.starved else None


class Early(RoundRobin):
    """Operations finish the moment they are issued, before any worker goes on."""

    name = "early"

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.operations: deque[Any] = deque()

    def add(self, item: Any) -> None:
        (self.items if isinstance(item, Worker) else self.operations).append(item)

    def next(self) -> Any:
        return self.operations.popleft() if self.operations else super().next()


class Late(Early):
    """Operations finish only when no worker can go on, the latest issued first."""

    name = "late"

    def next(self) -> Any:
        if self.items:
            return self.items.popleft()
        return self.operations.pop() if self.operations else None


def take(items: list[Any], draw: Any) -> Any:
    """One of them, drawn; the last takes its place."""
    chosen = int(draw() * len(items))
    item = items[chosen]
    last = items.pop()
    if chosen < len(items):
        items[chosen] = last
    return item
