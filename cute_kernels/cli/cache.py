"""`cache`: the compiled kernels on disk, listed or removed."""

import time
from typing import Any

from cute_kernels.runtime import cache

MIB = 1 << 20
UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))  # of an age, and their seconds


def kernels() -> dict[str, Any]:
    """What `cache` shows: the folder, and each kernel with the seconds since it was last loaded."""
    now = time.time()
    return {
        "folder": place(),
        "limit": cache.LIMIT,
        "kernels": [
            {
                "operator": entry.operator,
                "problem": entry.problem,
                "arch": entry.arch,
                "bytes": entry.bytes,
                "age": max(0.0, now - entry.used),
            }
            for entry in cache.entries()
        ],
    }


def clear() -> dict[str, Any]:
    """What `cache --clear` shows: how many kernels it removed."""
    return {"folder": place(), "removed": cache.clear()}


def place() -> str:
    """The folder's name; "" where there is none."""
    return str(cache.folder() or "")


def describe(found: dict[str, Any]) -> str:
    """The same for people."""
    where = found["folder"] or "nowhere: the cache is switched off by CUTE_KERNELS_NO_CACHE, or there is no home folder"
    if "removed" in found:
        return f"{where}: {found['removed']} kernel(s) removed"
    rows = found["kernels"]
    total = sum(row["bytes"] for row in rows)
    head = f"{where}: {len(rows)} kernel(s), {total / MIB:.1f} MiB of at most {found['limit'] / MIB:.0f} MiB"
    lines = [
        f"{row['operator']:14} {row['arch']:8} {row['bytes'] / 1e3:6.0f} KB  used {age(row['age']):>6} ago  {row['problem']}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def age(seconds: float) -> str:
    """In the largest unit that fits."""
    unit, size = next((u for u in UNITS if seconds >= u[1]), UNITS[-1])
    return f"{seconds / size:.0f} {unit}"
