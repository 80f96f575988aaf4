"""Named classes of flaws beyond a missing call: statements moved, counts and indices off by one, plans that miscount.

Each is put into a registered program or its plan. `faults` are those it may end with, one of them in every schedule;
`place` is what every message must show: the resource, and the program line where there is one.
"""

from dataclasses import dataclass, fields, replace
from functools import cache, partial
from typing import Any

from cute_kernels.linear_norm.plan import LinearNorm, blackwell, hopper
from cute_kernels.plan import SM90A, SM100A, Plan, Ring, Target
from cute_kernels.simulator.faults import (
    EarlyExit,
    MissingFence,
    NotWritten,
    OutOfBounds,
    OverlayClash,
    OverwriteBeforeArrival,
    OverwriteBeforeRelease,
    ReadBeforeArrival,
    ReleaseInFlight,
    StaleSlot,
    UninitialisedRead,
    UseAfterFree,
    WrittenTwice,
    WrongCount,
    WrongParity,
    WrongPhase,
)
from tests.simulator.kernels import TINY, Kernel, linear_norm, with_programs
from tests.simulator.mutation import Source
from tests.simulator.mutation_cases import DEADLOCK, ROWS, WRONG_RESULT, Make, Outcome, run_all


@dataclass(frozen=True)
class Flaw:
    """One class: how to make a kernel that has it, and how it must be found."""

    name: str
    make: Make
    faults: tuple[str, ...]
    place: str

    @property
    def outcome(self) -> Outcome:
        """How its runs end."""
        return outcome_of(self)


@cache
def outcome_of(flaw: Flaw) -> Outcome:
    return run_all(flaw.make)


def edited(target: Target, *edits: tuple[str, str, str], function: str = "") -> Make:
    """linear_norm with edits (role, old text, new text), each in the role's program or in the named helper of it."""

    def make() -> Kernel:
        kernel = linear_norm(ROWS, target=target)
        programs = {
            role: Source(kernel.plan.roles[role].program).edited(old, new, function) for role, old, new in edits
        }
        return replace(kernel, plan=with_programs(kernel.plan, **programs))

    return make


def moved(target: Target, role: str, first: str, second: str, function: str = "") -> Make:
    """linear_norm with two neighbouring statements, of a loop's depth as it stands in `first`, the other way round."""
    indent = " " * (len(first) - len(first.lstrip()))
    old, new = f"{first}\n{indent}{second}", f"{indent}{second}\n{first}"
    return edited(target, (role, old, new), function=function)


def miscounted(method: str, change: int, ring: str = "operands") -> Make:
    """linear_norm on Hopper, its plan's method off by `change` for a ring."""

    def altered(plan: Plan, of: Ring) -> Any:
        return getattr(Plan, method)(plan, of) + change * (of.name == ring)

    def make() -> Kernel:
        kernel = linear_norm(ROWS, target=SM90A)
        kind = type("Miscounted", (Plan,), {method: altered})
        return replace(kernel, plan=kind(**{f.name: getattr(kernel.plan, f.name) for f in fields(Plan)}))

    return make


def one_stage(target: Target) -> Make:
    """linear_norm with an operand ring of one stage, which `plan` itself refuses."""

    def make() -> Kernel:
        kernel = linear_norm(ROWS, target=target)
        build = {SM90A: hopper, SM100A: blackwell}[target]
        return replace(kernel, plan=build(LinearNorm(32, 32, "bfloat16", tiling=TINY), target, 1))

    return make


def overlaid(upper: str, lower: str) -> Make:
    """linear_norm on Hopper with one buffer laid over another, said to live at different times, which they do not."""

    def make() -> Kernel:
        kernel = linear_norm(ROWS, target=SM90A)
        changes: dict[str, dict[str, Any]] = {
            lower: {"live": ("mainloop",)},
            upper: {"live": ("epilogue",), "over": lower},
        }
        buffers = [replace(b, **changes.get(b.name, {})) for b in kernel.plan.memory.buffers]
        buffers.sort(key=lambda b: b.name == upper)  # after the one beneath
        return replace(kernel, plan=replace(kernel.plan, memory=replace(kernel.plan.memory, buffers=tuple(buffers))))

    return make


def in_turns(*epilogue: str) -> Make:
    """linear_norm on Blackwell with one stage of operands, its parts on their bytes: a tile's operands come when the last tile's parts
    have left. `epilogue` is what that role does to its staging when all parts are stored."""
    multiply = "            ring.release_after_mma(slot)\n            slot = ring.advance(slot)\n"
    publish = "        accumulators.publish_after_mma(turn)\n        turn = accumulators.advance(turn)\n"
    later = "turn = accumulators.advance(turn)\n        accumulators.acquire(turn)  # until this tile's parts have left"
    release = "ring.release_after_mma(slot)\n        slot = ring.advance(slot)"
    in_step = f"        accumulators.publish_after_mma(turn)\n        {later}\n        {release}\n"
    last = "        accumulators.release(turn)"

    def make() -> Kernel:
        tiling = replace(TINY, accumulators=1)
        problem = LinearNorm(tiling.depth, 16, "bfloat16", tiling=tiling)
        kernel = linear_norm(ROWS, problem.k, problem.n, target=SM100A, tiling=tiling)
        plan = blackwell(problem, SM100A, 1)
        lives: dict[str, dict[str, Any]] = {
            "x_tiles": {"live": ("mainloop",)},
            "parts": {"live": ("epilogue",), "over": "x_tiles"},
        }
        buffers = tuple(replace(b, **lives.get(b.name, {})) for b in plan.memory.buffers)
        programs = {
            "multiply": Source(plan.roles["multiply"].program).edited(multiply + publish, in_step),
            "epilogue": Source(plan.roles["epilogue"].program).edited(
                last, "\n".join([*(f"        {line}" for line in epilogue), last])
            ),
        }
        plan = replace(with_programs(plan, **programs), memory=replace(plan.memory, buffers=buffers))
        return replace(kernel, plan=plan)

    return make


def hopper_edit(role: str, old: str, new: str) -> Make:
    return edited(SM90A, (role, old, new))


def before_it(statement: str, more: str, function: str, indent: int = 4) -> Make:
    """linear_norm on Hopper with one more statement before another, in a helper of its multiply role."""
    old = " " * indent + statement + "\n"
    return edited(SM90A, ("multiply", old, " " * indent + more + "\n" + old), function=function)


WALK, SHORT_WALK = "range(ctx.first, ctx.tiles, ctx.step)", "range(ctx.first, ctx.tiles - 1, ctx.step)"
WAIT_AND_RELEASE = "product.wait(1)\n            ring.release(previous)"
RECEIVE_AND_ADD = "    first, *others = mail.receive(letter)\n    for other in others:\n        first = first + other"
MULTIPLY_INTO = "product.multiply(turn, slot, fresh=k == 0)"
LOAD = r"load\.py:\d+ in load"
MULTIPLY = r"forward_sm90\.py:\d+ in multiply"
BLACKWELL = r"forward_sm100\.py:\d+ in "
SUM = r"statistics\.py:\d+ in (received|sum_over_cluster), called from tile/statistics\.py"

FLAWS = (
    # Orders
    Flaw(
        "a stage released before the wait for the products that read it",
        moved(SM90A, "multiply", "            product.wait(1)", "ring.release(previous)"),
        (ReleaseInFlight.fault,), r"x_tiles\[0\].*" + MULTIPLY,
    ),
    Flaw(
        "one product more left in flight: `wait(2)`", hopper_edit("multiply", "product.wait(1)", "product.wait(2)"),
        (ReleaseInFlight.fault,), r"x_tiles\[0\].*" + MULTIPLY,
    ),
    Flaw(
        "the wrong stage released: the newest",
        hopper_edit("multiply", WAIT_AND_RELEASE, WAIT_AND_RELEASE.replace("previous", "slot")),
        (ReleaseInFlight.fault,), r"x_tiles\[1\].*" + MULTIPLY,
    ),
    Flaw(
        "a copy started before its stage is acquired",
        moved(SM90A, "load", "            ring.acquire(slot)", "ctx.load(ctx.x, ring, slot, index, k)"),
        (OverwriteBeforeArrival.fault, OverwriteBeforeRelease.fault), r"x_tiles\[0\].*" + LOAD,
    ),
    Flaw(
        "a letter sent before its slot is acquired",
        moved(SM90A, "multiply", "    mail.acquire(letter)", "mail.send(letter, rows)", "sum_over_cluster"),
        (OverwriteBeforeArrival.fault, OverwriteBeforeRelease.fault),
        r"letters\[0\] of multiply \d, letter of rank \d.*" + SUM,
    ),
    Flaw(
        "a stage filled without waiting for its readers",
        hopper_edit("load", "ring.acquire(slot)", "ring.announce(slot)"),
        (WrongCount.fault, OverwriteBeforeArrival.fault, OverwriteBeforeRelease.fault),
        r"(_tiles|operands)\[0\].*" + LOAD,
    ),
    Flaw(
        "a letter sent without waiting for its readers",
        edited(SM90A, ("multiply", "mail.acquire(letter)", "mail.announce(letter)"), function="sum_over_cluster"),
        (OverwriteBeforeArrival.fault, OverwriteBeforeRelease.fault),
        r"letters\[0\] of multiply \d, letter of rank \d.*" + SUM,
    ),
    Flaw(
        "a letter waited for before it is sent",
        before_it("mail.send(letter, rows)", "mail.wait(letter)", "sum_over_cluster"),
        (DEADLOCK,), SUM + r".*waits for mail of multiply 0\[0\] full of CTA 0",
    ),
    Flaw(
        "letters read before they are waited for",
        moved(SM90A, "multiply", "    mail.wait(letter)", "first, *others = mail.receive(letter)", "received"),
        (ReadBeforeArrival.fault, UninitialisedRead.fault), r"letters\[0\] of multiply \d, letter of rank \d.*" + SUM,
    ),
    Flaw(
        "letters read after their release",
        moved(SM100A, "epilogue", RECEIVE_AND_ADD, "mail.release(letter)", "received"),
        (StaleSlot.fault,), r"letters\[0\] of epilogue 0, letter of rank 0.*" + SUM,
    ),
    Flaw(
        "a part put before its buffer is acquired",
        before_it("ctx.staging.acquire()", "ctx.staging.put(part, z)", "store", indent=8),
        (OverwriteBeforeRelease.fault,), r"parts\[0\] of multiply \d.*" + MULTIPLY,
    ),
    Flaw(
        "a part stored before it is published",
        moved(SM90A, "multiply", "    staging.publish()", "staging.store(tensor, part, row, box(ctx, part))", "send"),
        (MissingFence.fault,), r"parts\[0\] of multiply \d.*" + MULTIPLY,
    ),
    Flaw(
        "a stage released before the products that read it are issued (stale slot)",
        moved(SM100A, "multiply", "            " + MULTIPLY_INTO, "ring.release_after_mma(slot)"),
        (StaleSlot.fault,), r"x_tiles\[0\].*" + BLACKWELL + "multiply",
    ),
    Flaw(
        "an accumulator released between its two reads",
        edited(SM100A, ("epilogue", "    norm.store(", "    ctx.accumulators.release(turn)\n    norm.store("), function="finish"),
        (StaleSlot.fault,), r"tmem\[0\].*" + BLACKWELL + "epilogue",
    ),
    Flaw(
        "tensor memory freed before the epilogue has read it",
        moved(SM100A, "multiply", "    accumulators.drain(turn)", "ctx.tmem.free()"),
        (UseAfterFree.fault,), r"tmem\[0\].*" + BLACKWELL + "multiply",
    ),
    # Slots and parities
    Flaw(
        "wrong parity: a drainer starts in phase 1",
        hopper_edit("multiply", "= ring.start(),", "= ring.start()._replace(phase=1),"),
        (WrongParity.fault,), r"operands\[0\] full.*" + MULTIPLY,
    ),
    Flaw(
        "wrong parity: the filler starts in phase 1",
        hopper_edit("load", "ring.start()", "ring.start()._replace(phase=1)"),
        (DEADLOCK,), LOAD + r".*waits for operands\[0\] empty of CTA 0",
    ),
    Flaw(
        "the phase never turns",
        edited(SM100A, ("multiply", "= ring.advance(slot)", "= ring.advance(slot)._replace(phase=0)")),
        (DEADLOCK, ReadBeforeArrival.fault), r"(x_tiles|operands)\[0\].*" + BLACKWELL + "multiply",
    ),
    Flaw(
        "a stage skipped by the filler",
        hopper_edit("load", "= ring.advance(slot)", "= ring.advance(ring.advance(slot))"),
        (DEADLOCK,), MULTIPLY + r".*waits for operands\[1\] full of CTA 0",
    ),
    Flaw(
        "the slot that a helper returns is dropped", hopper_edit("multiply", "letter = finish(", "finish("),
        (DEADLOCK, OverwriteBeforeArrival.fault), SUM,
    ),
    Flaw(
        "the next accumulator published in place of this one",
        moved(SM100A, "multiply", "        accumulators.publish_after_mma(turn)", "turn = accumulators.advance(turn)"),
        (DEADLOCK,), BLACKWELL + r"epilogue.*waits for accumulators\[0\] full",
    ),
    # Loops and indices
    Flaw(
        "lost tail: the products' loop one step short",
        hopper_edit("multiply", "range(1, ctx.plan.problem.steps)", "range(1, ctx.plan.problem.steps - 1)"),
        (DEADLOCK,), LOAD + r".*waits for operands\[\d\] empty of CTA 0",
    ),
    Flaw(
        "the copies' loop one step short", hopper_edit("load", "problem.steps", "problem.steps - 1"),
        (DEADLOCK,), MULTIPLY + r".*waits for operands\[\d\] full of CTA 0",
    ),
    Flaw(
        "the last tile left out by every role",
        edited(SM90A, ("load", WALK, SHORT_WALK), ("multiply", WALK, SHORT_WALK)),
        (NotWritten.fault,), r"256 of 2304 elements of y",
    ),
    Flaw(
        "early exit: one CTA of the cluster walks a tile less",
        edited(SM90A, *((role, WALK, WALK.replace("tiles", "tiles - ctx.rank")) for role in ("load", "multiply"))),
        (EarlyExit.fault,), r"of CTA 1 .*(" + SUM + "|at the end of its program)",
    ),
    Flaw(
        "copies of the next tile, beyond the last", hopper_edit("load", "slot, index, k", "slot, index + 1, k"),
        (OutOfBounds.fault,), r"box \(5, 0\) of x.*" + LOAD,
    ),
    Flaw(
        "every part stored to the same columns",
        edited(SM90A, ("multiply", "len(ctx.staging.parts) + part", "len(ctx.staging.parts) + 0"), function="box"),
        (WrittenTwice.fault,), r"y from \(\d, (0|16)\).*" + MULTIPLY,
    ),
    Flaw(
        "every part put into the first buffer", edited(SM90A, ("multiply", "put(part,", "put(0,"), function="send"),
        (OverwriteBeforeRelease.fault,), r"parts\[0\] of multiply \d.*" + MULTIPLY,
    ),
    Flaw(
        "no product fresh, in registers", hopper_edit("multiply", ", fresh=True", ""),
        (UninitialisedRead.fault,), "accumulator.*" + MULTIPLY,
    ),
    Flaw(
        "no product fresh, in tensor memory", edited(SM100A, ("multiply", "fresh=k == 0", "fresh=False")),
        (UninitialisedRead.fault,), r"tmem\[0\].*" + BLACKWELL + "multiply",
    ),
    # Plans
    Flaw(
        "a full barrier expects one arrival too many", miscounted("full_arrivals", 1),
        (DEADLOCK,), r"operands\[0\] full of CTA 0, phase 0 \(parity 0\): it lacks 1 of 2 arrivals",
    ),
    Flaw(
        "an empty barrier expects one arrival too many", miscounted("empty_arrivals", 1),
        (DEADLOCK,), r"operands\[0\] empty of CTA 0, phase 0 \(parity 0\): it lacks 1 of 9 arrivals",
    ),
    Flaw(
        "an empty barrier expects one arrival too few", miscounted("empty_arrivals", -1),
        (WrongCount.fault,), r"4 arrivals on operands\[0\] empty .*expects 3 more.*" + MULTIPLY,
    ),
    Flaw(
        "an empty barrier expects one member of two", miscounted("empty_arrivals", -4),
        (OverwriteBeforeRelease.fault, ReadBeforeArrival.fault, DEADLOCK), r"(_tiles|operands)\[\d\]",
    ),
    Flaw(
        "a mail's empty barrier expects one CTA of two", miscounted("empty_arrivals", -4, "mail"),
        (OverwriteBeforeRelease.fault, DEADLOCK), r"(letters|mail of multiply \d)\[\d\]",
    ),
    Flaw(
        "a copy's bytes announced too many", miscounted("stage_bytes", 256),
        (DEADLOCK,), r"operands\[0\] full of CTA 0, phase 0 \(parity 0\): it lacks 0 of 1 arrivals and 256 bytes",
    ),
    Flaw(
        "a copy's bytes announced too few", miscounted("stage_bytes", -256),
        (WrongPhase.fault, ReadBeforeArrival.fault, UninitialisedRead.fault), r"_tiles\[\d\].*\.py:\d+ in ",
    ),
    Flaw(
        "a letter's bytes announced too few", miscounted("stage_bytes", -32, "mail"),
        (WrongPhase.fault, ReadBeforeArrival.fault, UninitialisedRead.fault), r"letters\[\d\] of multiply.*" + SUM,
    ),
    Flaw(
        "a ring of one stage under a role that holds two", one_stage(SM90A),
        (DEADLOCK,), MULTIPLY + r".*waits for operands\[0\] full of CTA 0",
    ),
    Flaw(
        "parts laid over operands that are alive", overlaid("parts", "x_tiles"),
        (OverlayClash.fault,), r"parts\[0\] of multiply \d of CTA \d shares bytes with x_tiles\[\d\].*" + MULTIPLY,
    ),
    Flaw(
        "letters laid over operands that are alive", overlaid("letters", "weight_tiles"),
        (OverlayClash.fault,), r"letters\[0\] of multiply \d.* shares bytes with weight_tiles\[\d\].*" + SUM,
    ),
    Flaw(
        "parts laid over operands in turns, the last put without a fence before the next copy",
        in_turns("ctx.staging.drain()", "ctx.staging.put(0, ctx.tmem.read(turn, 0))"),
        (MissingFence.fault,), r"x_tiles\[0\] of CTA \d is overwritten asynchronously after ordinary stores to parts\[\d\].*" + LOAD,
    ),
    # What is in order and yet wrong: only the reference tells, observers judge when, not what
    Flaw(
        "every product fresh",
        edited(SM100A, ("multiply", "fresh=k == 0", "fresh=True")), (WRONG_RESULT,), "y of linear_norm",
    ),
    Flaw(
        "every loop over K one step short",
        edited(SM90A, *((role, "problem.steps", "problem.steps - 1") for role in ("load", "multiply"))),
        (WRONG_RESULT,), "y of linear_norm",
    ),
    Flaw(
        "the same rows of weight in every CTA",
        hopper_edit("load", "ctx.rank, k", "0, k"), (WRONG_RESULT,), "y of linear_norm",
    ),
    Flaw(
        "the same part put into every buffer",
        edited(SM90A, ("multiply", "ctx.part(accumulator, part)", "ctx.part(accumulator, 0)"), function="finish"),
        (WRONG_RESULT,), "y of linear_norm",
    ),
)  # fmt: skip

# What must go on working: rings as small as they may be, and so deep that they never turn.
CHANGES: dict[str, Any] = {"letters": 1, "staged": 1, "accumulators": 1, "stages_most": 32}
HARMLESS: dict[str, Make] = {
    "one stage of operands, sm_100a": one_stage(SM100A),
    "parts laid over operands in turns": in_turns("ctx.staging.drain()"),
    **{
        f"{name} {value}, {on.arch}": partial(linear_norm, ROWS, target=on, tiling=replace(TINY, **{name: value}))
        for on in (SM90A, SM100A)
        for name, value in CHANGES.items()
    },
}
