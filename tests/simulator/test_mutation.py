"""The mutation test: each call that orders accesses is taken out of each program, and the simulator must say so."""

import re
from typing import Any

import pytest

from cute_kernels.tile import statistics
from tests.simulator.mutation import ORDERING, Source
from tests.simulator.mutation_cases import (
    EQUIVALENT,
    KERNELS,
    ONLY_BY_RESULT,
    PROGRAMS,
    RIGHT,
    SCHEDULES,
    WRONG_RESULT,
    Mutant,
    end_of,
    mutants,
    outcome,
    programs_of,
    replaced,
    run_all,
)
from tests.simulator.mutation_classes import FLAWS, HARMLESS, Flaw
from tests.simulator.mutation_table import COMMAND, README, with_tables
from tests.simulator.test_vocabulary import PAIRS, verbs

# Verbs that move or make values. Every other verb of the vocabulary orders, and is taken away.
MOVING = {*"bind start send receive accumulator multiply read read_columns read_rows load put".split()}  # noqa: SIM905
MOVING |= {*"store write write_columns write_rows prefetch part row_sum row_sums add_columns apply".split()}  # noqa: SIM905
MOVING |= {
    *[
        "zero_rows",
        "zero_columns",
        "rsqrt",
        "read_table",
        "write_table",
        "combine",
        "reciprocal",
        "exp",
        "maximum",
        "read_stage",
        "write_accumulator",
    ]
}


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: ": ".join(mutant.key))
def test_a_missing_call_is_caught_or_known_to_be_equivalent(mutant: Mutant) -> None:
    result = outcome(mutant)
    if mutant.key in EQUIVALENT:
        assert not result.caught, f"listed as equivalent, but found: {result.messages[0]}"
        return
    assert result.caught, f"{mutant.key}: no run noticed; is it equivalent, not exercised, or does an observer miss it?"
    if mutant.key not in ONLY_BY_RESULT:
        assert WRONG_RESULT not in result.faults, "the numbers are wrong and no observer said why"
        assert all(re.search(r"\.py:\d+ in \w+|at the end of", message) for message in result.messages)


def test_every_equivalent_mutant_exists() -> None:
    assert {*EQUIVALENT, *ONLY_BY_RESULT} <= {mutant.key for mutant in mutants()}


def test_every_program_is_run_by_some_kernel() -> None:
    roles = {name for makers in KERNELS.values() for name in programs_of(makers[0]().plan)}
    reached = {function for name in roles for function in Source(PROGRAMS[name]).functions}
    assert set(PROGRAMS) <= reached, "put a kernel that runs it into mutation_cases.KERNELS"


def test_every_verb_orders_or_moves() -> None:
    """A new verb must be put on one of the two lists."""
    named = {verb for protocol, _ in PAIRS for verb, _ in verbs(protocol)}
    assert named == ORDERING | MOVING
    assert not ORDERING & MOVING


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_a_named_class_of_flaws(flaw: Flaw) -> None:
    """Found in every schedule, as one of the faults expected, with the place in every message."""
    result = flaw.outcome
    assert result.caught == result.runs
    assert set(result.faults) <= set(flaw.faults)
    for message in result.messages:
        assert re.search(flaw.place, message, re.DOTALL), message


@pytest.mark.parametrize("name", HARMLESS)
def test_what_must_go_on_working(name: str) -> None:
    assert run_all(HARMLESS[name]).messages == ()


# The mutants themselves


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_program_built_anew_without_a_change_is_right(kernel: str) -> None:
    for make in KERNELS[kernel]:
        for name in programs_of(make().plan):
            rebuilt = replaced(make, PROGRAMS[name], Source(PROGRAMS[name]).build({}))
            assert end_of(rebuilt, *SCHEDULES[0]) == (RIGHT, "")


def test_a_mutant_calls_the_altered_helper_and_leaves_the_original_alone() -> None:
    original = statistics.received
    source = Source(PROGRAMS["cute_kernels.norms.forward.normalise"])
    site = next(site for site in source.sites if site.text == "mail.wait(letter)")
    assert site.function == f"{original.__module__}.{original.__name__}"
    source.without(site)
    assert statistics.received is original
    assert end_of(KERNELS["norms, cluster of 3"][0](), *SCHEDULES[0]) == (RIGHT, "")


def two_waits(ctx: Any) -> None:
    slot = ctx.ring.start()
    for _ in range(2):
        ctx.ring.wait(slot)
        slot = ctx.ring.advance(slot)
    ctx.ring.wait(slot)


class Recorder:
    """A ring that notes what is asked of it."""

    def __init__(self) -> None:
        self.ring, self.calls = self, ""

    def start(self) -> int:
        return 0

    def advance(self, slot: int) -> int:
        return slot + 1

    def wait(self, slot: int) -> None:
        self.calls += f"wait {slot} "


@pytest.mark.parametrize(
    ("place", "text", "number", "calls"),
    [
        (0, "ctx.ring.wait(slot)", 1, "wait 2 "),
        (1, "slot = ctx.ring.advance(slot)", 1, "wait 0 wait 0 wait 0 "),
        (2, "ctx.ring.wait(slot)", 2, "wait 0 wait 1 "),
    ],
)
def test_a_mutant_lacks_one_call(place: int, text: str, number: int, calls: str) -> None:
    source, recorder = Source(two_waits), Recorder()
    site = source.sites[place]
    assert (site.text, site.number) == (text, number)
    source.without(site)(recorder)
    assert recorder.calls == calls


def test_an_edit_must_be_unmistakable() -> None:
    with pytest.raises(ValueError, match=r"'ring.wait\(slot\)' occurs 2 times in .*two_waits"):
        Source(two_waits).edited("ring.wait(slot)", "")


def keeps_what_wait_gives(ctx: Any) -> Any:
    return ctx.ring.wait(0)


def test_an_ordering_verb_gives_nothing() -> None:
    with pytest.raises(ValueError, match="so it stands alone"):
        _ = Source(keeps_what_wait_gives).sites


# The tables


def test_readme_has_the_tables_as_they_come_out_now() -> None:
    text = README.read_text(encoding="utf-8")
    assert text == with_tables(text), f"run {COMMAND}"
