"""Named classes of flaws beyond a missing call: statements moved, counts and indices off by one, plans that miscount or overlay.

Each is put into a registered program or its plan. `faults` are those it may end with, and it ends with one of them in every schedule;
`place` is what every message must show: the resource, and the program line where there is one.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from cute_kernels.linear_norm.plan import LinearNorm, blackwell, hopper
from cute_kernels.plan import SM90A, SM100A, Plan, Ring, Target
from cute_kernels.simulator.mutation import Source
from tests.simulator.kernels import TINY, Kernel, linear_norm, with_programs
from tests.simulator.mutation_cases import RIGHT, ROWS

Make = Callable[[], Kernel]


@dataclass(frozen=True)
class Flaw:
    """One class: how to make a kernel that has it, and how it must be found."""

    name: str
    make: Make
    faults: tuple[str, ...]
    place: str = ""


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
    """linear_norm on Hopper with one buffer laid over another, both said to live at different times, which they do not."""

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


WALK, SHORT_WALK = "range(ctx.first, ctx.tiles, ctx.step)", "range(ctx.first, ctx.tiles - 1, ctx.step)"
MULTIPLY = r"forward_sm90\.py:\d+ in multiply"

FLAWS = (
    Flaw(
        "a stage released before the wait for its products",
        moved(SM90A, "multiply", "            product.wait(1)", "ring.release(previous)"),
        (),
    ),
    Flaw(
        "a product more in flight than released for",
        edited(SM90A, ("multiply", "product.wait(1)", "product.wait(2)")),
        (),
    ),
    Flaw(
        "the stage in flight released",
        edited(
            SM90A,
            (
                "multiply",
                "product.wait(1)\n            ring.release(previous)",
                "product.wait(1)\n            ring.release(slot)",
            ),
        ),
        (),
    ),
    Flaw("no product fresh", edited(SM90A, ("multiply", ", fresh=True", "")), ()),
    Flaw("no product fresh 100", edited(SM100A, ("multiply", "fresh=k == 0", "fresh=False")), ()),
    Flaw(
        "a letter sent before its slot is acquired",
        moved(SM90A, "multiply", "    mail.acquire(letter)", "mail.send(letter, rows)", "sum_over_cluster"),
        (),
    ),
    Flaw(
        "letters read before they are waited for",
        moved(SM90A, "multiply", "    mail.wait(letter)", "first, *others = mail.receive(letter)", "sum_over_cluster"),
        (),
    ),
    Flaw(
        "a letter waited for before it is sent",
        moved(SM90A, "multiply", "    mail.send(letter, rows)", "mail.wait(letter)", "sum_over_cluster"),
        (),
    ),
    Flaw(
        "letters released before they are read",
        moved(
            SM100A,
            "epilogue",
            "    first, *others = mail.receive(letter)\n    for other in others:\n        first = first + other",
            "mail.release(letter)",
            "sum_over_cluster",
        ),
        (),
    ),
    Flaw(
        "a part stored before it is published",
        moved(
            SM90A,
            "multiply",
            "            staging.publish()",
            "staging.store(ctx.y, part, index * ctx.members + ctx.member, ctx.rank * len(staging.parts) + part)",
        ),
        (),
    ),
    Flaw(
        "a part put before acquire",
        moved(SM90A, "multiply", "            staging.acquire()", "staging.put(part, ctx.part(accumulator, part))"),
        (),
    ),
    Flaw(
        "wrong parity of a drainer",
        edited(SM90A, ("multiply", "= ring.start(),", "= ring.start()._replace(phase=1),")),
        (),
    ),
    Flaw("wrong parity of a filler", edited(SM90A, ("load", "ring.start()", "ring.start()._replace(phase=1)")), ()),
    Flaw(
        "a copy started before its stage is acquired",
        moved(SM90A, "load", "            ring.acquire(slot)", "ctx.load(ctx.x, ring, slot, index, k)"),
        (),
    ),
    Flaw("a stage skipped", edited(SM90A, ("load", "= ring.advance(slot)", "= ring.advance(ring.advance(slot))")), ()),
    Flaw(
        "lost tail: the products' loop one step short",
        edited(SM90A, ("multiply", "range(1, ctx.plan.problem.steps)", "range(1, ctx.plan.problem.steps - 1)")),
        (),
    ),
    Flaw("the copies' loop one step short", edited(SM90A, ("load", "problem.steps", "problem.steps - 1")), ()),
    Flaw("the last tile left out by multiply", edited(SM90A, ("multiply", WALK, SHORT_WALK)), ()),
    Flaw(
        "the last tile left out by all", edited(SM90A, ("load", WALK, SHORT_WALK), ("multiply", WALK, SHORT_WALK)), ()
    ),
    Flaw(
        "one CTA a tile less",
        edited(SM90A, *((r, WALK, WALK.replace("tiles", "tiles - ctx.rank")) for r in ("load", "multiply"))),
        (),
    ),
    Flaw("copies of the next tile", edited(SM90A, ("load", "slot, index, k", "slot, index + 1, k")), ()),
    Flaw("every part to the same columns", edited(SM90A, ("multiply", "+ part)", "+ 0)")), ()),
    Flaw(
        "parts staged in the first buffer, stored from their own",
        edited(SM90A, ("multiply", "put(part,", "put(0,")),
        (),
    ),
    Flaw(
        "a stage released before its products are issued",
        moved(
            SM100A, "multiply", "            product.multiply(turn, slot, fresh=k == 0)", "ring.release_after_mma(slot)"
        ),
        (),
    ),
    Flaw(
        "an accumulator released before it is read",
        edited(SM100A, ("epilogue", "        for part in", "        accumulators.release(turn)\n        for part in")),
        (),
    ),
    Flaw(
        "tensor memory freed before its last use",
        moved(SM100A, "multiply", "    accumulators.drain(turn)", "ctx.tmem.free()"),
        (),
    ),
    Flaw(
        "accumulator published before acquire?",
        edited(
            SM100A,
            (
                "multiply",
                "accumulators.publish_after_mma(turn)\n        turn = accumulators.advance(turn)",
                "turn = accumulators.advance(turn)\n        accumulators.publish_after_mma(turn)",
            ),
        ),
        (),
    ),
    Flaw("W every product fresh", edited(SM100A, ("multiply", "fresh=k == 0", "fresh=True")), ()),
    Flaw("W same weight", edited(SM90A, ("load", "ctx.rank, k", "0, k")), ()),
    Flaw(
        "W both k short",
        edited(
            SM90A, ("load", "problem.steps", "problem.steps - 1"), ("multiply", "problem.steps", "problem.steps - 1")
        ),
        (),
    ),
    Flaw("W same part", edited(SM90A, ("multiply", "ctx.part(accumulator, part)", "ctx.part(accumulator, 0)")), ()),
    Flaw("full +1", miscounted("full_arrivals", 1), ()),
    Flaw("empty +1", miscounted("empty_arrivals", 1), ()),
    Flaw("empty -1", miscounted("empty_arrivals", -1), ()),
    Flaw("empty -4", miscounted("empty_arrivals", -4), ()),
    Flaw("mail empty -4", miscounted("empty_arrivals", -4, "mail"), ()),
    Flaw("mail empty +4", miscounted("empty_arrivals", 4, "mail"), ()),
    Flaw("bytes + ", miscounted("stage_bytes", 256), ()),
    Flaw("bytes -", miscounted("stage_bytes", -256), ()),
    Flaw("mail bytes -", miscounted("stage_bytes", -32, "mail"), ()),
    Flaw("mail bytes +", miscounted("stage_bytes", 32, "mail"), ()),
    Flaw("one stage 90", one_stage(SM90A), ()),
    Flaw("one stage 100", one_stage(SM100A), (RIGHT,)),
    Flaw("parts over x_tiles", overlaid("parts", "x_tiles"), ()),
    Flaw("letters over w", overlaid("letters", "weight_tiles"), ()),
)
