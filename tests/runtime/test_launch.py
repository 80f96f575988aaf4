"""Compiled kernels are kept by plan, in memory and on disk, and compiled once however many threads ask."""

import errno
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.plan import SM90A, Plan
from cute_kernels.runtime import cache, launch
from cute_kernels.runtime.errors import TargetError

PLAN, OTHER = (plan(LinearNorm(64, n, "float16"), SM90A) for n in (64, 128))


class CountingBackEnd(ModuleType):
    """A back end that takes its time and remembers what it compiled."""

    def __init__(self) -> None:
        super().__init__("cute_kernels.device")
        self.asked: list[Plan] = []
        self.loaded: list[Path] = []
        self.linked: bytes | None = b"a library"
        self.loads = self.compiles = True

    def toolchain(self) -> dict[str, Any]:
        return {"dsl": "none"}

    def compile(self, plan: Plan) -> object:
        if not self.compiles:
            raise ImportError("the CuTe DSL does not import here: no compiler")
        self.asked.append(plan)
        time.sleep(0.05)
        return object()

    def library(self, kernel: object) -> bytes | None:
        return self.linked

    def load(self, plan: Plan, path: Path) -> object:
        if not self.loads:
            raise OSError("undefined symbol")
        self.loaded.append(path)
        return object()


@pytest.fixture
def back_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CountingBackEnd:
    counting = CountingBackEnd()
    monkeypatch.setitem(sys.modules, "cute_kernels.device", counting)
    monkeypatch.setattr(cute_kernels, "device", counting, raising=False)
    monkeypatch.setattr(launch, "_ready", {})
    monkeypatch.setenv("CUTE_KERNELS_CACHE", str(tmp_path))
    cache.warn.cache_clear()
    return counting


def test_one_compile_a_plan(back_end: CountingBackEnd) -> None:
    first = launch.compiled(PLAN)
    assert launch.compiled(plan(LinearNorm(64, 64, "float16"), SM90A)) is first
    assert launch.compiled(OTHER) is not first
    assert len(back_end.asked) == 2


def test_threads_that_ask_at_once_get_one_kernel(back_end: CountingBackEnd) -> None:
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(launch.compiled(PLAN))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(back_end.asked) == 1
    assert len(set(map(id, got))) == 1


def test_kernels_in_memory_are_bounded(back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "KERNELS", 1)
    first, second = launch.compiled(PLAN), launch.compiled(OTHER)
    assert launch.compiled(OTHER) is second
    assert launch.compiled(PLAN) is not first


def anew(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The kernel as a process that has nothing in memory gets it."""
    monkeypatch.setattr(launch, "_ready", {})
    return launch.compiled(PLAN)


def test_what_was_compiled_is_loaded_from_disk_ever_after(
    back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew(monkeypatch)
    anew(monkeypatch)
    assert len(back_end.asked) == 1
    assert len(back_end.loaded) == 2


def test_a_damaged_kernel_is_compiled_again(back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    anew(monkeypatch)
    back_end.loaded[0].write_bytes(b"")
    anew(monkeypatch)
    anew(monkeypatch)
    assert len(back_end.asked) == 2


def test_a_kernel_that_does_not_load_here_is_compiled_again(
    back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew(monkeypatch)
    back_end.loads = False
    assert anew(monkeypatch)
    assert len(back_end.asked) == 2


def test_without_a_linker_kernels_live_in_memory(back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    back_end.linked = None
    with pytest.warns(UserWarning, match="no working linker"):
        assert launch.compiled(PLAN) is launch.compiled(PLAN)
    assert not back_end.loaded


def test_switched_off_nothing_is_written(
    back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CUTE_KERNELS_NO_CACHE", "1")
    anew(monkeypatch)
    anew(monkeypatch)
    assert len(back_end.asked) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "error", [OSError("libcute_dsl_runtime.so is not installed"), PackageNotFoundError("a-package")]
)
def test_a_toolchain_that_is_not_fully_known_keeps_nothing(
    back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception
) -> None:
    def unknown() -> dict[str, Any]:
        raise error

    monkeypatch.setattr(back_end, "toolchain", unknown)
    with pytest.warns(UserWarning, match="neither kept nor looked for"):
        assert anew(monkeypatch)
    assert len(back_end.asked) == 1
    assert not list(tmp_path.iterdir())


def full(*arguments: object, **options: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["temporary folder", "cache"])
def test_on_a_full_disk_kernels_live_in_memory(
    back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    if where == "cache":
        monkeypatch.setattr(cache, "write", full)
    else:
        monkeypatch.setattr(back_end, "library", full)
    with pytest.warns(UserWarning, match="not kept.*No space left on device"):
        assert launch.compiled(PLAN) is launch.compiled(PLAN)
    assert len(back_end.asked) == 1
    assert not back_end.loaded


def test_threads_with_kernels_of_their_own_compile_and_keep_each_once(
    back_end: CountingBackEnd, tmp_path: Path
) -> None:
    plans = [plan(LinearNorm(64, n, "float16"), SM90A) for n in (64, 128, 192, 256)]
    with ThreadPoolExecutor(16) as pool:
        kernels = list(pool.map(launch.compiled, plans * 8))
    assert len(set(map(id, kernels))) == len(plans)
    assert sorted(map(plans.index, back_end.asked)) == list(range(len(plans)))
    assert [path.suffix for path in tmp_path.iterdir()] == [".so"] * len(plans)


def test_the_first_call_inside_a_capture_says_what_to_do(
    back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch.compiled(OTHER)
    for name in ("is_initialized", "is_current_stream_capturing"):
        monkeypatch.setattr(torch.cuda, name, lambda: True)
    with pytest.raises(RuntimeError, match="first call of LinearNorm.*call it once before the capture") as caught:
        launch.compiled(PLAN)
    assert "\n" not in str(caught.value)
    assert back_end.asked == [OTHER]
    assert launch.compiled(OTHER)


def test_neither_a_kernel_nor_a_compiler(back_end: CountingBackEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    anew(monkeypatch)
    back_end.compiles = False
    anew(monkeypatch)  # from the disk
    with pytest.raises(TargetError, match="no kernel for LinearNorm.*does not import") as caught:
        launch.compiled(OTHER)
    assert "\n" not in str(caught.value)
