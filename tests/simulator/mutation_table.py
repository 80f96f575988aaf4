"""The mutation tables of the simulator's README, made from the runs themselves.

`python -m tests.simulator.mutation_table --write` writes them between the README's markers.
"""

import sys
from pathlib import Path

from cute_kernels import simulator
from tests.simulator.mutation_cases import EQUIVALENT, SCHEDULES, WRONG_RESULT, Mutant, Outcome, mutants, outcome
from tests.simulator.mutation_classes import FLAWS

README = Path(simulator.__file__).parent / "README.md"
BEGIN, END = "<!-- mutation table -->", "<!-- end of the mutation table -->"
COMMAND = "python -m tests.simulator.mutation_table --write"


def with_tables(text: str) -> str:
    """The README's text with the tables between the markers, whatever stands there now."""
    before, _, after = text.partition(BEGIN)
    _, _, after = after.rpartition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after or chr(10)}"


def tables() -> str:
    """Both tables, each with a few lines on what was run."""
    calls = [[f"`{m.key[1]}`", m.kernel, f"`{m.key[2]}`", m.site.verb, verdict(m)] for m in mutants()]
    flaws = [[flaw.name, caught(flaw.outcome)] for flaw in FLAWS]
    return "\n".join(
        [
            *about_calls(),
            "",
            *rows("program | kernel | call | verb | caught in how many runs, as what", calls),
            "",
            *about_flaws(),
            "",
            *rows("flaw | caught in how many runs, as what", flaws),
        ]
    )


def about_calls() -> list[str]:
    """What stands above the first table."""
    found = [outcome(mutant) for mutant in mutants()]
    noticed = sum(result.caught > 0 for result in found)
    return [
        f"Written by `{COMMAND}`; a test compares.",
        f"{len(found)} mutants in {sum(o.runs for o in found)} runs: {noticed} caught, {len(EQUIVALENT)} equivalent.",
        f"A mutant runs in {len(SCHEDULES)} schedules at tiny tiles, with rings of the usual size and of the smallest.",
        "Where an `advance` or a `skip` is taken away the slot stays as it is.",
    ]


def about_flaws() -> list[str]:
    """What stands above the second."""
    unseen = sum(WRONG_RESULT in flaw.outcome.faults for flaw in FLAWS)
    return [
        f"{len(FLAWS)} classes of flaws beyond a missing call, put into linear_norm, each found in every schedule.",
        f"The last {unseen} are in order and yet wrong: observers judge when bytes are touched, not what is computed,",
        "so only the comparison with the reference tells.",
    ]


def rows(head: str, body: list[list[str]]) -> list[str]:
    """A Markdown table."""
    rule = "|" + "---|" * len(head.split(" | "))
    return [f"| {head} |", rule, *(f"| {' | '.join(cells)} |" for cells in body)]


def verdict(mutant: Mutant) -> str:
    """The last cell of a missing call's row."""
    reason = EQUIVALENT.get(mutant.key)
    return f"equivalent: {reason}" if reason else caught(outcome(mutant))


def caught(result: Outcome) -> str:
    """How many runs, and the fault; each fault with its runs where there are several. Its name ends at the colon."""
    faults = sorted(result.faults.items(), key=lambda item: (-item[1], item[0]))
    several = len(faults) > 1
    names = (fault.partition(":")[0] + (f" ({count})" if several else "") for fault, count in faults)
    return f"{result.caught} of {result.runs}: {', '.join(names)}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: {COMMAND}")
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")
