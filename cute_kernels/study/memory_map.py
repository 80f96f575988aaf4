"""What lives where in a CTA's shared and tensor memory, to scale: an overlay is two bars over the same bytes."""

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from cute_kernels.plan import Buffer, Fill, Plan, Region, TensorMemory
from cute_kernels.plan.memory import ALWAYS
from cute_kernels.study.markup import box, element, label, line, picture, svg_text

WIDTH = 1200
LEFT, RIGHT = 150, 20  # pixels beside the scale
ROW, BAR = 40, 18
KILO = 1024


@dataclass(frozen=True)
class Account:
    """Where the bytes of shared memory go. header + placed - shared + padding + free = target.smem_bytes."""

    header: int
    placed: int  # the sum of all buffers
    shared: int  # counted more than once in it, thanks to overlays
    padding: int  # holes left by alignment
    free: int


def account(plan: Plan) -> Account:
    """The bytes of `plan`, counted from its placement."""
    memory = plan.memory
    regions = sorted(memory.placement.values(), key=lambda r: r.offset)
    reached, padding, shared = memory.header, 0, 0
    for region in regions:
        padding += max(0, region.offset - reached)
        shared += max(0, min(reached, region.end) - region.offset)
        reached = max(reached, region.end)
    placed = sum(r.end - r.offset for r in regions)
    return Account(memory.header, placed, shared, padding, plan.target.smem_bytes - memory.bytes)


def memory_svg(plan: Plan) -> str:
    """A row for each buffer of shared memory, on one scale up to what the target has; then tensor memory, if any."""
    return svg_text(memory_picture(plan))


def memory_picture(plan: Plan) -> Element:
    """The same, to be put into a page."""
    drawn, y = draw_shared(plan, 14)
    if plan.memory.tensor_memory:
        tensor, y = draw_tensor(plan.memory.tensor_memory, plan.target.tmem_columns, y + 14)
        drawn += tensor
    return picture(WIDTH, y + 8, f"Memory of {plan.operator} on {plan.target.arch}", *drawn)


def draw_shared(plan: Plan, y: float) -> tuple[list[Element], float]:
    """The rows of shared memory, and where they end."""
    memory, sums, shown = plan.memory, account(plan), bytes_shown(plan)
    scale = (WIDTH - LEFT - RIGHT) / shown
    free_shown = min(sums.free, shown - memory.bytes)
    drawn = [
        *heading(y, "Shared memory", account_text(sums, plan.target.smem_bytes)),
        ruler(
            y + 30,
            y + 50 + ROW * (len(memory.buffers) + 2),
            shown,
            32 * KILO if shown > 64 * KILO else shown // 8,
            scale,
        ),
    ]
    y += 50
    drawn += row(y, "barriers", f"{memory.header} bytes")
    drawn.append(block(0, memory.header, y, scale, "sync", f"{memory.barriers} mbarriers, bytes 0 to {memory.header}"))
    for buffer in memory.buffers:
        y += ROW
        region = memory.placement[buffer.name]
        drawn += row(y, buffer.name, f"{region.end - region.offset:,} bytes")
        drawn += draw_buffer(buffer, region, y, scale, purpose(plan, buffer.name))
    y += ROW
    drawn += row(y, "free", f"{sums.free:,} bytes")
    drawn.append(block(memory.bytes, free_shown, y, scale, "free hollow", f"{sums.free:,} bytes free"))
    if free_shown < sums.free:
        drawn.append(
            beside(0, 0, y, f"drawn up to {shown:,} bytes of {plan.target.smem_bytes:,}, so that the rest can be seen")
        )
    return drawn, y + ROW


def bytes_shown(plan: Plan) -> int:
    """All that the target has, or no more than a power of two that holds the buffers where they are small."""
    shown = 128
    while shown < plan.memory.bytes:
        shown *= 2
    return shown if shown * 8 <= plan.target.smem_bytes else plan.target.smem_bytes


def purpose(plan: Plan, name: str) -> str:
    """A buffer's colour: the kind of span, in the timeline, that fills or empties it."""
    fills = {carried: ring.fill for ring in plan.rings for carried in ring.carries}
    if any(staging.buffer == name for staging in plan.stagings):
        return "store"
    kinds = {Fill.TMA: "copy", Fill.MAIL: "exchange", Fill.MMA: "mma"}
    return kinds.get(fills[name], "compute") if name in fills else "compute"


def draw_buffer(buffer: Buffer, region: Region, y: float, scale: float, colour: str) -> list[Element]:
    """A block for each stage, and what the buffer is beside them."""
    size, stages = region.stage_bytes, []
    for i, start in enumerate(range(region.offset, region.end, size)):
        title = f"{buffer.name}[{i}]\nbytes {start:,} to {start + size:,}"
        stages.append(block(start, size, y, scale, colour, title))
    return [*stages, beside(region.offset * scale, region.end * scale, y, describe(buffer, region))]


def describe(buffer: Buffer, region: Region) -> str:
    """Stages, shape and life of a buffer, in a line."""
    shape = " x ".join(map(str, buffer.shape))
    each = f" for each {buffer.each}" if region.count > buffer.stages else ""
    over = f", over {buffer.over}" if buffer.over else ""
    live = "" if buffer.live == ALWAYS else f", live in {', '.join(buffer.live)}"
    stages = f"{buffer.stages} stage{'s' * (buffer.stages != 1)}{each}"
    return f"{stages}: {shape} {buffer.dtype}, {region.stage_bytes:,} bytes a stage{over}{live}"


def draw_tensor(memory: TensorMemory, columns: int, y: float) -> tuple[list[Element], float]:
    """Tensor memory by columns: the accumulators' stages, what is allocated beyond them, what is free."""
    scale = (WIDTH - LEFT - RIGHT) / columns
    used, free = memory.columns * memory.stages, columns - memory.allocated
    text = (
        f"{used} columns of accumulators, {memory.allocated} allocated, {free} free of {columns}; 128 lanes of 32 bits"
    )
    drawn = [*heading(y, "Tensor memory", text), ruler(y + 30, y + 50 + ROW, columns, 64, scale)]
    y += 50
    drawn += row(y, memory.name, f"{used} columns")
    for i in range(memory.stages):
        title = f"{memory.name}[{i}]\ncolumns {i * memory.columns} to {(i + 1) * memory.columns}"
        drawn.append(block(i * memory.columns, memory.columns, y, scale, "mma", title))
    drawn.append(block(used, memory.allocated - used, y, scale, "wait hollow", "allocated in powers of two, not used"))
    drawn.append(block(memory.allocated, free, y, scale, "free hollow", f"{free} columns free"))
    drawn.append(beside(0, used * scale, y, f"{memory.stages} stages of {memory.columns} columns"))
    return drawn, y + ROW


def account_text(sums: Account, whole: int) -> str:
    """The sum that adds up to the whole of shared memory."""
    shared = f" - {sums.shared:,} shared by overlays" if sums.shared else ""
    return (
        f"{sums.header:,} barriers + {sums.placed:,} buffers{shared} + {sums.padding:,} alignment"
        f" + {sums.free:,} free = {whole:,} bytes a CTA may use"
    )


def heading(y: float, name: str, text: str) -> list[Element]:
    return [label(14, y + 12, name, "heading"), label(LEFT, y + 12, text, "quiet")]


def row(y: float, name: str, size: str) -> list[Element]:
    """What stands left of a row."""
    return [label(24, y + 9, name), label(24, y + 22, size, "small quiet")]


def block(start: int, size: int, y: float, scale: float, class_: str, title: str) -> Element:
    """A piece of memory, to scale; with a rim where that leaves something to see."""
    rim = " edge" if size * scale > 3 and "hollow" not in class_ else ""
    return box(LEFT + start * scale, y, size * scale, BAR, f"block {class_}{rim}", title)


def beside(start: float, end: float, y: float, text: str) -> Element:
    """A line of text under a bar, on the side that has room for it."""
    if start < (WIDTH - LEFT - RIGHT) / 2:
        return label(LEFT + start, y + BAR + 12, text, "small quiet")
    return label(LEFT + end, y + BAR + 12, text, "small quiet right")


def ruler(y: float, bottom: float, whole: int, step: int, scale: float) -> Element:
    """Round addresses above, and a line down from each."""
    drawn: list[Element] = []
    for mark in range(0, whole + 1, step):
        x, text = LEFT + mark * scale, f"{mark // KILO} KiB" if step >= KILO and mark else str(mark)
        drawn += [line(x, y + 4, x, bottom, "grid"), label(x, y, text, "small quiet centre")]
    return element("g", *drawn)
