"""Who runs next: workers as coroutines, the hardware's own operations beside them, and the loop that a strategy steers.

Nothing is polled. A worker that must wait is put with what it waits for and comes back when that happens; what can go on
lies with the strategy, which hands it out one at a time. The order is a pure function of (strategy, seed).
"""

from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from types import FrameType
from typing import Any

from greenlet import getcurrent, greenlet

from cute_kernels.simulator.faults import Deadlock, program_line

SHOWN = 12  # waiting workers a deadlock's message has a paragraph for
UNITS = ("TMA", "tensor core", "DSMEM", "TMA store")


class Unit:
    """A piece of hardware that works on its own: a CTA's TMA, its tensor core, its way to the cluster's shared memory."""

    def __init__(self, cta: int, cluster: int, kind: str) -> None:
        self.kind, self.track, self.cluster = kind, f"CTA {cta} {kind}", cluster
        self.free_at = 0.0  # for a strategy that keeps time


class Operation:
    """One thing in flight on a unit, done whenever the strategy says so. For the cost model: `amount`, bytes or FLOPs, and
    the box of global memory it reads."""

    __slots__ = ("amount", "box", "name", "run", "unit")

    def __init__(self, unit: Unit, name: str, amount: int, run: Callable[[], None], box: Any = None) -> None:
        self.unit, self.name, self.amount, self.run, self.box = unit, name, amount, run, box

    @property
    def who(self) -> str:
        return self.unit.kind


class Queue:
    """Operations that one issuer has in flight on a unit and that finish in the order of issue.

    issued, done  operations so far
    settled       operations that the issuer knows to be done, because it has waited for them
    """

    box = None

    def __init__(self, engine: "Engine", unit: Unit, name: str) -> None:
        self.engine, self.unit, self.label = engine, unit, name
        self.issued = self.done = self.settled = 0
        self.operations: deque[tuple[Callable[[], None], str, int]] = deque()
        self.waiter: tuple[int, Any] | None = None

    @property
    def who(self) -> str:
        return self.unit.kind

    @property
    def name(self) -> str:
        return self.operations[0][1]

    @property
    def amount(self) -> int:
        return self.operations[0][2]

    def issue(self, run: Callable[[], None], name: str, amount: int) -> None:
        """Put an operation behind those in flight."""
        self.issued += 1
        self.operations.append((run, name, amount))
        if len(self.operations) == 1:
            self.engine.add(self)

    def run(self) -> None:
        """Do the first."""
        self.operations[0][0]()
        self.operations.popleft()
        self.done += 1
        if self.operations:
            self.engine.add(self)
        if self.waiter and self.waiter[0] <= self.done:
            worker, self.waiter = self.waiter[1], None
            self.engine.add(worker)

    def until(self, worker: "Worker", count: int) -> None:
        """Block the worker until `count` operations are done."""
        while self.done < count:
            self.waiter = count, worker
            worker.block(self, count)
        if self.settled < count:
            self.settled = count

    def explain(self, count: int) -> str:
        """For a deadlock's message."""
        return f"operation {count} of {self.label} ({self.done} of {self.issued} done)"


class Worker:
    """One member of a role in one CTA: a coroutine that runs the role's program."""

    def __init__(self, engine: "Engine", cta: Any, role: Any, member: int) -> None:
        self.engine, self.cta, self.role, self.member = engine, cta, role, member
        self.who = role.name
        self.name = f"CTA {cta.number} {role.name}" + (f" {member}" if role.members > 1 else "")
        self.steps = self.limit = 0
        self.waiting: tuple[Any, int] | None = None
        self.queues: list[Queue] = []
        self.registers = 0  # of a thread, in live fragments

    def start(self, live: Callable[[], None]) -> None:
        """Make the coroutine; it runs when the strategy first picks it."""
        self.greenlet = greenlet(live, self.engine.loop)
        self.greenlet.gr_context = copy_context()  # NumPy keeps there which floating-point warnings are off
        self.resume = self.greenlet.switch

    @property
    def frame(self) -> FrameType | None:
        """Where it stands, while it does not run."""
        return self.greenlet.gr_frame

    def run(self) -> None:
        engine = self.engine
        engine.running = self
        self.limit = self.steps + engine.quantum() - 1  # the verb it stands in counts
        self.resume()
        engine.running = None

    def step(self, verb: str, work: int = 0, moved: int = 0) -> None:
        """The beginning of every verb: where the strategy may let others go first.

        For the cost model: `work`, elements a thread handles; `moved`, bytes it moves itself to or from global memory."""
        self.steps += 1
        if self.steps > self.limit:
            self.engine.pause(self, verb, work, moved)

    def block(self, on: Any, point: int) -> None:
        """Give way until whatever it waits on brings it back."""
        self.waiting = on, point
        self.engine.blocks(self)
        self.engine.switch()
        self.waiting = None


class Engine:
    """The loop. It knows workers, operations and the strategy, nothing of memory."""

    def __init__(self, strategy: Any) -> None:
        self.strategy, self.loop = strategy, getcurrent()
        self.add, self.quantum, self.blocks, self.switch = (
            strategy.add,
            strategy.quantum,
            strategy.blocks,
            self.loop.switch,
        )
        self.running: Worker | None = None
        self.workers: dict[Worker, None] = {}  # those that have not finished
        self.verbs = 0  # of those that have

    def begin(self, worker: Worker) -> None:
        """One more that must come to its end."""
        self.workers[worker] = None
        self.add(worker)

    def end(self, worker: Worker) -> None:
        """Its program has returned."""
        self.verbs += worker.steps
        del self.workers[worker]

    def pause(self, worker: Worker, verb: str, work: int, moved: int) -> None:
        """Let the strategy pick again before the verb."""
        self.strategy.pause(worker, verb, work, moved)
        self.switch()

    def run(self) -> None:
        """Until nothing is left to do; Deadlock if that leaves somebody waiting."""
        following = self.strategy.next
        while (item := following()) is not None:
            item.run()
        if self.workers:
            raise Deadlock(self.explain(list(self.workers)))

    def explain(self, blocked: list[Worker]) -> str:
        """Who waits for what, at which line, and who should have come."""
        lines = [f"deadlock: {len(blocked)} workers wait for ever ({self.strategy})"]
        for worker in blocked[:SHOWN]:
            on, point = worker.waiting or (None, 0)
            what = on.explain(point) if on else "nothing"
            lines.append(f"  {worker.name} at {program_line(worker.frame)}\n    waits for {what}")
        return "\n".join(lines + ([f"  and {len(blocked) - SHOWN} more"] if len(blocked) > SHOWN else []))
