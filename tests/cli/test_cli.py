"""The command line, as a user runs it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cute_kernels.__main__ import FAULTY, NO_GPU, USAGE, WELL, main
from cute_kernels.cli import facts
from cute_kernels.cli import run as runner
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.cli.progress import WIDTH, bar
from cute_kernels.linear_norm.plan import LinearNorm, plan
from cute_kernels.plan import SM90A
from cute_kernels.runtime import cache

ROOT = Path(__file__).resolve().parents[2]
SHAPES = {
    "rms_norm": "5x300",
    "layer_norm": "5x300",
    "mhc_post": "5x72x4",
    "mhc_pre_big_fuse": "5x72x2x4",
    "mhc_pre_big_fuse_with_prenorm": "5x72x1x4",
    "linear_norm": "20x64x128",
}


def command(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """`python -m cute_kernels` in a process of its own, GPUs hidden."""
    environment = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "PATH": ""}
    line = [sys.executable, "-m", "cute_kernels", *arguments]
    return subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_demo_shows_errors_traffic_and_a_picture(tmp_path: Path) -> None:
    done = command("demo", "--shape", "200x128x512", cwd=tmp_path)
    assert done.returncode == WELL, done.stderr
    assert "right: relative error" in done.stdout
    assert "yardstick" in done.stdout
    assert "row sums exchanged through DSMEM: 3,072 (12,288 bytes)" in done.stdout
    assert "times the least that memory must move" in done.stdout
    assert "No GPU kernel here" in done.stderr
    page = tmp_path / "out" / "linear_norm.html"
    assert str(page.relative_to(tmp_path)) in done.stdout
    assert page.read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")
    assert ElementTree.parse(page.with_suffix(".svg")).getroot().tag.endswith("svg")
    assert json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))["traceEvents"]
    assert all(str(page.relative_to(tmp_path).with_suffix(kind)) in done.stdout for kind in (".svg", ".json"))


def test_demo_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--shape", "100x64x512", "--json"]) == WELL
    (ran,) = json.loads(capsys.readouterr().out)
    assert ran["right"]
    assert ran["bytes_moved"] >= ran["bytes_least"] == 2 * (100 * 64 + 512 * 64 + 100 * 512)
    assert ran["dsmem_bytes"] > 0
    assert Path(ran["picture"]).exists()


@pytest.mark.parametrize("name", OPERATORS)
def test_study_draws_every_operator(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "new" / "page.html"
    assert main(["study", name, "--shape", SHAPES[name], "--arch", "sm_100a", "--out", str(page)]) == WELL
    assert f"picture of the schedule: {page}" in capsys.readouterr().out
    assert "on sm_100a (Blackwell)</h1>" in page.read_text(encoding="utf-8")
    assert all(page.with_suffix(kind).stat().st_size for kind in (".svg", ".json"))


def test_list_names_every_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == WELL
    rows = json.loads(capsys.readouterr().out)
    assert [row["operator"] for row in rows] == list(OPERATORS)
    assert main(["list"]) == WELL
    text = capsys.readouterr().out
    assert all(name in text for name in OPERATORS)


def test_doctor_finds_the_simulator_at_work(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == WELL
    found = json.loads(capsys.readouterr().out)
    assert found["simulator"] == "works"
    assert found["packages"]["torch"]
    assert found["compiled kernels in"] == str(cache.folder())
    assert main(["doctor"]) == WELL
    assert "simulator              works" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "healthy"),
    [
        ({}, True),
        ({"simulator": "ImportError: no greenlet"}, False),
        ({"GPUs": ["A100"], "GPU kernels": "needed is a GPU of compute capability 9.0"}, False),
        ({"GPUs": ["H200"], "GPU kernels": "works, sm_90a"}, True),
    ],
)
def test_doctor_exit_code(monkeypatch: pytest.MonkeyPatch, change: dict[str, object], healthy: bool) -> None:
    machine = {"simulator": "works", "GPUs": [], "GPU kernels": "no usable GPU", "packages": {}} | change
    monkeypatch.setattr(facts, "machine", lambda: machine)
    assert main(["doctor"]) == (WELL if healthy else FAULTY)


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_run(name: str, arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    shape = SHAPES[name]
    assert main(["run", name, "--shape", shape, "--arch", arch, "--dtype", "float16", "--seed", "3", "--json"]) == WELL
    ran = json.loads(capsys.readouterr().out)
    assert ran["right"]
    assert ran["case"].startswith(f"{shape}-float16")
    assert ran["where"] == f"simulator, {arch}, seed 3"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "softmax"], f"OP is 'softmax'; it takes {' or '.join(OPERATORS)}"),
        (["run", "rms_norm", "--simulate", "--shape", "3x4x5"], "shape is '3x4x5'; it takes MxN"),
        (["run", "linear_norm", "--simulate", "--shape", "8x8x60"], "it takes [N, 8] with N a multiple of 8"),
        (
            ["run", "linear_norm", "--simulate", "--dtype", "float32"],
            "dtype is 'float32'; it takes bfloat16 or float16",
        ),
        (["run", "rms_norm", "--simulate", "--shape", "0x8"], "shape is '0x8'; it takes MxN, whole numbers >= 1"),
        (["demo", "--shape", "0x64x512"], "shape is '0x64x512'; it takes MxKxN, whole numbers >= 1"),
    ],
)
def test_arguments_that_make_no_sense(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == USAGE
    assert message in capsys.readouterr().err


def test_usage() -> None:
    assert command("run", "rms_norm", "--arch", "sm_70").returncode == USAGE
    assert command().returncode == USAGE
    assert "demo" in command("--help").stdout


def test_run_without_a_gpu_says_what_is_needed() -> None:
    done = command("run", "rms_norm")
    assert done.returncode == NO_GPU
    assert "needed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_result_is_an_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    honest = type(OPERATORS["rms_norm"]).call
    monkeypatch.setattr(type(OPERATORS["rms_norm"]), "call", lambda *a, **k: honest(*a, **k) * 1.1)
    assert main(["run", "rms_norm", "--simulate", "--shape", "4x64"]) == FAULTY
    assert "WRONG" in capsys.readouterr().out


def test_picture_is_drawn_only_when_asked(tmp_path: Path) -> None:
    operator = OPERATORS["rms_norm"]
    case = operator.case("4x64")
    assert "picture" not in runner.in_simulator(operator, case, "sm_90a", 0)
    assert runner.in_simulator(operator, case, "sm_90a", 0, tmp_path / "new" / "a.html")["picture"]


def test_bar_goes_round() -> None:
    frames = {bar(turn) for turn in range(2 * WIDTH)}
    assert len(frames) == WIDTH
    assert {len(frame) for frame in frames} == {WIDTH}


def test_cache_lists_and_clears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUTE_KERNELS_CACHE", str(tmp_path))
    kernel = plan(LinearNorm(64, 512, "bfloat16"), SM90A)
    path = cache.store("a" * 64, kernel, b"a library")
    assert path
    os.utime(path, (time.time() - 7200,) * 2)
    assert main(["cache", "--json"]) == WELL
    found = json.loads(capsys.readouterr().out)
    (row,) = found["kernels"]
    assert found["folder"] == str(tmp_path)
    assert (row["operator"], row["arch"], row["problem"]) == ("linear_norm", "sm_90a", str(kernel.problem))
    assert row["bytes"] == path.stat().st_size
    assert 7200 <= row["age"] < 7300
    assert main(["cache"]) == WELL
    assert "used    2 h ago  LinearNorm(k=64, n=512" in capsys.readouterr().out
    assert main(["cache", "--clear"]) == WELL
    assert "1 kernel(s) removed" in capsys.readouterr().out
    assert not path.exists()


def test_cache_says_when_it_is_off() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cute_kernels", "cache"],
        env={"PYTHONPATH": str(ROOT), "CUTE_KERNELS_NO_CACHE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "switched off" in done.stdout
