"""The disk cache: what its keys depend on, what it survives, and that a second process compiles nothing."""

import copy
import dataclasses
import errno
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import cute_kernels
from cute_kernels.cli.catalogue import OPERATORS, Operator
from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.plan import SM90A, SM100A, Plan, Role, Roles
from cute_kernels.runtime import cache
from cute_kernels.runtime.simulate import Simulation
from cute_kernels.tile.jit import PROGRAMS
from tests.test_arrows import imports, inside, part_of

ROOT = Path(__file__).resolve().parents[2]
PLAN = plan(LinearNorm(64, 512, "bfloat16"), SM90A)  # a cluster of two: every kind of ring
TOOLCHAIN = {"dsl": "4.8.1", "tvm_ffi": "0.1", "toolkit": "cu13", "host": "Linux x86_64", "flags": {}}
KEY, OTHER = "a" * 64, "b" * 64
LIBRARY = b"\x7fELF, or so it says" * 100


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    where = tmp_path / "kernels"
    monkeypatch.setenv("CUTE_KERNELS_CACHE", str(where))
    cache.sources_of.cache_clear()
    cache.warn.cache_clear()
    yield where
    cache.sources_of.cache_clear()


def python(code: str, **environment: str) -> subprocess.Popen[str]:
    """A process of its own, GPUs hidden."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **environment}
    return subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True)


# -- keys ---------------------------------------------------------------------------------------------------------------


def key(plan: Plan = PLAN) -> str:
    return cache.key(plan, TOOLCHAIN)


def altered(value: Any, field: str) -> Any:
    """A copy of a frozen dataclass with another value in one field; no check runs."""
    other = copy.copy(value)
    object.__setattr__(other, field, ("another", value))
    return other


PARTS = (
    PLAN,
    PLAN.target,
    PLAN.problem,
    PLAN.problem.tiling,
    PLAN.memory,
    PLAN.memory.buffers[0],
    PLAN.roles.table[0],
    PLAN.tensors[0],
    PLAN.rings[0],
    PLAN.products[0],
    PLAN.stagings[0],
)
FIELDS = [(part, field) for part in PARTS for field in dataclasses.fields(part) if field.name != "roles"]


@pytest.mark.parametrize(("part", "field"), FIELDS, ids=lambda v: getattr(v, "name", type(v).__name__))
def test_every_field_that_tells_plans_apart_is_in_the_text(part: Any, field: dataclasses.Field) -> None:
    differs = json.dumps(cache.plain(part)) != json.dumps(cache.plain(altered(part, field.name)))
    assert differs == field.compare


@pytest.mark.parametrize(
    "other",
    [
        plan(LinearNorm(64, 512, "float16"), SM90A),
        plan(LinearNorm(64, 512, "bfloat16", eps=1e-5), SM90A),
        plan(LinearNorm(64, 512, "bfloat16"), SM100A),
        altered(PLAN, "rows"),
        dataclasses.replace(PLAN, tensors=(dataclasses.replace(PLAN.tensors[0], vector=4), *PLAN.tensors[1:])),
    ],
    ids=["dtype", "eps", "architecture", "rows", "alignment"],
)
def test_another_plan_is_another_key(other: Plan) -> None:
    assert key(other) != key()


@pytest.mark.parametrize("name", TOOLCHAIN)
def test_another_toolchain_is_another_key(name: str) -> None:
    assert cache.key(PLAN, {**TOOLCHAIN, name: "another"}) != key()


def test_the_reasons_a_plan_gives_are_not_in_its_key() -> None:
    assert key(dataclasses.replace(PLAN, why=("because",))) == key()


def test_keys_are_the_same_in_every_process() -> None:
    code = (
        "from tests.runtime.test_cache import PLAN, TOOLCHAIN; from cute_kernels.runtime import cache; "
        "print(cache.key(PLAN, TOOLCHAIN))"
    )
    found = [python(code, PYTHONHASHSEED=seed).communicate()[0].strip() for seed in ("1", "2")]
    assert found == [key(), key()]


@pytest.mark.parametrize("part", ["plan/ring.py", "tile/walk.py", "device/builder.py", "linear_norm/forward_sm90.py"])
def test_an_edited_source_is_another_key(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, read = key(), Path.read_bytes
    edited = ROOT / "cute_kernels" / part
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + (b"\n" if path == edited else b""))
    cache.sources_of.cache_clear()
    assert key() != before


def test_programs_import_nothing_that_is_not_in_the_key() -> None:
    assert all(operator.module("plan") for operator in OPERATORS.values())  # whose programs are registered from here on
    modules = {program.__module__ for program in PROGRAMS.values() if program.__module__.startswith("cute_kernels.")}
    assert len(modules) >= len(OPERATORS)
    for path in (Path(str(sys.modules[module].__file__)) for module in modules):
        assert inside(imports(path)) <= {part_of(path), *cache.SHARED}


@pytest.mark.parametrize("part", ["norms/forward.py", "simulator/run.py", "runtime/launch.py"])
def test_sources_of_other_things_are_not_in_the_key(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, read = key(), Path.read_bytes
    edited = ROOT / "cute_kernels" / part
    assert edited.exists()
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + (b"\n" if path == edited else b""))
    cache.sources_of.cache_clear()
    assert key() == before


def running(program: Any) -> Plan:
    """The plan with another first role program."""
    first, *rest = PLAN.roles.table
    return altered_roles(Roles((Role(first.name, program, first.warps, first.members, first.registers), *rest)))


def altered_roles(roles: Roles) -> Plan:
    other = copy.copy(PLAN)
    object.__setattr__(other, "roles", roles)
    return other


def test_a_program_by_another_name_is_another_key() -> None:
    assert key(running(PLAN.roles.table[1].program)) != key()


def test_a_program_without_a_name_of_its_own_has_no_key() -> None:
    assert key(running(lambda ctx: None)) == ""


def test_a_program_edited_since_it_was_imported_has_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "edited_program.py"
    source.write_text("def program(ctx):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    program = importlib.import_module("edited_program").program
    with monkeypatch.context() as later:
        later.setattr(cache, "IMPORTED", time.time() + 10)
        assert key(running(program))
    cache.sources_of.cache_clear()
    os.utime(
        source, (cache.IMPORTED - 10,) * 2
    )  # as what unpacks a tree does: the change of the file itself still tells
    with pytest.warns(UserWarning, match=r"edited_program\.py is newer"):
        assert key(running(program)) == ""


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda operator: operator.name)
def test_every_operator_s_plans_have_a_key(operator: Operator, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []
    monkeypatch.setattr(Simulation, "run", lambda self, plan, *rest: plans.append(plan))
    with cute_kernels.simulate(arch):
        operator.call(**operator.module("cases").inputs(operator.case()))
    assert plans
    assert all(map(key, plans))


def test_a_plan_holds_nothing_without_a_canonical_text() -> None:
    with pytest.raises(TypeError, match="no canonical text"):
        cache.plain(object())


# -- files --------------------------------------------------------------------------------------------------------------


def test_what_was_stored_is_found(folder: Path) -> None:
    assert cache.find(KEY) is None
    path = cache.store(KEY, PLAN, LIBRARY)
    assert path == cache.find(KEY) == folder / f"{KEY}.so"
    assert path.read_bytes().startswith(LIBRARY)
    assert [file.name for file in folder.iterdir()] == [path.name]
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:50], lambda b: b"", lambda b: b[:9] + b"?" + b[10:]])
def test_a_damaged_file_is_missing_and_written_anew(damage: Any) -> None:
    path = cache.store(KEY, PLAN, LIBRARY)
    assert path
    path.write_bytes(damage(path.read_bytes()))
    assert cache.find(KEY) is None
    assert cache.entries() == []
    cache.store(KEY, PLAN, LIBRARY)
    assert cache.find(KEY) == path


def test_a_kernel_for_another_cpu_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    has = cache.cpu()
    monkeypatch.setattr(cache, "cpu", lambda: has | {"avx1024"})
    cache.store(KEY, PLAN, LIBRARY)
    assert cache.find(KEY)
    monkeypatch.setattr(cache, "cpu", lambda: has)
    assert cache.find(KEY) is None


def test_a_killed_writer_leaves_nothing_that_is_read_and_no_lock(folder: Path) -> None:
    code = """
import os, signal
from cute_kernels.runtime import cache
from tests.runtime.test_cache import KEY, LIBRARY, PLAN
os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)
with cache.locked(KEY):
    cache.store(KEY, PLAN, LIBRARY)
"""
    assert python(code).wait() == -signal.SIGKILL
    assert {path.suffix for path in folder.iterdir()} == {".tmp", ".lock"}
    assert cache.find(KEY) is None
    start = time.monotonic()
    with cache.locked(KEY):
        assert cache.store(KEY, PLAN, LIBRARY)
    assert time.monotonic() - start < 5
    assert cache.find(KEY)


def test_leavings_of_dead_writers_go_those_of_live_ones_stay(folder: Path) -> None:
    folder.mkdir()
    old, new = folder / f"{KEY}-x1.tmp", folder / f"{KEY}-x2.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - cache.STALE - 1,) * 2)
    cache.store(OTHER, PLAN, LIBRARY)
    assert (old.exists(), new.exists()) == (False, True)


class FullDisk:
    """A file that takes nothing."""

    def __init__(self, path: Path, mode: str) -> None:
        self.number = os.open(path, os.O_CREAT | os.O_WRONLY)

    def __enter__(self) -> "FullDisk":
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.number)

    def write(self, blob: bytes) -> None:
        os.write(self.number, blob[:7])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_one_warning_and_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "open", FullDisk, raising=False)
    with pytest.warns(UserWarning, match="not kept.*No space left") as caught:
        stored = [cache.store(name, PLAN, LIBRARY) for name in (KEY, OTHER)]
    assert stored == [None, None]
    assert len(caught) == 1
    assert list(folder.iterdir()) == []


def test_a_read_only_folder_still_serves_what_it_has(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, PLAN, LIBRARY)

    def refuse(*arguments: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(cache, "open", refuse, raising=False)
    with pytest.warns(UserWarning, match="Read-only file system"):
        assert cache.store(OTHER, PLAN, LIBRARY) is None
    with cache.locked(OTHER):
        assert cache.find(KEY) == folder / f"{KEY}.so"


def test_a_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUTE_KERNELS_CACHE", str(tmp_path / "file" / "kernels"))
    with pytest.warns(UserWarning, match="Not a directory"), cache.locked(KEY):
        assert cache.store(KEY, PLAN, LIBRARY) is None
    assert cache.find(KEY) is None
    assert cache.entries() == []
    assert cache.clear() == 0


def test_the_kernels_unused_for_longest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, size = [letter * 64 for letter in "abcd"], 0
    for age, name in enumerate(keys[:3]):
        path = cache.store(name, PLAN, LIBRARY)
        assert path
        size = path.stat().st_size
        os.utime(path, (time.time() - 100 + age,) * 2)
    assert cache.find(keys[0])  # the oldest, but used now
    monkeypatch.setattr(cache, "LIMIT", 3 * size)
    cache.store(keys[3], PLAN, LIBRARY)
    assert [bool(cache.find(name)) for name in keys] == [True, False, True, True]
    monkeypatch.setattr(cache, "LIMIT", 0)
    cache.store(keys[1], PLAN, LIBRARY)
    assert [bool(cache.find(name)) for name in keys] == [False, True, False, False]


def test_listed_and_cleared_and_nothing_else_is_touched(folder: Path) -> None:
    for name in (KEY, OTHER):
        path = cache.store(name, PLAN, LIBRARY)
    assert path
    (folder / "mine.so").write_bytes(b"not a kernel")
    os.utime(folder / f"{KEY}.so", (1e9, 1e9))
    first, last = cache.entries()
    assert (first.path, last.path) == (path, folder / f"{KEY}.so")
    assert (last.operator, last.arch, last.problem) == ("linear_norm", "sm_90a", str(PLAN.problem))
    assert (last.bytes, last.used) == (path.stat().st_size, 1e9)
    writing, dead = folder / f"{KEY}-x1.tmp", folder / f"{KEY}-x2.tmp"
    for unfinished in (writing, dead):
        unfinished.touch()
    os.utime(dead, (time.time() - cache.STALE - 1,) * 2)
    assert cache.clear() == 2
    assert sorted(folder.iterdir()) == sorted([folder / "mine.so", writing])


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CUTE_KERNELS_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.folder() == tmp_path / "cute_kernels"
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache.folder() == tmp_path / "home" / ".cache" / "cute_kernels"
    monkeypatch.setenv("CUTE_KERNELS_CACHE", "")
    assert cache.folder() == tmp_path / "home" / ".cache" / "cute_kernels"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CUTE_KERNELS_CACHE", "~/mine")
    assert cache.folder() == tmp_path / "mine"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTE_KERNELS_CACHE", ".")
    assert cache.folder() == tmp_path
    for off, there in (("1", False), ("0", True), ("", True)):
        monkeypatch.setenv("CUTE_KERNELS_NO_CACHE", off)
        assert (cache.folder() is not None) == there


def test_somebody_without_a_home_has_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("CUTE_KERNELS_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    assert cache.folder() is None
    assert cache.store(KEY, PLAN, LIBRARY) is None


def test_threads_that_write_and_read_find_whole_kernels_only() -> None:
    """Four threads write the same few kernels, over and over, while four look for them."""
    keys = [letter * 64 for letter in "abc"]
    for name in keys:
        assert cache.store(name, PLAN, LIBRARY)

    def work(number: int) -> list[bytes]:
        seen = []
        for name in keys * 40:
            if number % 2:
                assert cache.store(name, PLAN, LIBRARY)
            else:
                path = cache.find(name)
                assert path
                seen.append(path.read_bytes())
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = [blob for some in pool.map(work, range(8)) for blob in some]
    assert len(seen) == 4 * 40 * len(keys)
    assert len(set(seen)) == 1
    assert {entry.path.stem for entry in cache.entries()} == set(keys)


def test_threads_of_which_one_clears_do_no_harm() -> None:

    def work(number: int) -> None:
        for _ in range(40):
            if number == 0:
                cache.clear()
            with cache.locked(KEY):
                assert cache.store(KEY, PLAN, LIBRARY)
            cache.find(KEY)
            cache.entries()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_switched_off_nothing_is_read_or_written(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    cache.store(KEY, PLAN, LIBRARY)
    monkeypatch.setenv("CUTE_KERNELS_NO_CACHE", "1")
    assert cache.find(KEY) is None
    assert cache.store(OTHER, PLAN, LIBRARY) is None
    assert len(list(folder.iterdir())) == 1


# -- processes ----------------------------------------------------------------------------------------------------------

OBTAIN = """
import json, sys, time
import torch
from cute_kernels import device
from cute_kernels.runtime import launch
from tests.runtime.test_cache import PLAN
compiles, compile = [], device.compile
device.compile = lambda plan: compiles.append(plan) or compile(plan)
start = time.perf_counter()
kernel = launch.compiled(PLAN)
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "compiles": len(compiles),
    "callable": callable(kernel.run),
    "dsl": "cutlass" in sys.modules,
    "compiler": "_cutlass_ir" in open("/proc/self/maps").read(),
}))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], dict[str, Any], Path]:
    """What two processes started together did, and what one that came later did."""
    pytest.importorskip("cutlass", reason="the CuTe DSL is installed on Linux only")
    folder = tmp_path_factory.mktemp("shared")
    together = [python(OBTAIN, CUTE_KERNELS_CACHE=str(folder)) for _ in range(2)]
    first = [json.loads(process.communicate()[0]) for process in together]
    return first, json.loads(python(OBTAIN, CUTE_KERNELS_CACHE=str(folder)).communicate()[0]), folder


def test_processes_started_together_compile_once(ran: Any) -> None:
    first, _, folder = ran
    assert sum(process["compiles"] for process in first) == 1
    assert [path.suffix for path in folder.iterdir()] == [".so"]


def test_a_later_process_loads_within_a_second_and_without_the_compiler(ran: Any) -> None:
    _, later, _ = ran
    assert later["callable"]
    assert later["seconds"] < 1
    assert (later["compiles"], later["dsl"], later["compiler"]) == (0, False, False)
