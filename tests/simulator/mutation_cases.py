"""The mutation test's cases: every ordering call of every program in every kernel that runs it, and the schedules.

The kernels are tiny, and one cluster walks all their tiles: every ring turns several times and the last tile is ragged.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from cute_kernels import simulator, tile
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.norms.plan import Norm, NormBackward
from cute_kernels.plan import SM90A, SM100A, Plan
from tests.simulator.kernels import (
    EVERY_GRADIENT,
    IN_TURN,
    SHARED,
    STANDARD,
    TINY,
    TINY_NORMED,
    TINY_PROJECT,
    Kernel,
    linear_norm,
    mhc_pre,
    mhc_project,
    norm,
    norm_backward,
    with_programs,
)
from tests.simulator.mutation import Site, Source, plain

Program = Callable[[Any], None]
Make = Callable[[], Kernel]

for _operator in OPERATORS.values():
    _operator.module("plan")  # defines the operator's programs
PROGRAMS: dict[str, Program] = {n: p for n, p in tile.PROGRAMS.items() if n.startswith("cute_kernels.")}

ROWS = 72  # four and a half tiles
KEPT: dict[str, Any] = {"norm": "layer", "return_z": True}  # letters in pairs, z on its way out before y
SMALLEST = replace(TINY, stages_most=2, staged=1, letters=1, accumulators=1)
KERNELS: dict[str, tuple[Make, ...]] = {
    "linear_norm, sm_90a": (
        lambda: linear_norm(ROWS, target=SM90A, **KEPT),
        lambda: linear_norm(ROWS, target=SM90A, tiling=SMALLEST, **KEPT),
    ),
    "linear_norm, sm_100a": (
        lambda: linear_norm(ROWS, target=SM100A, **KEPT),
        lambda: linear_norm(ROWS, target=SM100A, tiling=SMALLEST, **KEPT),
    ),
    "linear_norm in turn, sm_90a": (
        lambda: linear_norm(ROWS, tiling=IN_TURN, **KEPT),
        lambda: linear_norm(ROWS, tiling=replace(SMALLEST, turns=2, turn_rows=8), **KEPT),
    ),
    "linear_norm, x shared, sm_90a": (
        lambda: linear_norm(ROWS, tiling=SHARED, **KEPT),
        lambda: linear_norm(ROWS, tiling=replace(SMALLEST, multicast=True), **KEPT),
    ),
    "norms, cluster of 3": (
        lambda: norm(9, Norm(40, "bfloat16", "float32", row=16)),
        lambda: norm(9, Norm(40, "bfloat16", centre=True, row=16)),
    ),
    **{
        name: (STANDARD[name],)
        for name in STANDARD
        if name.startswith("mhc") and name not in ("mhc_pre_normed", "mhc_project")
    },
    "mhc_project, sm_90a": (lambda: mhc_project(40, TINY_PROJECT),),
    "mhc_pre_big_fuse_with_prenorm, cluster of 3": (lambda: mhc_pre(3, TINY_NORMED),),
    "norm_backward, cluster of 3": (
        lambda: norm_backward(300, NormBackward(40, "bfloat16", row=16, **EVERY_GRADIENT), at_once=1),
        lambda: norm_backward(300, NormBackward(40, "bfloat16", row=16, centre=True, dweight=True), at_once=1),
    ),
}
SCHEDULES = (
    ("round_robin", 0),
    ("early", 0),
    ("late", 0),
    *(("random", seed) for seed in range(3)),
    *(("starve", seed) for seed in range(4)),
)
DEADLOCK, WRONG_RESULT, RIGHT = "deadlock", "wrong result", ""


@dataclass(frozen=True)
class Mutant:
    """A kernel with one call taken out of one of its programs."""

    kernel: str
    program: str
    site: Site

    @property
    def label(self) -> str:
        """The call, with the helper it stands in, and which it is where the function has several of the same text."""
        number = f" #{self.site.number}" if self.site.number > 1 else ""
        helper = f" in {self.site.function.rpartition('.')[2]}" if self.site.function != self.program else ""
        return f"{self.site.text}{number}{helper}"

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kernel, self.program.removeprefix("cute_kernels."), self.label


# Mutants that no schedule can tell from the program, with the reason.
OUTLIVED = (
    "only this CTA's own multiply role reads and releases the stages, and it ends after it has waited for each "
    "of them, so the CTA outlives them. It matters where the tensor core releases (sm_100a) or a peer does"
)
EQUIVALENT = {
    ("linear_norm, sm_90a", "linear_norm.load.load", "ring.drain(slot)"): OUTLIVED,
    ("mhc_project, sm_90a", "hyper_connection.project_sm90.load", "ring.drain(slot)"): OUTLIVED,
    ("linear_norm, x shared, sm_90a", "linear_norm.load.load", "ring.drain(slot)"): (
        "the consumers of every CTA release their last stage before their last letter, for whose release this CTA's consumers wait"
    ),
    ("linear_norm in turn, sm_90a", "linear_norm.load.load_resident", "rows.drain(slot)"): OUTLIVED,
    ("linear_norm in turn, sm_90a", "linear_norm.load.load_resident", "weights.drain(held)"): OUTLIVED,
}

# Mutants of which the numbers tell in some runs what no observer does, with the reason.
ONLY_BY_RESULT = {
    (
        "linear_norm in turn, sm_90a",
        "linear_norm.forward_sm90.multiply_in_turn",
        "turn = turns.skip(turn, ctx.members)",
    ): (
        "a turn that has passed is taken for the next one: the member finds its stages full with another member's rows, all in order"
    ),
}


@dataclass(frozen=True)
class Outcome:
    """How a mutant's runs ended: which fault in how many, and all they said."""

    runs: int
    faults: Counter[str]
    messages: tuple[str, ...]

    @property
    def caught(self) -> int:
        """Runs that did not end as if nothing were wrong."""
        return sum(self.faults.values())


@cache
def mutants() -> tuple[Mutant, ...]:
    """All of them, in the order of the kernels, of their roles and of the text."""
    return tuple(
        Mutant(kernel, name, site)
        for kernel, makers in KERNELS.items()
        for name in programs_of(makers[0]().plan)
        for site in Source(PROGRAMS[name]).sites
    )


def programs_of(plan: Plan) -> list[str]:
    """The registered names of its roles' programs."""
    names = {program: name for name, program in PROGRAMS.items()}
    return [names[plain(role.program)] for role in plan.roles]


@cache
def outcome(mutant: Mutant) -> Outcome:
    """What becomes of a mutant in every form of its kernel and in every schedule."""
    program = PROGRAMS[mutant.program]
    altered = Source(program).without(mutant.site)
    return run_all(*(partial(replaced, make, program, altered) for make in KERNELS[mutant.kernel]))


def replaced(make: Make, program: Program, by: Program) -> Kernel:
    """A kernel with one program exchanged, in whatever role it plays."""
    kernel = make()
    roles = {role.name: by for role in kernel.plan.roles if plain(role.program) is program}
    return replace(kernel, plan=with_programs(kernel.plan, **roles))


def run_all(*makers: Make) -> Outcome:
    """Runs every kernel in every schedule."""
    ends = [end_of(make(), *schedule) for make in makers for schedule in SCHEDULES]
    faults = Counter(fault for fault, _ in ends if fault != RIGHT)
    return Outcome(len(ends), faults, tuple(message for fault, message in ends if fault != RIGHT))


def end_of(kernel: Kernel, strategy: str, seed: int) -> tuple[str, str]:
    """The fault that a run in one cluster ends with, and its message."""
    try:
        kernel.run(strategy=strategy, seed=seed, blocks=kernel.plan.blocks(kernel.m, 1))
        kernel.check()
    except simulator.Hazard as hazard:
        return hazard.fault, str(hazard)
    except simulator.Deadlock as deadlock:
        return DEADLOCK, str(deadlock)
    except AssertionError as error:
        return WRONG_RESULT, f"{WRONG_RESULT}: {error} of {kernel.plan.operator}"
    return RIGHT, ""
