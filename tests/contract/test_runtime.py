"""Threads, devices, processes, and what a process keeps, for every operator."""

import contextlib
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import cute_kernels
from cute_kernels.runtime import launch
from cute_kernels.runtime.simulate import Simulation
from tests.contract.conftest import Call, tensors, transposed

ROOT = Path(__file__).resolve().parents[2]
THREADS = 4


def test_threads_do_not_disturb_each_other(call: Call) -> None:
    """Each simulates a generation and a schedule of its own, all at once, on inputs of its own."""
    start = threading.Barrier(THREADS)

    def work(number: int, together: bool) -> list[torch.Tensor]:
        arguments = call.arguments(seed=number)
        if together:
            start.wait()
        with cute_kernels.simulate(("sm_90a", "sm_100a")[number % 2], seed=number) as simulation:
            out = call(**arguments)
            found = call.gradients(arguments, torch.ones_like(out), call)
        assert {plan.target.arch for plan in simulation.plans} == {simulation.target.arch}
        return [out, *found.values()]

    expected = [work(number, together=False) for number in range(THREADS)]
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(work, range(THREADS), [True] * THREADS))
    for ours, alone in zip(results, expected, strict=True):
        assert all(map(torch.equal, ours, alone))


def test_a_simulation_holds_for_its_thread_alone(call: Call) -> None:
    with cute_kernels.simulate() as simulation, ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(lambda: call(**call.arguments()))
        assert f"{call.main} is on cpu" in str(elsewhere.exception())
    assert not simulation.reports


class Gpus:
    """Two devices, of which one is current, and a kernel that notes where it was launched: all of a launch but the launch."""

    def __init__(self, current: int) -> None:
        self.current = current
        self.launched: list[tuple[int, int]] = []

    @contextlib.contextmanager
    def guard(self, index: int) -> Iterator[None]:
        before, self.current = self.current, index
        yield
        self.current = before

    def kernel(self, tensors: Any, blocks: int) -> None:
        self.launched.append((self.current, blocks))


@pytest.mark.parametrize("current", [0, 1])
def test_a_launch_goes_to_the_device_of_its_tensors(call: Call, current: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where that is not the current one, which is so again afterwards. Every plan of forward and backward, GPUs pretended."""
    gpus, clusters = Gpus(current), {0: 7, 1: 5}

    def run(self: Simulation, plan: Any, tensors: dict[str, Any], blocks: int) -> None:
        self.plans.append(plan)
        x = SimpleNamespace(device=torch.device("cuda", 1), is_cuda=True, shape=(10**6,))
        launch.launch(plan, tensors, x)  # type: ignore[arg-type]

    monkeypatch.setattr(Simulation, "run", run)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: gpus.current)
    monkeypatch.setattr(torch.cuda, "device", gpus.guard)
    monkeypatch.setattr(launch, "compiled", lambda plan: gpus.kernel)
    monkeypatch.setattr(launch, "clusters_at_once", lambda index, size: clusters[index])
    with cute_kernels.simulate() as simulation:
        arguments = call.arguments()
        call.gradients(arguments, torch.ones_like(call(**arguments)), call)
    expected = [plan.blocks(10**6, clusters[1] * plan.ctas_an_sm) for plan in simulation.plans]
    assert gpus.launched == [(1, blocks) for blocks in expected]
    assert gpus.current == current


def test_importing_survives_a_fork(call: Call) -> None:
    """The child of a process that has imported the operator runs it, and so does its parent after it."""
    lines = (
        "import os, cute_kernels, torch",
        "from cute_kernels.cli.catalogue import OPERATORS",
        "from tests.contract.conftest import Call, assert_right",
        f"call = Call(OPERATORS['{call.operator.name}'])",
        "call.operator.module('op')",
        "assert not torch.cuda.is_initialized()",
        "child = os.fork()",
        "with cute_kernels.simulate():",
        "    assert_right(call, call.arguments())",
        "if child:",
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_one_kernel_for_any_number_of_tokens(call: Call) -> None:
    kernels = []
    for m in (6, 1, 5, 131):
        with cute_kernels.simulate() as simulation:
            arguments = call.arguments(m=m)
            call.gradients(arguments, torch.ones_like(call(**arguments)), call)
        kernels.append(set(simulation.plans))
    assert kernels[0]
    assert all(found == kernels[0] for found in kernels)


def test_nothing_keeps_a_caller_s_tensor_alive(call: Call) -> None:
    def ran() -> list[weakref.ref]:
        arguments = call.arguments()
        leaves = {name: value.requires_grad_() for name, value in tensors(arguments).items()}
        copied = call.of_rows(arguments, lambda t: transposed(t.detach()))
        with cute_kernels.simulate():
            outs = [call(**arguments), call(**copied)]
            outs[0].backward(torch.ones_like(outs[0]))
        return [weakref.ref(t) for t in (*leaves.values(), *tensors(copied).values(), *outs)]

    kept = ran()
    gc.collect()
    assert not [name() for name in kept if name() is not None]
