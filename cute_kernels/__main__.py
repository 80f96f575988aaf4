"""`python -m cute_kernels`: demo, list, run, study, doctor, cache.

Exit codes: 0 all well; 1 a wrong result or an unhealthy machine; 2 arguments that make no sense; 3 no usable GPU.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cute_kernels.plan.target import TARGETS

WELL, FAULTY, USAGE, NO_GPU = range(4)
Print = Callable[[Any, str], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the process's exit code."""
    options = parser().parse_args(arguments)

    def show(facts: Any, text: str) -> None:
        print(json.dumps(facts) if options.json else text)

    from cute_kernels.runtime.errors import TargetError

    try:
        return options.command(options, show)
    except TargetError as error:
        print(error, file=sys.stderr)
        return NO_GPU
    except ValueError as error:
        print(error, file=sys.stderr)
        return USAGE


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser("cute_kernels", description="Fused GPU kernels whose schedules also run on a CPU.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command(commands, "demo", demo, "run linear_norm on the GPU, else its schedule in the simulator; draw the schedule")
    command(commands, "list", listing, "operators, variants, architectures, status")
    command(commands, "doctor", doctor, "versions, GPUs, and what works here")
    kept = command(commands, "cache", cache, "compiled kernels on disk")
    kept.add_argument("--clear", action="store_true", help="remove them")
    one = command(commands, "run", run, "run one operator and judge the result against float64")
    one.add_argument("--simulate", action="store_true", help="in the simulator, GPU or not")
    drawn = command(
        commands, "study", study, "simulate one operator and draw its schedule: a page, a timeline, a trace"
    )
    drawn.add_argument("--out", type=Path, help="the page; default out/OP-ARCH.html")
    for taker in (one, drawn):
        taker.add_argument("operator", metavar="OP", help="its name, as `list` shows it")
        taker.add_argument("--arch", choices=tuple(TARGETS), help="simulate this architecture")
        taker.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="")
    for taker in (one, drawn, commands.choices["demo"]):
        taker.add_argument("--shape", default="", help="extents, as in 300x512x512")
        taker.add_argument("--seed", type=int, default=0, help="of the inputs and of the simulator's schedule")
    return parser


def command(commands: Any, name: str, function: Callable[..., int], does: str) -> argparse.ArgumentParser:
    """A sub-command that calls `function(options, show)`."""
    sub = commands.add_parser(name, help=does, description=does)
    sub.add_argument("--json", action="store_true", help="print one JSON value")
    sub.set_defaults(command=function)
    return sub


def listing(options: argparse.Namespace, show: Print) -> int:
    from cute_kernels.cli import facts

    rows = facts.operators()
    show(rows, facts.describe_operators(rows))
    return WELL


def doctor(options: argparse.Namespace, show: Print) -> int:
    from cute_kernels.cli import facts

    found = facts.machine()
    show(found, facts.describe_machine(found))
    return WELL if facts.healthy(found) else FAULTY


def cache(options: argparse.Namespace, show: Print) -> int:
    from cute_kernels.cli import cache as kept

    found = kept.clear() if options.clear else kept.kernels()
    show(found, kept.describe(found))
    return WELL


def chosen(command: str, options: argparse.Namespace) -> tuple[Any, Any]:
    """The operator that the options name, and its case."""
    from cute_kernels.cli.catalogue import OPERATORS

    if options.operator not in OPERATORS:
        raise ValueError(f"{command}: OP is {options.operator!r}; it takes {' or '.join(OPERATORS)}")
    operator = OPERATORS[options.operator]
    return operator, operator.case(options.shape, options.dtype)


def study(options: argparse.Namespace, show: Print) -> int:
    operator, case = chosen("study", options)
    from cute_kernels.cli import run as runner

    arch = options.arch or "sm_90a"
    picture = options.out or Path("out") / f"{operator.name}-{arch}.html"
    facts = runner.in_simulator(operator, case, arch, options.seed, picture)
    show(facts, runner.describe(facts))
    return WELL if facts["right"] else FAULTY


def run(options: argparse.Namespace, show: Print) -> int:
    operator, case = chosen("run", options)
    from cute_kernels.cli import run as runner

    if options.simulate or options.arch:
        facts = runner.in_simulator(operator, case, options.arch or "sm_90a", options.seed)
    else:
        facts = runner.on_gpu(operator, case, options.seed)
    show(facts, runner.describe(facts))
    return WELL if facts["right"] else FAULTY


def demo(options: argparse.Namespace, show: Print) -> int:
    from cute_kernels.cli import run as runner
    from cute_kernels.cli.catalogue import OPERATORS
    from cute_kernels.runtime.errors import TargetError
    from cute_kernels.runtime.targets import here

    operator = OPERATORS["linear_norm"]
    try:
        arch, on_gpu = here().arch, True
    except TargetError as reason:
        arch, on_gpu = "sm_90a", False
        print(f"No GPU kernel here: {reason}.\n", file=sys.stderr)
    picture = Path("out") / "linear_norm.html"
    ran = [runner.in_simulator(operator, operator.case(options.shape), arch, options.seed, picture)]
    if on_gpu:
        ran.append(runner.on_gpu(operator, operator.module("cases").SPEED[0], options.seed))
    show(ran, "\n\n".join(map(runner.describe, ran)))
    return WELL if all(facts["right"] for facts in ran) else FAULTY


if __name__ == "__main__":
    sys.exit(main())
