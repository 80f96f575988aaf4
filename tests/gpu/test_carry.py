"""Kernels compiled by one process run in another that has no compiler: launched within a second, and judged there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from cute_kernels.runtime.targets import here

ROOT = Path(__file__).resolve().parents[2]


def test_packed_kernels_run_without_the_compiler(tmp_path: Path) -> None:
    script, folder = str(ROOT / "tools" / "carry_objects.py"), str(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    for arguments in (("pack", folder, "--arch", here().arch), ("check", folder)):
        done = subprocess.run(
            [sys.executable, script, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    first_calls = [float(ms) for ms in re.findall(r"first call +([\d.]+) ms", done.stdout)]
    assert first_calls
    assert max(first_calls) < 1000, done.stdout
