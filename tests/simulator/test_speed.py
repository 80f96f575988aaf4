"""The simulator is fast enough for whole test suites: one core's verbs a second, all observers on."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

FLOOR = (
    30_000  # a third of what an unloaded core does, so that the test fails for the simulator and not for its neighbours
)


def test_verbs_a_second(figure: Callable[[str], None]) -> None:
    command = [sys.executable, "-m", "tests.simulator.speed"]
    root = Path(__file__).parent.parent.parent
    speed = int(subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout)
    figure(f"simulator: {speed:,} verbs a second on one core, all observers on")
    assert speed >= FLOOR
