"""Compile where there is no GPU, run where there is no compiler: kernels carried from one machine to another as files.

    python tools/carry_objects.py pack FOLDER [--arch sm_90a]    on any Linux machine: compile every operator's cases into FOLDER
    python tools/carry_objects.py check FOLDER                   on the GPU: load, launch and judge them, the compiler hidden

Both machines need this source tree, and the same versions of nvidia-cutlass-dsl (of the same CUDA toolkit: cu12 or cu13) and of tvm-ffi;
the second needs of the DSL its runtime library alone. A program of one's own finds the kernels as `check` does, by CUTE_KERNELS_CACHE; it
packs its own configurations by running once with that set, on any machine with such a GPU.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import torch

from cute_kernels.__main__ import NO_GPU
from cute_kernels.cli.catalogue import OPERATORS, Operator
from cute_kernels.cli.run import judged
from cute_kernels.runtime import cache, launch
from cute_kernels.runtime.errors import TargetError
from cute_kernels.runtime.simulate import simulate
from cute_kernels.runtime.targets import here

ROWS = 300  # kernels do not depend on it
COMPILER = "cutlass._mlir"


def cases() -> Iterator[tuple[Operator, Any]]:
    """Every operator's demonstration and benchmark cases, of few rows."""
    for operator in OPERATORS.values():
        for case in dict.fromkeys(replace(case, m=ROWS) for case in (operator.demo, *operator.speed)):
            yield operator, case


def pack(arch: str) -> bool:
    """Compile what the cases run, into the cache."""
    with simulate(arch) as simulation, torch.no_grad():
        simulation.run = lambda plan, *rest: simulation.plans.append(plan)  # type: ignore[method-assign]
        for operator, case in cases():
            operator.call(**operator.module("cases").inputs(case))
    start = time.perf_counter()
    for plan in simulation.plans:
        launch.compiled(plan)
    entries = cache.entries()
    size = sum(entry.bytes for entry in entries)
    print(f"{len(entries)} kernels, {size / 1e3:.0f} KB in {cache.folder()}, {time.perf_counter() - start:.1f} s")
    return len(entries) >= len(set(simulation.plans))


class Hidden(MetaPathFinder):
    """Makes the DSL's compiler library impossible to import."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.startswith(COMPILER):
            raise ImportError("the compiler is hidden")


def check() -> bool:
    """Run every case from the cache alone; whether all results are right and nothing was compiled. TargetError without a GPU."""
    here()
    sys.meta_path.insert(0, Hidden())
    right = True
    for operator, case in cases():
        arguments = operator.module("cases").inputs(case, "cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        out = operator.call(**arguments)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        found = judged(operator, arguments, out)
        print(f"{operator.name:12} {case!s:40} first call {1e3 * seconds:6.1f} ms  {found['accuracy']}")
        right &= found["right"]
    mapped = "_cutlass_ir" in Path("/proc/self/maps").read_text()
    print(f"compiler library mapped into the process: {'yes' if mapped else 'no'}")
    return right and not mapped


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=("pack", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90a")
    options = parser.parse_args()
    os.environ["CUTE_KERNELS_CACHE"] = str(options.folder)
    os.environ.pop("CUTE_KERNELS_NO_CACHE", None)
    try:
        return not (pack(options.arch) if options.do == "pack" else check())
    except TargetError as error:
        print(error, file=sys.stderr)
        return NO_GPU


if __name__ == "__main__":
    sys.exit(main())
