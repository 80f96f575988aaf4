"""Kernels are packed on a machine without a GPU; that they run where they are carried to is a test of tests/gpu."""

import sys
from pathlib import Path

import pytest
import torch

from cute_kernels import device
from cute_kernels.__main__ import NO_GPU
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.norms.cases import Case
from cute_kernels.runtime import cache, launch
from tools import carry_objects


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The tool's exit code; the process has no kernels in memory, and afterwards its old cache."""
    monkeypatch.setattr(sys, "argv", ["carry_objects", *arguments])
    monkeypatch.setenv("CUTE_KERNELS_CACHE", "set by the tool")
    monkeypatch.setattr(launch, "_ready", {})
    return carry_objects.main()


def test_every_operator_is_packed() -> None:
    assert {operator.name for operator, _ in carry_objects.cases()} == set(OPERATORS)


def test_pack_compiles_without_a_gpu_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("cutlass", reason="the CuTe DSL is installed on Linux only")
    monkeypatch.setattr(carry_objects, "cases", lambda: iter([(OPERATORS["rms_norm"], Case(300, 64))]))
    assert run(monkeypatch, "pack", str(tmp_path)) == 0
    assert (
        f"1 kernels, {sum(entry.bytes for entry in cache.entries()) / 1e3:.0f} KB in {tmp_path}"
        in capsys.readouterr().out
    )
    assert [path.suffix for path in tmp_path.iterdir()] == [".so"]

    def compile(*arguments: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(device, "compile", compile)
    assert run(monkeypatch, "pack", str(tmp_path)) == 0


def test_check_without_a_gpu_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    assert run(monkeypatch, "check", str(tmp_path)) == NO_GPU
    assert "needed is" in capsys.readouterr().err
