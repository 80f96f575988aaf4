"""Reading a kernel's PTX for the tests: which instructions it has, in the order of its text, and the constants they name."""

import re

INSTRUCTIONS = {
    "initialise": r"mbarrier\.init",
    "initialisation fence": r"fence\.mbarrier_init\.release\.cluster",
    "cluster arrive": r"barrier\.cluster\.arrive",
    "cluster wait": r"barrier\.cluster\.wait",
    "wait": r"mbarrier\.try_wait",
    "announce": r"mbarrier\.arrive\.expect_tx",
    "arrive": r"mbarrier\.arrive\.shared\.b64",
    "arrive at peers": r"mbarrier\.arrive\.shared::cluster",
    "letter": r"st\.async\.shared::cluster\.mbarrier",
    "proxy fence": r"fence\.proxy\.async\.shared::cta",
    "meet": r"bar\.sync",
    "meet warp": r"bar\.warp\.sync",
    "store": r"cp\.async\.bulk\.tensor\.2d\.global",
    "commit store": r"cp\.async\.bulk\.commit_group",
    "allocate": r"tcgen05\.alloc\.",
    "permit others": r"tcgen05\.relinquish_alloc_permit",
    "product": r"tcgen05\.mma",
    "commit product": r"tcgen05\.commit",
    "read accumulator": r"tcgen05\.ld\.",
    "await reads": r"tcgen05\.wait::ld",
    "free": r"tcgen05\.dealloc",
    "fence before": r"tcgen05\.fence::before_thread_sync",
    "fence after": r"tcgen05\.fence::after_thread_sync",
    **{f"await stores but {n}": rf"cp\.async\.bulk\.wait_group\.read\s+{n};" for n in range(8)},
}


def order(ptx: str, *names: str) -> list[str]:
    """The instructions of these names, in the order of the text."""
    pattern = "|".join(f"({INSTRUCTIONS[name]})" for name in names)
    return [names[(found.lastindex or 1) - 1] for found in re.finditer(pattern, ptx)]


def before(events: list[str], name: str, count: int) -> list[list[str]]:
    """For each instruction of that name, the `count` before it."""
    return [events[max(0, i - count) : i] for i, event in enumerate(events) if event == name]


def barrier_counts(ptx: str) -> list[int]:
    """What each mbarrier is initialised with, by its place in shared memory."""
    found = re.findall(r"mbarrier\.init\.shared\.b64\s+\[%\w+(?:\+(\d+))?\], (\S+);", ptx)
    counts = {int(offset or 0) // 8: constant(ptx, count) for offset, count in found}
    assert len(counts) == len(found), "a barrier is initialised twice"
    return [counts[i] for i in range(len(counts))]


def meetings(ptx: str) -> list[tuple[int | None, int]]:
    """The named barriers that threads meet on, None where the number is found at run time, and how many threads each takes."""
    found = re.findall(r"bar\.sync\s+(\S+), (\S+);", ptx)
    return [(None if barrier.startswith("%") else int(barrier), constant(ptx, count)) for barrier, count in found]


def constant(ptx: str, operand: str) -> int:
    """An operand's value: a literal, or a register that is given one literal."""
    if not operand.startswith("%"):
        return int(operand)
    (value,) = re.findall(rf"mov\.b32\s+{operand}, (\d+);", ptx)
    return int(value)
