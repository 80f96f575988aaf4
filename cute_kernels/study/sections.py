"""The parts of a page that come from the plan alone: the schedule in words, roles, rings, role programs."""

import inspect
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from cute_kernels.plan import Drain, Fill, Plan, Ring, Role
from cute_kernels.study.markup import element as e

FILLS = {
    Fill.TMA: "TMA, when all bytes have arrived",
    Fill.MAIL: "DSMEM, when the letters of all CTAs have arrived",
    Fill.MMA: "tensor core, when the products are done",
    Fill.WARPS: "the warps of one member, when they have got there",
}
DRAINS = {
    Drain.WARPS: "each warp says so",
    Drain.PEERS: "each warp in every CTA of the cluster says so",
    Drain.MMA: "tensor core, when it has read the stage",
}


def table(head: Sequence[str], rows: Sequence[Sequence[Element | str]]) -> Element:
    """An HTML table; cells that begin with a digit are set as numbers."""

    def cell(content: Element | str) -> Element:
        numeric = isinstance(content, str) and content[:1].isdigit()
        return e("td", content, class_="number") if numeric else e("td", content)

    body = [e("tr", *map(cell, row)) for row in rows]
    return e("div", e("table", e("thead", e("tr", *(e("th", h) for h in head))), e("tbody", *body)), class_="scroll")


def words(plan: Plan) -> list[Element]:
    """What the programs' modules say about themselves: it stands beside the code, so it is not told anew."""
    texts = dict.fromkeys(inspect.getdoc(inspect.getmodule(role.program)) or "" for role in plan.roles)
    return [e("h2", "The schedule in words"), *(e("pre", text) for text in texts if text)]


def roles_table(plan: Plan) -> list[Element]:
    rows = [role_row(plan, role) for role in plan.roles]
    idle = plan.roles.warps - sum(role.warps * role.members for role in plan.roles)
    text = (
        f"A role is a program that some of the CTA's {plan.roles.warps} warps run, each member on its own."
        f"{f' {idle} warps are idle: they fill up warpgroups.' if idle else ''}"
    )
    head = ("role", "warps", "members", "threads of a member", "registers a thread", "fills", "drains")
    return [e("h2", "Roles"), e("p", text), table(head, rows)]


def role_row(plan: Plan, role: Role) -> list[Element | str]:
    first = plan.roles.first_warp(role.name)
    last = first + role.warps * role.members - 1
    fills = ", ".join(r.name for r in plan.rings if r.stages and r.filled_by == role.name)
    drains = ", ".join(r.name for r in plan.rings if r.stages and r.drained_by == role.name)
    registers = "the launch's" if role.registers is None else str(role.registers)
    span = str(first) if first == last else f"{first} to {last}"
    return [role.name, span, str(role.members), str(role.threads), registers, fills, drains]


def rings_table(plan: Plan) -> list[Element]:
    """Rings in use; a ring of no stages is one that this plan leaves out."""
    used = [ring for ring in plan.rings if ring.stages]
    if not used:
        return []
    text = (
        "A ring hands stages from the role that fills them to the role that drains them. Each stage has two barriers: "
        "full (what was announced is there) and empty (its readers are done). The filler waits for empty, the drainer "
        "for full."
    )
    head = (
        "ring",
        "stages",
        "filled by",
        "full",
        "drained by",
        "empty",
        "size of a stage",
        "full arrivals",
        "empty arrivals",
    )
    return [e("h2", "Rings"), e("p", text), table((*head[:1], "carries", *head[1:]), [ring_row(plan, r) for r in used])]


def ring_row(plan: Plan, ring: Ring) -> list[Element | str]:
    owned = bool(ring.each) and plan.roles[ring.each].members > 1
    stages = f"{ring.stages} for each {ring.each}" if owned else str(ring.stages)
    tensor = plan.memory.tensor_memory if ring.fill is Fill.MMA else None
    return [
        ring.name,
        ", ".join(ring.carries) or "nothing",
        stages,
        ring.filled_by,
        FILLS[ring.fill],
        ring.drained_by,
        DRAINS[ring.drain],
        f"{tensor.columns} columns" if tensor else f"{plan.stage_bytes(ring):,} bytes",
        str(plan.full_arrivals(ring)),
        str(plan.empty_arrivals(ring)),
    ]


def programs(plan: Plan) -> list[Element]:
    """The role programs as they stand: the very functions that a GPU and the simulator run."""
    text = (
        "Each role runs one of these functions, the same on a GPU and in the simulator; the timeline shows their verbs."
    )
    sources = [
        e("details", e("summary", role.name), e("pre", inspect.getsource(inspect.unwrap(role.program))))
        for role in plan.roles
    ]
    return [e("h2", "Role programs"), e("p", text), *sources]
