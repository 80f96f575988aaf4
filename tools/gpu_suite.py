"""tests/gpu in many processes, so that a kernel that faults or hangs costs its own test and no other. `make test-gpu`.

    python tools/gpu_suite.py [--processes 8] [--patience 180] [--total 3600] [--json FILE] [tests …]

A fault leaves a process unable to use its GPU, and a wrong barrier never returns. So tests run in groups, each group in a process of its own; what comes
after a fault, a crash or a hang runs in a new one. Where nothing has been said for `--patience` seconds, the test that is running counts as hung.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GROUP = 32  # tests a process: few enough to share the work out, many enough that starting costs little
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
SAID = {"PASSED": "passed", "FAILED": "failed", "ERROR": "failed", "SKIPPED": "skipped", "XFAIL": "skipped"}
BAD = ("failed", "crashed", "hung", "not run")


@dataclass(frozen=True)
class Limits:
    """Seconds: of silence, and the time at which all ends."""

    patience: float
    end: float


@dataclass
class Group:
    """What one process said of its tests, in their order."""

    outcomes: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)  # not reached
    said: str = ""


def collect(tests: Sequence[str]) -> list[str]:
    """The names of all tests, in pytest's order; SystemExit with its words where it finds none."""
    done = subprocess.run([*PYTEST, "--collect-only", "-q", *tests], capture_output=True, text=True, cwd=ROOT)
    names = [line for line in done.stdout.splitlines() if "::" in line]
    if done.returncode or not names:
        raise SystemExit(f"gpu_suite: nothing to run\n{done.stdout}{done.stderr}")
    return names


def run(names: list[str], limits: Limits) -> Group:
    """One process over these tests, until it ends, falls silent or time is up."""
    with tempfile.NamedTemporaryFile("w+", suffix=".log") as log:
        process = subprocess.Popen(
            [*PYTEST, "-v", "--tb=short", *names], stdout=log, stderr=log, cwd=ROOT, start_new_session=True
        )
        ended = watch(process, Path(log.name), limits)
        return read(names, Path(log.name).read_text(errors="replace"), ended)


def watch(process: subprocess.Popen[bytes], log: Path, limits: Limits) -> str:
    """How the process ended: by itself ("crashed" unless all its tests are told), "hung" or out of time ("not run")."""
    size, since = -1, time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        if log.stat().st_size != size:
            size, since = log.stat().st_size, now
        if now - since > limits.patience or now > limits.end:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "hung" if now <= limits.end else "not run"
        time.sleep(0.2)
    return "crashed"


def read(names: list[str], said: str, ended: str) -> Group:
    """What -v printed: a name, and behind it the outcome once there is one."""
    group, lines = Group(said=said), said.splitlines()
    for name in names:
        told = [line[len(name) :].split() for line in lines if line.startswith(name + " ")]
        words = [word for rest in told for word in rest[:1] if word in SAID]
        if words:
            group.outcomes[name] = SAID[words[0]]
        elif told or (not group.left and not group.outcomes):
            group.outcomes[name] = ended  # it was running, or the process fell before its first test
        else:
            group.left.append(name)
    return group


def run_all(names: list[str], limits: Limits, processes: int, tell: Callable[[Group], None]) -> dict[str, str]:
    """Every test's outcome; what a process left goes to another."""
    outcomes: dict[str, str] = {}
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        waiting = {pool.submit(run, names[i : i + GROUP], limits) for i in range(0, len(names), GROUP)}
        while waiting:
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for group in (future.result() for future in done):
                outcomes |= group.outcomes
                tell(group)
                if group.left and time.monotonic() < limits.end:
                    waiting.add(pool.submit(run, group.left, limits))
    return {name: outcomes.get(name, "not run") for name in names}


def table(outcomes: dict[str, str]) -> str:
    """Counts by test function, so that what passed can be told by its name."""
    counts: dict[str, collections.Counter[str]] = {}
    for name, outcome in outcomes.items():
        counts.setdefault(name.split("[")[0], collections.Counter())[outcome] += 1
    counts["in all"] = collections.Counter(outcomes.values())
    width = max(map(len, counts))
    return "\n".join(
        f"{name:{width}}  {', '.join(f'{n} {what}' for what, n in count.items())}" for name, count in counts.items()
    )


def failures(group: Group) -> Iterable[str]:
    """Of a group in which something went wrong: the tests, and the end of what its process printed."""
    bad = [f"{name}: {outcome}" for name, outcome in group.outcomes.items() if outcome in BAD]
    return [*bad, group.said[-6000:]] if bad else ()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["tests/gpu"])
    parser.add_argument("--processes", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument(
        "--patience", type=float, default=180, help="seconds of silence that a test may take, compiling included"
    )
    parser.add_argument("--total", type=float, default=3600, help="seconds for all")
    parser.add_argument("--json", type=Path, help="also write every test's outcome to this file")
    options = parser.parse_args(arguments)
    names = collect(options.tests)
    limits = Limits(options.patience, time.monotonic() + options.total)
    outcomes = run_all(
        names, limits, options.processes, lambda group: print(*failures(group), sep="\n", end="", flush=True)
    )
    print(table(outcomes))
    if options.json:
        options.json.write_text(json.dumps(outcomes, indent=1))
    return int(any(outcome in BAD for outcome in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
