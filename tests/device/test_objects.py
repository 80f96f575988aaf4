"""Compiled kernels as libraries: what they need, that they load where the DSL does not import, and which runtime is taken."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("cutlass", reason="the CuTe DSL is installed on Linux only")

from cute_kernels import device
from cute_kernels.device import objects
from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.plan import SM100A

ROOT = Path(__file__).resolve().parents[2]
PLAN = plan(LinearNorm(64, 64, "float16"), SM100A)

LOAD = """
import json, sys, time
from pathlib import Path
import torch
from cute_kernels import device
from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.plan import SM100A
PLAN = plan(LinearNorm(64, 64, "float16"), SM100A)
seconds = []
for name in sys.argv[1:]:
    start = time.perf_counter()
    kernel = device.load(PLAN, Path(name))
    seconds.append(time.perf_counter() - start)
try:
    kernel({name: torch.empty(3, 64, dtype=torch.float16) for name in kernel.names}, 1)
except Exception as error:
    refused = str(error)
print(json.dumps({"seconds": seconds, "refused": refused, "maps": Path("/proc/self/maps").read_text()}))
"""


@pytest.fixture(scope="module")
def library() -> bytes:
    made = device.library(device.compile(PLAN))
    assert made
    return made


def test_a_library_names_what_it_needs_and_no_path(library: bytes) -> None:
    assert b"libcute_dsl_runtime.so\0" in library
    assert b"libtvm_ffi.so\0" in library
    assert str(objects.runtime_library().parent).encode() not in library
    assert str(ROOT).encode() not in library


def test_it_loads_in_milliseconds_where_the_dsl_does_not_import(library: bytes, tmp_path: Path) -> None:
    """A package of the DSL's name that refuses to be imported comes first on the path."""
    (tmp_path / "cutlass").mkdir()
    (tmp_path / "cutlass" / "__init__.py").write_text("raise ImportError('hidden')\n")
    names = [tmp_path / f"{i}.so" for i in range(2)]
    for name in names:
        name.write_bytes(library)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", LOAD, *map(str, names)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "_cutlass_ir" not in found["maps"]
    assert "libcute_dsl_runtime.so" in found["maps"]
    assert "Tuple[Tensor([n0, 64], float16), Tensor([64, 64], float16), Tensor([n0, 64], float16)]" in found["refused"]
    assert "expected device_type=cuda" in found["refused"]
    assert found["seconds"][1] < 0.1  # the first one's holds the imports, and the runtime library's


def test_what_does_not_load_is_an_os_error(tmp_path: Path) -> None:
    path = tmp_path / "no.so"
    path.write_bytes(b"no library")
    with pytest.raises(OSError, match=r"no\.so"):
        device.load(PLAN, path)


def test_no_linker_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects.shutil, "which", lambda name: None)
    assert objects.link(b"") is None


def test_a_linker_that_fails_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert objects.link(b"no object file") is None


def test_flags_that_change_code_are_in_the_toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    before = device.toolchain()
    for harmless in ("CUTE_DSL_LOG_LEVEL", "CUTE_DSL_CACHE_DIR", "CUTE_DSL_NO_CACHE", "CUTE_DSL_ARCH", "PATH"):
        monkeypatch.setenv(harmless, "1")
    assert device.toolchain() == before
    monkeypatch.setenv("CUTE_DSL_LINEINFO", "1")
    assert device.toolchain() != before


@pytest.mark.parametrize(
    ("driver", "named", "taken"),
    [(float("inf"), "", "cu13"), (13, "", "cu13"), (12, "", "cu12"), (11, "", "cu13"), (13, "cu12", "cu12")],
)
def test_the_newest_runtime_the_driver_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: float, named: str, taken: str
) -> None:
    libraries = {name: tmp_path / name / "lib" / objects.RUNTIME for name in ("cu12", "cu13")}
    for path in libraries.values():
        path.parent.mkdir(parents=True)
        path.touch()
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(objects.importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(objects, "driver", lambda: driver)
    monkeypatch.setenv("CUTE_DSL_LIBS", str(libraries[named]) if named else "")
    objects.runtime_library.cache_clear()
    try:
        assert objects.runtime_library() == libraries[taken]
    finally:
        objects.runtime_library.cache_clear()
