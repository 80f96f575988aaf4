"""`python -m perf [norms|norms_backward|linear_norm|linear_norm_all|hyper_connection …] [--peers quack,inductor,flashinfer] [--json FILE]`: tables of ratios within one run."""

import argparse
import json
import pathlib
import subprocess
import sys

import torch

from perf import host, hyper_connection, linear_norm, norms
from perf.table import Row, text

BENCHMARKS = {
    "norms": norms.run,
    "norms_backward": norms.run_backward,
    "linear_norm": linear_norm.run,
    "hyper_connection": hyper_connection.run,
}
ON_REQUEST = {"linear_norm_all": linear_norm.run_all}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m perf", description=__doc__)
    parser.add_argument(
        "operators", nargs="*", choices=[*BENCHMARKS, *ON_REQUEST, []], help="where none is named, all but *_all"
    )
    parser.add_argument(
        "--peers", default="inductor", help="comma-separated: inductor; quack, flashinfer (where installed)"
    )
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    parser.add_argument("--commit", help="what is measured, for a copy of the tree that git knows nothing of")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("perf: no CUDA GPU; the speed of kernels is measured on a GPU only", file=sys.stderr)
        return 2
    gpu = f"{torch.cuda.get_device_name()}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    commit = options.commit or commit_here()
    print(f"{gpu}, commit {commit}")
    rows: list[Row] = []
    for name in options.operators or BENCHMARKS:
        measured = (BENCHMARKS | ON_REQUEST)[name](tuple(filter(None, options.peers.split(","))))
        print(text(name, measured), flush=True)
        rows += measured
    print(host.report())
    if options.json:
        options.json.write_text(
            json.dumps({"gpu": gpu, "commit": commit, "rows": [row.as_dict() for row in rows]}, indent=1)
        )
    return 0


def commit_here() -> str:
    """The commit of this tree, "-dirty" where it has changed since; "unknown" where git cannot tell."""
    root = pathlib.Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return "unknown"
    line = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
