"""`python -m perf` says what it measured."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from perf import __main__ as perf
from perf.table import Row

ROW = Row("rms_norm", "a case", "right", {"ours": 1.0, "copy": 1.0}, "copy", "fast")


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command with stubs for what a GPU does; the JSON it writes."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(perf, "BENCHMARKS", {"norms": lambda peers: [ROW]})
    monkeypatch.setattr(perf.host, "report", lambda: "")

    def run(*arguments: str) -> dict[str, Any]:
        out = tmp_path / "rows.json"
        monkeypatch.setattr(sys, "argv", ["perf", "--json", str(out), *arguments])
        assert perf.main() == 0
        return json.loads(out.read_text())

    return run


def test_results_name_the_commit(measured: Any, capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        pytest.skip("not a git checkout")
    head = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    commit = measured()["commit"]
    assert head.startswith(commit.removesuffix("-dirty"))
    assert f"commit {commit}" in capsys.readouterr().out


def test_a_copy_of_the_tree_is_told_its_commit(measured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured("--commit", "abc")["commit"] == "abc"
    monkeypatch.setattr(perf, "__file__", "/nowhere/perf/__main__.py")
    assert measured()["commit"] == "unknown"
