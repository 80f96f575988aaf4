"""The strategy that keeps time: a discrete-event run with the cost model, whose spans are a timeline of the modelled GPU."""

import heapq
from typing import Any

from cute_kernels.plan import Plan
from cute_kernels.simulator.cost import KINDS, READ_LATENCY, UNIT_KINDS, WAKE, Cost
from cute_kernels.simulator.engine import Worker
from cute_kernels.simulator.events import Events
from cute_kernels.simulator.observers.timeline import Span
from cute_kernels.simulator.strategies import RoundRobin


class Timed(RoundRobin):
    """Whatever is due first. Verbs take their worker's time, operations their unit's; ties go to who came first."""

    name = "timed"

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.now, self.count = 0.0, 0
        self.due: list[tuple[float, int, Any]] = []
        self.blocked: dict[Worker, float] = {}
        self.seen: set[Any] = set()
        self.memory_free: dict[int, float] = {}  # by cluster

    def begin(self, plan: Plan, events: Events) -> None:
        self.cost, self.events = Cost.of(plan), events

    def clusters_at_once(self, plan: Plan) -> int:
        return max(1, plan.target.sms * plan.ctas_an_sm // plan.cluster)

    def push(self, time: float, item: Any) -> None:
        self.count += 1
        heapq.heappush(self.due, (time, self.count, item))

    def add(self, item: Any) -> None:
        """A worker that something has woken, or an operation that its unit may begin."""
        if isinstance(item, Worker):
            end = self.now + (WAKE * self.cost.ns_a_cycle if item.waiting else 0.0)
            if item.waiting:
                on = item.waiting[0]
                self.events.span(Span(item.name, "wait", self.blocked.pop(item), end, "wait", on.label))
            self.push(end, item)
        else:
            self.begin_operation(item)

    def begin_operation(self, item: Any) -> None:
        """From when the unit is free. What no other has read yet comes from HBM, and what is stored goes there, in the cluster's
        share; a store does not wait for that."""
        unit, kind = item.unit, item.unit.kind
        cached = item.box in self.seen
        self.seen.add(item.box)
        start = max(self.now, unit.free_at)
        unit.free_at = end = start + self.cost.busy(kind, item.amount)
        if kind == "TMA store" or (kind == "TMA" and not cached):
            streamed = self.stream(unit.cluster, start, item.amount)
            end = max(end, streamed) if kind == "TMA" else end
        end += self.cost.latency(kind, cached)
        self.push(end, item)
        if item.amount:
            self.events.span(Span(unit.track, item.name, start, end, UNIT_KINDS[kind], amount(item)))

    def stream(self, cluster: int, start: float, amount: int) -> float:
        """When so many bytes have passed between the cluster and HBM, behind those before them."""
        end = max(start, self.memory_free.get(cluster, 0.0)) + amount / self.cost.memory
        self.memory_free[cluster] = end
        return end

    def next(self) -> Any:
        if not self.due:
            return None
        self.now, _, item = heapq.heappop(self.due)
        return item

    def pause(self, worker: Worker, verb: str, work: int, moved: int) -> None:
        """The verb takes its time first, then its effect follows."""
        end = self.now + self.cost.verb(verb, work)
        if moved:
            streamed = self.stream(worker.cta.number // worker.cta.plan.cluster, self.now, moved)
            end = max(end, streamed + READ_LATENCY) if verb != "write" else end
        if verb != "wait":
            self.events.span(Span(worker.name, verb, self.now, end, KINDS.get(verb, "sync"), ""))
        self.push(end, worker)

    def blocks(self, worker: Worker) -> None:
        self.blocked[worker] = self.now


def amount(item: Any) -> str:
    """Bytes or FLOPs, in words."""
    return f"{item.amount} " + ("FLOP" if item.unit.kind == "tensor core" else "bytes")
