"""Tests that hang, crash or stop their process cost themselves only, and none is lost from the count."""

import json
from pathlib import Path

import pytest

from tools import gpu_suite

TESTS = """
import os, time, pytest

def test_first(): pass
def test_hangs(): time.sleep(3600)
def test_between(): pass
def test_crashes(): os._exit(1)
def test_fails(): raise AssertionError("wrong")
def test_skips(): pytest.skip("why not")
@pytest.mark.parametrize("n", [1, 2])
def test_last(n): pass
"""
OUTCOMES = ["passed", "hung", "passed", "crashed", "failed", "skipped", "passed", "passed"]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(gpu_suite, "ROOT", tmp_path)
    (tmp_path / "test_them.py").write_text(TESTS)
    return tmp_path


def test_every_test_has_its_own_outcome(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = written / "outcomes.json"
    assert gpu_suite.main(["test_them.py", "--patience", "6", "--processes", "1", "--json", str(found)]) == 1
    assert list(json.loads(found.read_text()).values()) == OUTCOMES
    said = capsys.readouterr().out
    counts = [" ".join(line.split()) for line in said.splitlines()]
    assert "test_them.py::test_last 2 passed" in counts
    assert "in all 4 passed, 1 hung, 1 crashed, 1 failed, 1 skipped" in counts
    assert "AssertionError: wrong" in said


def test_out_of_time_is_not_passed(written: Path) -> None:
    found = written / "outcomes.json"
    assert gpu_suite.main(["test_them.py", "--total", "0", "--json", str(found)]) == 1
    assert set(json.loads(found.read_text()).values()) == {"not run"}


def test_nothing_to_run_is_an_error(written: Path) -> None:
    (written / "test_them.py").write_text("")
    with pytest.raises(SystemExit, match="nothing to run"):
        gpu_suite.main(["test_them.py"])
