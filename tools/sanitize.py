"""compute-sanitizer over every operator, forward and backward, on small odd shapes. `make sanitize`, on a Hopper or Blackwell GPU.

    python tools/sanitize.py [memcheck synccheck racecheck]    the tools named, else all three
    python tools/sanitize.py --calls                           the calls alone, as each tool runs them

The calls run once without a tool first, which shows that all is well without it.
The first process compiles their kernels, some twenty, which the others find in the cache.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from cute_kernels.cli.catalogue import OPERATORS, Operator
from cute_kernels.hyper_connection.cases import Normed, Post, Pre
from cute_kernels.linear_norm.cases import Case as Linear
from cute_kernels.norms.cases import Case as Norm

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ("memcheck", "synccheck", "racecheck")
# The CUDA bindings probe for newer driver entry points; the tools would list each that is missing as an error.
OPTIONS = ("--report-api-errors", "no", "--error-exitcode", "1")

# By operator, or for all of a folder. A tile that is not full, rows that no vector divides, several rows a CTA, a cluster; each option of an operator once.
SHAPES: dict[str, tuple[Any, ...]] = {
    "norms": (
        Norm(131, 33, "float16", "float16", 0.5, "float32", residual=True),
        Norm(7, 1001, "bfloat16", "float32", bias="bfloat16"),
        Norm(5, 20000, "float32"),
        Norm(5, 20008, "bfloat16", "bfloat16", bias="bfloat16", residual=True),
    ),
    "mhc_post": (Post(3, 1280), Post(13, 1003, dtype="float16"), Post(7, 72, 8)),
    "mhc_pre_big_fuse": (Pre(3, 1280, 3), Pre(13, 1003, dtype="float16"), Pre(7, 72, 16, n=2)),
    "mhc_pre_big_fuse_with_prenorm": (Normed(3, 4096), Normed(13, 1003, dtype="float16"), Normed(7, 72, n=2)),
    "linear_norm": (
        Linear(1, 8, 64),
        Linear(130, 200, 320, "float16"),
        Linear(257, 72, 1280),
        Linear(131, 72, 24, "bfloat16", "layer", "bfloat16", "float32", "bfloat16", residual=True),
        Linear(131, 72, 520, "float16", "layer", "float32", "float16", "float32", residual=True),
    ),
}


def calls(device: str) -> Iterator[tuple[Operator, Any, dict[str, torch.Tensor | None]]]:
    """Each operator on its shapes; what came of it: its outputs, and the gradient of every tensor."""
    for operator in OPERATORS.values():
        for case in SHAPES.get(operator.name, SHAPES.get(operator.folder, ())):
            made = operator.module("cases").inputs(case)  # on the CPU: the tools watch no kernel that draws numbers
            arguments = {name: on(device, value) for name, value in made.items()}
            out = operator.call(**arguments)
            outs = out if isinstance(out, tuple) else (out,)
            torch.autograd.backward(outs, [torch.ones_like(y) for y in outs])
            leaves = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
            results = {f"output {i}": y.detach() for i, y in enumerate(outs)}
            yield operator, case, {**results, **{name: leaf.grad for name, leaf in leaves.items()}}


def on(device: str, value: Any) -> Any:
    """A tensor as a leaf on `device`; anything else as it is."""
    return value.to(device).requires_grad_() if isinstance(value, torch.Tensor) else value


def run_calls(device: str = "cuda") -> int:
    """Run them; 1 where a result is missing or not finite."""
    bad = 0
    for operator, case, results in calls(device):
        wrong = [name for name, value in results.items() if value is None or not value.isfinite().all()]
        print(f"{operator.name:12} {case!s:60} {'not finite: ' + ', '.join(wrong) if wrong else 'ran'}", flush=True)
        bad |= bool(wrong)
    return bad


def sanitizer() -> str:
    """The path of compute-sanitizer, or "" where there is none."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=f"{home}/bin") or ""


def run_tools(tools: Sequence[str]) -> int:
    """The calls without a tool, then under each; 1 at the first that complains."""
    path = sanitizer()
    if not (path and torch.cuda.is_available()):
        print(f"sanitize: needed are a CUDA GPU and compute-sanitizer ({path or 'not found'})", file=sys.stderr)
        return 2
    path_here = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path_here}
    for tool in ("", *tools):
        line = [*([path, "--tool", tool, *OPTIONS] if tool else []), sys.executable, __file__, "--calls"]
        start = time.perf_counter()
        code = subprocess.run(line, env=environment, check=False).returncode
        print(
            f"{tool or 'no tool'}: {'complains' if code else 'clean'}, {time.perf_counter() - start:.0f} s", flush=True
        )
        if code:
            return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", nargs="*", metavar="TOOL", help=f"{', '.join(TOOLS)}; all of them where none is named")
    parser.add_argument("--calls", action="store_true")
    options = parser.parse_args(arguments)
    if unknown := set(options.tools) - set(TOOLS):
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(TOOLS)}")
    return run_calls() if options.calls else run_tools(options.tools or TOOLS)


if __name__ == "__main__":
    sys.exit(main())
