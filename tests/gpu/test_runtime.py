"""Streams, threads, devices, captures, processes and sizes, on the GPU: what the contract says of every operator's runtime."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import cute_kernels as ck
from cute_kernels.cli.catalogue import OPERATORS
from cute_kernels.runtime import launch
from tests.contract.conftest import Call, tensors
from tests.contract.test_inputs import LAYOUTS
from tests.gpu.test_operators import CALLS

ROOT = Path(__file__).resolve().parents[2]
THREADS, TURNS = 8, 50
Arguments = dict[str, Any]
Operation = tuple[Callable[..., torch.Tensor], Arguments]


@pytest.fixture(params=CALLS)
def operation(request: pytest.FixtureRequest) -> Operation:
    """An operator, or the gradient of one, and its arguments."""
    return CALLS[request.param]()


@pytest.fixture(params=[name for name in CALLS if "dx" not in name])
def forward(request: pytest.FixtureRequest) -> Operation:
    """An operator and its arguments."""
    return CALLS[request.param]()


class Exported:
    """An array of another library: of a tensor only what DLPack asks for."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


def test_arrays_of_other_libraries(forward: Operation) -> None:
    operator, arguments = forward
    exported = {n: Exported(value) for n, value in arguments.items() if isinstance(value, torch.Tensor)}
    y = operator(**arguments | exported)
    assert y.device == arguments["x"].device
    assert torch.equal(y, operator(**arguments))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_every_tensor(operation: Operation, layout: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """A narrower move may add a row in another order, so bits may differ."""
    operator, arguments = operation
    arguments = arguments | {"x": arguments["x"][:300]}
    changed = {n: layout(value) for n, value in arguments.items() if isinstance(value, torch.Tensor)}
    expected = operator(**arguments).float()
    for name, value in changed.items():
        torch.testing.assert_close(operator(**arguments | {name: value}).float(), expected, rtol=2**-6, atol=2**-6)
    torch.testing.assert_close(operator(**arguments | changed).float(), expected, rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_opcheck(name: str, grad: bool) -> None:
    call = Call(OPERATORS[name])
    arguments = moved(call.arguments(), "cuda")
    for value in tensors(arguments).values():
        value.requires_grad_(grad)
    assert set(torch.library.opcheck(*call.registered(arguments)).values()) == {"SUCCESS"}


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_inductor_gives_the_bits_of_eager(forward: Operation, mode: str) -> None:
    """With and without CUDA graphs, which Inductor captures at its second call; doubling rounds nothing."""
    torch._dynamo.reset()
    operator, arguments = forward
    compiled = torch.compile(lambda **given: operator(**given) * 2, fullgraph=True, mode=mode)
    for _ in range(4):
        assert torch.equal(compiled(**arguments), operator(**arguments) * 2)


def test_autocast_with_float32_weights(forward: Operation) -> None:
    operator, arguments = forward
    expected = operator(**arguments)
    wide = {"weight": arguments["weight"].float()} if "weight" in arguments else {}
    with torch.autocast("cuda", torch.bfloat16):
        assert torch.equal(operator(**arguments | wide), expected)


def moved(arguments: Arguments, device: str) -> Arguments:
    return {n: value.to(device) if isinstance(value, torch.Tensor) else value for n, value in arguments.items()}


def test_threads_on_streams_of_their_own(operation: Operation) -> None:
    """Each thread has its input, which arrives on its stream late, and looks at every result it gets."""
    operator, arguments = operation
    inputs = [arguments["x"] * 2.0**-number + number for number in range(THREADS)]
    expected = [operator(**{**arguments, "x": x}) for x in inputs]
    torch.cuda.synchronize()

    def work(number: int) -> int:
        equal = 0
        with torch.cuda.stream(torch.cuda.Stream()):
            x = torch.zeros_like(inputs[number])
            torch.cuda._sleep(10_000_000)
            x.copy_(inputs[number])
            for _ in range(TURNS):
                equal += torch.equal(operator(**{**arguments, "x": x}), expected[number])
        return equal

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(work, range(THREADS))) == [TURNS] * THREADS


def test_threads_that_compile_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """First calls of several kernels, each from two threads, with an empty cache; then again from the disk."""
    monkeypatch.setenv("CUTE_KERNELS_CACHE", str(tmp_path))
    x = torch.randn(100, 1000, device="cuda", dtype=torch.bfloat16)
    scales = [float(number) for number in range(4)] * 2
    for _ in range(2):
        monkeypatch.setattr(launch, "_ready", {})
        with ThreadPoolExecutor(len(scales)) as pool:
            found = list(pool.map(lambda eps: ck.rms_norm(x, eps=eps), scales))
        for y, eps in zip(found, scales, strict=True):
            exact = OPERATORS["rms_norm"].reference(x=x, eps=eps)
            torch.testing.assert_close(y.double(), exact, rtol=2**-8, atol=1e-6)
        assert len(list(tmp_path.glob("*.so"))) == len(set(scales))


def test_the_first_call_inside_a_capture_says_what_to_do(forward: Operation, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, arguments = forward
    expected = operator(**arguments)
    monkeypatch.setattr(launch, "_ready", {})
    with pytest.raises(RuntimeError, match="call it once before the capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        operator(**arguments)
    assert torch.equal(operator(**arguments), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = operator(**arguments)
    y.fill_(torch.nan)
    graph.replay()
    assert torch.equal(y, expected)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs; the path up to the launch: tests/contract")
def test_a_device_that_is_not_current(operation: Operation) -> None:
    operator, arguments = operation
    expected = operator(**arguments)
    assert torch.cuda.current_device() == 0
    y = operator(**moved(arguments, "cuda:1"))
    assert torch.cuda.current_device() == 0
    assert y.device == torch.device("cuda:1")
    assert torch.equal(y.to("cuda:0"), expected)


def test_no_tokens_leave_no_error_behind(operation: Operation) -> None:
    operator, arguments = operation
    expected = operator(**arguments)
    by_row = {n: value[:0] for n, value in arguments.items() if n in ("x", "residual")}
    assert operator(**arguments | by_row).shape == (0, expected.shape[1])
    torch.cuda.synchronize()
    assert torch.equal(operator(**arguments), expected)


def test_more_rows_than_a_grid_s_y_holds() -> None:
    """A CTA a row, then a tile a cluster; the last rows by themselves are the same bit by bit."""
    x = torch.randn(70001, 8192, device="cuda", dtype=torch.bfloat16)
    assert torch.equal(ck.rms_norm(x)[-300:], ck.rms_norm(x[-300:]))
    x = torch.randn(65537 * 128 + 1, 8, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(64, 8, device="cuda", dtype=torch.bfloat16)
    y = ck.linear_norm(x, weight, norm="rms")
    assert torch.equal(y[-300:], ck.linear_norm(x[-300:], weight, norm="rms"))


def test_importing_survives_a_fork() -> None:
    """The child of a process that has imported everything uses the GPU, and so does its parent after it."""
    lines = (
        "import os, torch, cute_kernels as ck",
        "ck.rms_norm, ck.linear_norm",
        "assert not torch.cuda.is_initialized()",
        "child = os.fork()",
        "x = torch.randn(50, 512, device='cuda')",
        "torch.testing.assert_close(ck.rms_norm(x), torch.nn.functional.rms_norm(x, (512,), eps=1e-6))",
        "if child:",
        "    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0",
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
