"""What a test measures is shown at the end of the run, whichever worker measured it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TEST = """
def test_measures(figure):
    figure("17 verbs a second")
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_figures_are_in_the_summary(workers: int, tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(TEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "tests.conftest", "test_one.py"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "17 verbs a second" in run.stdout.splitlines()
