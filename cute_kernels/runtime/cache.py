"""Compiled kernels on disk, so that a second process compiles nothing. Knows neither torch nor the DSL: keys, files, a bound.

A kernel is one file, named by its key and complete or absent: the shared library, then a line of facts about it, their length, and a
SHA-256 of all that. It is written under another name and renamed; whoever finds it corrupt takes it for missing and writes it anew.
Where nothing can be written, processes work from memory.

    CUTE_KERNELS_CACHE      the folder; unset, $XDG_CACHE_HOME/cute_kernels or else ~/.cache/cute_kernels. What is in the folder is
                            loaded as code: keep it to yourself
    CUTE_KERNELS_NO_CACHE   anything but "" or "0": no disk
"""

import contextlib
import dataclasses
import enum
import functools
import hashlib
import json
import os
import re
import sys
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from cute_kernels.plan import Plan

FORMAT = 1
# Kernels take 20-100 KB: thousands of configurations fit, more than any model has even after many edits, and no home folder notices.
LIMIT = 256 << 20
STALE = 3600  # seconds after which an unfinished file's writer is dead
PATIENCE = 60  # seconds to wait for another process that compiles the same kernel; a compile takes a few
PAUSE = 0.02
SUFFIX, UNFINISHED, LOCK = ".so", ".tmp", ".lock"
OURS = re.compile(r"[0-9a-f]{64}(-\w+\.tmp|\.so|\.lock)")  # whatever else lies in the folder is left alone
LENGTH, DIGEST = 8, 32  # bytes
SHARED = ("plan", "tile", "device")  # parts of the package that every kernel's code depends on
IMPORTED = time.time()


@dataclasses.dataclass(frozen=True)
class Entry:
    """A kernel on disk. `used` is when it was last loaded, in seconds since 1970."""

    path: Path
    operator: str
    problem: str
    arch: str
    bytes: int
    used: float


def folder() -> Path | None:
    """Where kernels are kept; None where the cache is switched off or nobody has a home."""
    if os.environ.get("CUTE_KERNELS_NO_CACHE", "0") not in ("", "0"):
        return None
    named = os.environ.get("CUTE_KERNELS_CACHE") or f"{user_caches()}/cute_kernels"
    try:
        return Path(named).expanduser().absolute()
    except RuntimeError:
        return None


def user_caches() -> str:
    """Where programs of this user cache things: as the XDG base directories say, which count only if they are absolute."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    return named if os.path.isabs(named) else "~/.cache"


def key(plan: Plan, toolchain: Mapping[str, Any]) -> str:
    """Of everything that code depends on: sources, plan, and the toolchain's versions, flags and host. "" if that is not all known."""
    programs = [role.program for role in plan.roles]
    sources = [sources_of(program.__module__) for program in programs]
    if not all(sources) or any("<" in program.__qualname__ for program in programs):
        return ""
    facts = [FORMAT, sources, plain(plan), dict(toolchain)]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def plain(value: Any) -> Any:
    """A plan as JSON's types: every field that tells plans apart, functions and enumerations by name. Never an address."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.compare}
        return [qualified(type(value)), fields]
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return [qualified(type(value)), value.name]
    if callable(value):
        return qualified(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a plan is plain data; {value!r} has no canonical text")


def qualified(named: Any) -> str:
    """Module and name of a function or class."""
    return f"{named.__module__}.{named.__qualname__}"


@functools.lru_cache(maxsize=64)
def sources_of(module: str) -> str:
    """Digest of the code that a role program of `module` is compiled from: its folder, and the parts all kernels share.

    "" where that cannot be known: a program typed at a prompt, or a file edited since it was imported.
    """
    file = getattr(sys.modules[module], "__file__", None)
    if module == "__main__" or file is None:
        return ""
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for part in (Path(file).parent, *(package / name for name in SHARED)):
        for path in sorted(part.glob("*.py")):
            status = path.stat()
            if (
                max(status.st_mtime, status.st_ctime) > IMPORTED
            ):  # what unpacks a tree keeps its old times of modification
                warn(f"compiled kernels are neither kept nor looked for: {path} is newer than this process")
                return ""
            code = path.read_bytes()
            digest.update(f"{part.name}/{path.name} {len(code)}\n".encode() + code)
    return digest.hexdigest()


def find(key: str) -> Path | None:
    """The kernel's file, complete and fit for this CPU, marked as used now; None if there is none."""
    where = folder()
    if where is None:
        return None
    path = where / (key + SUFFIX)
    facts = verified(path)
    if facts is None or not set(facts["cpu"]) <= cpu():
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return path


def verified(path: Path) -> dict[str, Any] | None:
    """The facts in a kernel's file; None where it is missing or not what was written."""
    try:
        blob = path.read_bytes()
    except OSError:
        return None
    body, digest = blob[:-DIGEST], blob[-DIGEST:]
    return facts_of(body) if hashlib.sha256(body).digest() == digest else None


def facts_of(body: bytes) -> dict[str, Any]:
    """The facts behind the library."""
    end = len(body) - LENGTH
    return json.loads(body[end - int.from_bytes(body[end:], "little") : end])


def store(key: str, plan: Plan, library: bytes) -> Path | None:
    """Keep a compiled kernel, then the bound. Returns its file, or None, with one warning a process, where the disk takes nothing."""
    where = folder()
    if where is None:
        return None
    facts = {"operator": plan.operator, "problem": str(plan.problem), "arch": plan.target.arch, "cpu": sorted(cpu())}
    line = json.dumps(facts).encode()
    body = library + line + len(line).to_bytes(LENGTH, "little")
    path = where / (key + SUFFIX)
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(path, body + hashlib.sha256(body).digest())
    except OSError as error:
        warn(
            f"compiled kernels are not kept: {where}: {error.strerror or error}; CUTE_KERNELS_CACHE names another folder"
        )
        return None
    evict(where, path)
    return path


def write(path: Path, blob: bytes) -> None:
    """All of it under its name, or nothing."""
    unfinished = path.with_name(f"{path.stem}-{uuid.uuid4().hex}{UNFINISHED}")
    try:
        with open(unfinished, "xb") as file:
            file.write(blob)
        os.replace(unfinished, path)
    finally:
        remove(unfinished)


@functools.cache
def warn(message: str) -> None:
    """Say it once."""
    warnings.warn(f"cute_kernels: {message}", stacklevel=2)


def evict(where: Path, keep: Path) -> None:
    """Remove what dead writers left, and the kernels unused for longest, down to LIMIT bytes. Those in use elsewhere stay mapped."""
    total, files = 0, []
    for path, status in scan(where):
        if path.suffix == SUFFIX:
            total += status.st_size
            files.append((status.st_mtime, status.st_size, path))
        elif abandoned(status):
            remove(path)
    for _, size, path in sorted(files):
        if total <= LIMIT:
            break
        if path != keep:
            total -= size
            remove(path)


def abandoned(status: os.stat_result) -> bool:
    """Whether whoever wrote an unfinished file, or held a lock, is dead."""
    return time.time() - status.st_mtime > STALE


def scan(where: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The cache's own files, as far as they stay while one looks."""
    with contextlib.suppress(OSError):
        for path in filter(lambda path: OURS.fullmatch(path.name), sorted(where.iterdir())):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()


def remove(path: Path) -> bool:
    """Whether this call removed it."""
    with contextlib.suppress(OSError):
        path.unlink()
        return True
    return False


def entries() -> list[Entry]:
    """Every kernel on disk, the last used first; corrupt files are left out."""
    where = folder()
    found = []
    for path, status in scan(where) if where else ():
        if path.suffix == SUFFIX and (facts := verified(path)):
            operator, problem, arch = (facts[name] for name in ("operator", "problem", "arch"))
            found.append(Entry(path, operator, problem, arch, status.st_size, status.st_mtime))
    return sorted(found, key=lambda entry: -entry.used)


def clear() -> int:
    """Remove every kernel, and what dead writers left; live ones, and files that are not the cache's, are let be. How many kernels."""
    where, removed = folder(), 0
    for path, status in scan(where) if where else ():
        kept = path.suffix == SUFFIX
        if kept or abandoned(status):
            removed += remove(path) and kept
    return removed


@contextlib.contextmanager
def locked(key: str) -> Iterator[None]:
    """Alone with a key, so that processes started together compile once. Only a courtesy: where it fails, two compile the same."""
    where = folder()
    path = where / (key + LOCK) if where else None
    lock = acquire(path) if path else None
    try:
        yield
    finally:
        if path and lock:
            remove(path)
            lock.close()


def acquire(path: Path) -> IO[str] | None:
    """The file, locked; None where that cannot be had. The lock is the system's and dies with its holder."""
    try:
        import fcntl

        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = open(path, "w")  # noqa: SIM115, it outlives this function
    except (ImportError, OSError):
        return None
    for _ in range(int(PATIENCE / PAUSE)):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            time.sleep(PAUSE)
        except OSError:
            break
    file.close()
    return None


@functools.cache
def cpu() -> frozenset[str]:
    """Extensions of this CPU's instruction set: the host part of a kernel is compiled for the machine that compiles it."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith(("flags", "Features")):
                return frozenset(re.findall(r"\b(?:avx|bmi|fma|sve|asimd)\w*", line))
    return frozenset()
