"""One simulated launch: checks the tensors, builds the grid, lets the strategy run it, and reports what was counted."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from cute_kernels.plan import Plan
from cute_kernels.simulator import observers as checkers
from cute_kernels.simulator.context import Context
from cute_kernels.simulator.engine import Engine
from cute_kernels.simulator.events import Events
from cute_kernels.simulator.faults import Hazard
from cute_kernels.simulator.grid import Grid
from cute_kernels.simulator.memory import NUMPY, GlobalTensor
from cute_kernels.simulator.observers.timeline import Span, Timeline
from cute_kernels.simulator.observers.traffic import Traffic
from cute_kernels.simulator.strategies import Early, Late, Random, RoundRobin, Starve
from cute_kernels.simulator.timed import Timed

STRATEGIES: dict[str, Any] = {s.name: s for s in (Random, RoundRobin, Starve, Early, Late, Timed)}

CLUSTERS = 2  # that share the tiles of a persistent plan unless told otherwise: few, so that each walks several
AT_ONCE = 4  # clusters held in memory at once; they share nothing, so more would only cost room


@dataclass(frozen=True)
class Report:
    """What one run did. `seconds` is the simulation's own time; `nanoseconds` the modelled GPU's, with strategy "timed"."""

    verbs: int
    seconds: float
    bytes_read: int
    bytes_written: int
    dsmem_bytes: int
    mma_flops: int
    seed: int
    strategy: str
    blocks: int
    nanoseconds: float = 0.0
    spans: tuple[Span, ...] = ()


def run(
    plan: Plan,
    tensors: dict[str, Any],
    *,
    seed: int = 0,
    strategy: Any = None,
    blocks: int | None = None,
    observers: Any = checkers.ALL,
    trace: bool = False,
) -> Report:
    """Execute the plan's programs on NumPy arrays, outputs in place. Raises Hazard or Deadlock.

    strategy   a name of STRATEGIES or an object; "random" unless told, "timed" where a trace is wanted
    blocks     CTAs of the grid; two clusters unless told, which walk all tiles of a persistent plan
    observers  checkers, classes or objects; () for none
    trace      keep spans; only a strategy that keeps time has any
    """
    order = choose(strategy or ("timed" if trace else "random"), seed)
    traffic, timeline = Traffic(), Timeline()
    if trace and not hasattr(order, "now"):
        raise ValueError(f"a trace needs the strategy 'timed', got {order.name!r}")
    watching = [o() if isinstance(o, type) else o for o in observers]
    events = Events([*watching, traffic, *([timeline] if trace else [])])
    globals_, m = bind(plan, tensors)
    blocks = plan.blocks(m, CLUSTERS) if blocks is None else blocks
    if blocks % plan.sharing:
        raise ValueError(f"{blocks} blocks are not whole clusters of {plan.sharing}")
    engine = Engine(order)
    order.begin(plan, events)
    grid = Grid(plan, engine, events, globals_, Context)
    began = time.perf_counter()
    try:
        with np.errstate(all="ignore"):
            grid.launch(m, blocks, order.clusters_at_once(plan) or AT_ONCE)
            engine.run()
            events.finish(globals_)
    except Hazard as hazard:
        hazard.args = (f"{hazard} ({order})",)  # what it takes to see it again
        raise
    return Report(
        verbs=engine.verbs,
        seconds=time.perf_counter() - began,
        bytes_read=traffic.read,
        bytes_written=traffic.written,
        dsmem_bytes=traffic.dsmem,
        mma_flops=traffic.flops,
        seed=seed,
        strategy=str(order),
        blocks=blocks,
        nanoseconds=getattr(order, "now", 0.0),
        spans=tuple(timeline.spans),
    )


def choose(strategy: Any, seed: int) -> Any:
    """The strategy of that name, or the object itself."""
    if not isinstance(strategy, str):
        return strategy
    if strategy not in STRATEGIES:
        raise ValueError(f"unknown strategy {strategy!r}: the simulator has {', '.join(STRATEGIES)}")
    return STRATEGIES[strategy](seed)


def bind(plan: Plan, tensors: dict[str, Any]) -> tuple[dict[str, GlobalTensor], int]:
    """The plan's tensors on the caller's arrays, and the run-time extent "m". ValueError where they do not fit."""
    sizes: dict[str, int] = {}
    bound = {}
    for spec in plan.tensors:
        if spec.name not in tensors:
            raise ValueError(f"{plan.operator}: no array for tensor {spec.name!r}")
        array = tensors[spec.name]
        if array.dtype != NUMPY[spec.dtype]:
            raise ValueError(f"{plan.operator}: {spec.name} is {array.dtype}, the plan takes {spec.dtype}")
        wanted = tuple(
            sizes.setdefault(e, s) if isinstance(e, str) else e for e, s in zip(spec.extents, array.shape, strict=False)
        )
        if array.shape != wanted or len(array.shape) != len(spec.extents):
            raise ValueError(f"{plan.operator}: {spec.name} has shape {array.shape}, the plan takes {spec.extents}")
        bound[spec.name] = GlobalTensor(plan, spec, array)
    return bound, sizes.get("m", 0)
