"""Who hands what to whom: roles as lifelines, an arrow for each ring and for what comes from and goes to memory."""

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from cute_kernels.plan import Fill, Plan, Ring, Tensor
from cute_kernels.study.markup import box, element, label, line, picture, svg_text

WIDTH = 1200
TOP, ROW, BOX = 44, 44, 160
LOOP = 26  # pixels
SOURCE, SINK = "global memory, read", "global memory, written"
KINDS = {Fill.TMA: "copy", Fill.MAIL: "exchange", Fill.MMA: "mma", Fill.WARPS: "compute"}


@dataclass(frozen=True)
class Arrow:
    """From one lifeline to another; to itself where the others are its like in the CTAs of the cluster."""

    start: str
    end: str
    name: str
    detail: str
    kind: str


def flow_svg(plan: Plan) -> str:
    """The flow through a CTA, left to right."""
    return svg_text(flow_picture(plan))


def flow_picture(plan: Plan) -> Element:
    """The same, to be put into a page."""
    names = [SOURCE, *in_order(plan), SINK]
    found = sorted(arrows(plan), key=lambda arrow: (names.index(arrow.end), names.index(arrow.start)))
    at = {name: WIDTH * (i + 0.5) / len(names) for i, name in enumerate(names)}
    height = TOP + ROW * len(found) + 24
    drawn = [part for name in names for part in draw_lifeline(plan, name, at[name], height - 14)]
    for i, arrow in enumerate(found):
        drawn.append(draw_arrow(arrow, at, TOP + ROW * (i + 0.75)))
    return picture(WIDTH, height, f"Flow of {plan.operator} on {plan.target.arch}", *drawn)


def in_order(plan: Plan) -> list[str]:
    """Roles sorted so that rings lead to the right, as far as they can."""
    left = [role.name for role in plan.roles]
    order: list[str] = []
    while left:
        fed = {r.drained_by for r in plan.rings if r.filled_by in left and r.filled_by != r.drained_by}
        name = next((name for name in left if name not in fed), left[0])
        left.remove(name)
        order.append(name)
    return order


def arrows(plan: Plan) -> list[Arrow]:
    """Rings in use, and the tensors read and written."""
    found = [of_ring(plan, ring) for ring in plan.rings if ring.stages]
    ends: dict[tuple[str, bool, str], list[str]] = {}
    for tensor in plan.tensors:
        by = "by TMA" if tensor.buffer else "by the threads"
        ends.setdefault((mover(plan, tensor), tensor.output, by), []).append(tensor.name)
    for (role, output, by), names in ends.items():
        if role:
            start, end, kind = (role, SINK, "store") if output else (SOURCE, role, "copy")
            found.append(Arrow(start, end, ", ".join(names), by, kind))
    return found


def of_ring(plan: Plan, ring: Ring) -> Arrow:
    detail = f"{ring.stages} stage{'s' * (ring.stages != 1)} of {', '.join(ring.carries) or 'nothing: a signal'}"
    if ring.fill is Fill.MAIL:
        detail += f", between the {plan.cluster} CTAs of a cluster"
    return Arrow(ring.filled_by, ring.drained_by, ring.name, detail, KINDS[ring.fill])


def mover(plan: Plan, tensor: Tensor) -> str:
    """The role that moves a tensor: it fills the ring, or stages through the buffer; "" where the plan does not say."""
    for ring in plan.rings:
        if tensor.buffer in ring.carries:
            return ring.filled_by
    for staging in plan.stagings:
        if tensor.buffer == staging.buffer:
            return staging.role
    roles = [role.name for role in plan.roles]
    return roles[0] if len(roles) == 1 else ""


def draw_lifeline(plan: Plan, name: str, x: float, bottom: float) -> list[Element]:
    """A box with the role's size, and the line its arrows meet."""
    parts = [line(x, TOP, x, bottom, "rule"), box(x - BOX / 2, 10, BOX, TOP - 10, "free rim", rx=6)]
    if name in (SOURCE, SINK):
        return [*parts, label(x, 31, name, "quiet centre")]
    role = plan.roles[name]
    members = f"{role.members} x " if role.members > 1 else ""
    size = f"{members}{role.warps} warp{'s' * (role.warps != 1)}"
    return [*parts, label(x, 25, name, "heading centre"), label(x, 38, size, "small quiet centre")]


def draw_arrow(arrow: Arrow, at: dict[str, float], y: float) -> Element:
    """A shaft and a head, its name above and what it carries below; an arrow to itself is a loop."""
    start, end = at[arrow.start], at[arrow.end]
    title = element("title", f"{arrow.name}: {arrow.start} to {arrow.end}")
    if start == end:
        x, above, side = start + LOOP + 8, y - 2, ""
        shaft = [
            box(start, y - 10, LOOP, 2, arrow.kind),
            box(start + LOOP - 2, y - 10, 2, 18, arrow.kind),
            box(start + 6, y + 6, LOOP - 6, 2, arrow.kind),
        ]
        head = f"{start},{y + 7} {start + 8},{y + 3} {start + 8},{y + 11}"
    else:
        x, above, side = (start + end) / 2, y - 6, " centre"
        back = -8 if end > start else 8
        shaft = [box(min(start, end + back), y - 1, abs(end + back - start), 2, arrow.kind)]
        head = f"{end},{y} {end + back},{y - 4} {end + back},{y + 4}"
    texts = [label(x, above, arrow.name, f"strong{side}"), label(x, above + 19, arrow.detail, f"small quiet{side}")]
    return element("g", title, *shaft, element("polygon", points=head, class_=arrow.kind), *texts, class_="arrow")
