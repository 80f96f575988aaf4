"""One named fault at a time, in small programs: each is found in every schedule, and its message says what, who and where."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cute_kernels import simulator
from cute_kernels.linear_norm.forward_sm90 import multiply
from cute_kernels.plan import SM90A, PlanError
from cute_kernels.simulator import faults
from cute_kernels.simulator.rings import Mail, Ring
from tests.simulator.kernels import TINY, Kernel, linear_norm, with_programs
from tests.simulator.toys import blackwell, flawed, miscounted, overlaid, with_plan

STRATEGIES = ["random", "round_robin", "starve", "early", "late"]


def caught(make: Callable[[], Kernel], *expected: type[Exception]) -> list[str]:
    """The messages of runs in all strategies, each of which must end in one of the faults."""
    messages = []
    for strategy in STRATEGIES:
        for seed in range(3):
            with pytest.raises(expected) as raised:
                make().run(strategy=strategy, seed=seed)
            messages.append(str(raised.value))
    return messages


# What a stage handed back too early may show as: it depends on who comes first.
TOO_EARLY = (
    faults.OverwriteBeforeRelease,
    faults.OverwriteBeforeArrival,
    faults.ReadBeforeArrival,
    faults.StaleSlot,
    faults.LostTail,
    faults.WrongCount,
)
FLAWS: list[tuple[str, tuple[type[faults.Hazard], ...]]] = [
    ("no wait", (faults.ReadBeforeArrival, faults.UninitialisedRead)),
    ("wrong parity", (faults.WrongParity,)),
    ("no acquire", (faults.OverwriteBeforeArrival, faults.OverwriteBeforeRelease)),
    ("row out of bounds", (faults.OutOfBounds,)),
    ("column out of bounds", (faults.OutOfBounds,)),
    ("one copy too many", (faults.OverwriteBeforeArrival,)),
    ("one stage too many", (faults.LostTail, faults.EarlyExit)),
    ("early touch", (faults.UninitialisedRead,)),
    ("never fresh", (faults.UninitialisedRead,)),
    ("touch in flight", (faults.ProductInFlight,)),
    ("release in flight", (faults.ReleaseInFlight,)),
    ("stale slot", (faults.StaleSlot, faults.ReadBeforeArrival)),
    ("double release", (faults.DoubleRelease, *TOO_EARLY)),
    ("many accumulators", (faults.RegisterBudget,)),
    ("no publish", (faults.MissingFence,)),
    ("no staging drain", (faults.LostTail,)),
    ("parts not stored", (faults.NotWritten,)),
    ("same place", (faults.WrittenTwice,)),
]


@pytest.mark.parametrize(("flaw", "expected"), FLAWS, ids=[flaw for flaw, _ in FLAWS])
def test_hopper(flaw: str, expected: tuple[type[faults.Hazard], ...]) -> None:
    caught(lambda: flawed(flaw), *expected)


@pytest.mark.parametrize("seed", range(10))
def test_the_program_without_a_flaw_passes(seed: int) -> None:
    flawed("").run(seed=seed)
    blackwell("").run(seed=seed)


@pytest.mark.parametrize(
    ("flaw", "expected"),
    [
        ("not freed", (faults.TensorMemoryLeak,)),
        ("freed twice", (faults.DoubleFree,)),
        ("freed early", (faults.UseAfterFree,)),
        ("never fresh", (faults.UninitialisedRead,)),
        ("release at once", (faults.OverwriteBeforeRelease,)),
    ],
)
def test_blackwell(flaw: str, expected: tuple[type[faults.Hazard], ...]) -> None:
    caught(lambda: blackwell(flaw), *expected)


def test_too_few_arrivals_let_a_stage_go_early() -> None:
    """With half the arrivals the first of two members releases the stage for both."""
    caught(lambda: miscounted(flawed(""), arrivals=-4), *TOO_EARLY, simulator.Deadlock)


def test_arrivals_beyond_the_count() -> None:
    caught(lambda: miscounted(flawed(""), arrivals=-7), faults.WrongCount)


def test_fewer_bytes_announced_than_copied() -> None:
    """The first of two copies completes the stage; the other's bytes land in the next phase."""
    caught(lambda: miscounted(flawed(""), announced=-256), faults.WrongPhase, faults.UninitialisedRead, *TOO_EARLY)


def test_a_cta_that_leaves_while_peers_may_reach_it() -> None:
    """The norm over a cluster, without the last wait for its peers' releases: found even when they come in time."""

    def undrained(ctx: Any) -> None:
        ctx.mail.drain = lambda slot: None
        multiply(ctx)

    def make() -> Kernel:
        kernel = linear_norm()
        return with_plan(kernel, with_programs(kernel.plan, multiply=undrained))

    messages = caught(make, faults.EarlyExit)
    assert all("mail of multiply" in message for message in messages)


def test_an_overlay_is_right_in_disjoint_lifetimes() -> None:
    for seed in range(10):
        kernel = overlaid(m=16)
        kernel.run(seed=seed)
        kernel.check()


def test_letters_overwritten_after_loads_without_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mail, "release", Ring.release)
    with pytest.raises(faults.MissingFence, match="overwritten asynchronously after ordinary loads"):
        linear_norm(m=200).run()


def test_an_overlay_used_in_both_lifetimes_at_once() -> None:
    caught(lambda: overlaid(m=100), faults.OverlayClash)


def test_over_the_memory_budget_is_the_plan_s_own_error() -> None:
    with pytest.raises(PlanError, match="bytes of shared memory"):
        linear_norm(n=256, tiling=replace(TINY, rows=4096, columns_most=256, depth=64), target=SM90A)


def test_a_message_names_fault_place_worker_and_line() -> None:
    with pytest.raises(simulator.Hazard) as raised:
        flawed("no publish").run(strategy="round_robin")
    message = str(raised.value)
    assert message.startswith("missing fence")
    assert message.endswith("(strategy='round_robin', seed=0)")
    assert re.search(r"parts\[0\] of multiply (\d) of CTA 0 is read by .* CTA 0 multiply \1 at ", message)
    assert "toys.py:" in message
    assert "in store, called from " in message


def test_without_observers_nothing_is_checked() -> None:
    flawed("no publish").run(observers=())


@pytest.mark.parametrize("name", [name for name in vars(faults) if isinstance(getattr(faults, name), type)])
def test_every_fault_is_a_hazard_with_a_name_of_its_own(name: str) -> None:
    fault = getattr(faults, name)
    if issubclass(fault, faults.Hazard) and fault is not faults.Hazard:
        assert fault.fault != faults.Hazard.fault
