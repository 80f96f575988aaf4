"""Whether the parts of a plan fit each other: every name stands for something, and what two parts both say is the same.

Each check raises PlanError with one line. A plan that passes can be built, run and drawn.
"""

from typing import TYPE_CHECKING, Any

from cute_kernels.plan.ring import Drain, Fill, Ring
from cute_kernels.plan.roles import WARPGROUP
from cute_kernels.plan.types import PlanError, itemsize

if TYPE_CHECKING:
    from cute_kernels.plan.plan import Plan


def check(plan: "Plan") -> None:
    """All of them, those first that others rely on."""
    check_shape(plan)
    check_names(plan)
    plan.roles.check(plan.target)
    plan.memory.check(plan.target)
    check_members(plan)
    check_tensors(plan)
    for ring in plan.rings:
        check_ring(plan, ring)
    check_products(plan)
    check_stagings(plan)


def require(holds: bool, message: str) -> None:
    if not holds:
        raise PlanError(message)


def check_shape(plan: "Plan") -> None:
    most = plan.target.cluster_most
    require(plan.rows >= 1, f"{plan.rows} rows a tile; a tile has one at least")
    require(1 <= plan.cluster <= most, f"a cluster of {plan.cluster} CTAs; {plan.target.arch} takes {most}")
    require(plan.ctas_an_sm >= 1, f"{plan.ctas_an_sm} CTAs an SM; an SM has one at least")
    require(plan.slices >= 1, f"{plan.slices} slices of a row; a row has one at least")
    alone = plan.cluster == 1 and not plan.persistent
    require(plan.slices == 1 or alone, f"{plan.slices} slices: their CTAs stand alone, a tile each")


def check_names(plan: "Plan") -> None:
    named: dict[str, tuple[Any, ...]] = {
        "buffers": plan.memory.buffers,
        "tensors": plan.tensors,
        "rings": plan.rings,
        "products": plan.products,
        "stagings": plan.stagings,
    }
    for kind, things in named.items():
        names = [thing.name for thing in things]
        require(len(set(names)) == len(names), f"two {kind} have one name: {', '.join(names)}")


def check_members(plan: "Plan") -> None:
    """Buffers that each member of a role has, in as many copies."""
    for buffer in plan.memory.buffers:
        if buffer.each:
            members = plan.roles[buffer.each].members
            require(plan.memory.copies(buffer) == members, f"{buffer.name}: {buffer.each} has {members} members")


def check_tensors(plan: "Plan") -> None:
    for tensor in plan.tensors:
        itemsize(tensor.dtype)
        require(not tensor.table or tensor.dtype == "float32", f"{tensor.name}: a table of {tensor.dtype}, not float32")
        if tensor.buffer:
            buffer = plan.memory[tensor.buffer]
            moved, kept = (tensor.box, tensor.dtype), (buffer.shape, buffer.dtype)
            require(moved == kept, f"{tensor.name} moves boxes of {moved}; a stage of {buffer.name} is {kept}")
        if tensor.shared:
            check_shared(plan, tensor)


def check_shared(plan: "Plan", tensor: Any) -> None:
    """A CTA's share is whole swizzle atoms of 8 rows, and a stage is free when all CTAs of the cluster say so."""
    height = tensor.box[0]
    require(
        height % (8 * plan.cluster) == 0, f"{tensor.name}: {height} rows in shares of 8, 16, … for {plan.cluster} CTAs"
    )
    for ring in plan.rings:
        if tensor.buffer in ring.carries:
            require(ring.drain is Drain.PEERS, f"{tensor.name} is shared, ring {ring.name} drained by one CTA")


def check_ring(plan: "Plan", ring: Ring) -> None:
    for name in (ring.filled_by, ring.drained_by, *filter(None, [ring.each])):
        require(
            name in plan.roles.names, f"ring {ring.name}: no role {name!r}; there are {', '.join(plan.roles.names)}"
        )
    require(ring.stages >= 0, f"ring {ring.name} has {ring.stages} stages")
    require(bool(ring.carries) or ring.fill is Fill.WARPS, f"ring {ring.name} carries nothing")
    for name in ring.carries:
        check_carried(plan, ring, name)
    multiply = {product.role for product in plan.products if product.into}
    for by_tensor_core, role in ((ring.fill is Fill.MMA, ring.filled_by), (ring.drain is Drain.MMA, ring.drained_by)):
        require(
            not by_tensor_core or role in multiply, f"ring {ring.name}: {role} issues no product into tensor memory"
        )


def check_carried(plan: "Plan", ring: Ring, name: str) -> None:
    """A stage of the ring is a stage of what it carries; a letter has a place for every CTA of the cluster."""
    if ring.fill is Fill.MMA:
        memory = plan.memory.accumulators
        require(name == memory.name, f"ring {ring.name} carries {name!r}; tensor memory is {memory.name!r}")
        stages = memory.stages
    else:
        buffer = plan.memory[name]
        stages = buffer.stages
        owners = (ring.each or "the CTA", buffer.each or "the CTA")
        require(ring.each == buffer.each, f"ring {ring.name} is of {owners[0]}, its {name} of {owners[1]}")
        if ring.fill is Fill.MAIL:
            places = buffer.shape[0]
            require(places == plan.cluster, f"{name} has places for {places} letters, the cluster {plan.cluster} CTAs")
    left_out = ring.stages == 0
    require(left_out or stages == ring.stages, f"ring {ring.name} has {ring.stages} stages, {name} has {stages}")


def check_products(plan: "Plan") -> None:
    for product in plan.products:
        role, a, b = plan.roles[product.role], plan.memory[product.a], plan.memory[product.b]
        rows, columns, depth = product.tile
        height = rows if any(ring.in_turn and a.name in ring.carries for ring in plan.rings) else rows * role.members
        operands, shapes = ((height, depth), (columns, depth)), (a.shape, b.shape)
        require(operands == shapes, f"{product.name} takes {operands}; stages of {a.name} and {b.name} are {shapes}")
        first = plan.roles.first_warp(role.name)
        whole = bool(product.into) or (role.warps == WARPGROUP and first % WARPGROUP == 0)
        require(
            whole, f"{product.name}: {role.name} has {role.warps} warps from {first} on; wgmma takes whole warpgroups"
        )
        if product.into:
            memory = plan.memory.accumulators
            require(product.into == memory.name, f"{product.name} goes into {product.into!r}, not {memory.name!r}")


def check_stagings(plan: "Plan") -> None:
    for staging in plan.stagings:
        role, buffer = plan.roles[staging.role], plan.memory[staging.buffer]
        owner = buffer.each or "the CTA"
        require(owner == role.name, f"{staging.name} is of {role.name}, its {buffer.name} of {owner}")
        whole = staging.parts % buffer.stages == 0
        require(whole, f"{staging.name}: {staging.parts} parts are no multiple of its buffer's stages\n{plan.memory}")
