"""What a call costs the host: the launch path of a compiled kernel, and the whole eager call of the operator."""

import time
from collections.abc import Callable
from typing import Any

import torch

import cute_kernels as ck
from cute_kernels.linear_norm import cases as linear_norm_cases
from cute_kernels.norms import cases as norms_cases
from cute_kernels.runtime import launch

CALLS = 300


def per_call(call: Callable[[], object]) -> float:
    """Microseconds of host time a call, the GPU far behind: kernels this small never fill the queue."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    spent = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * spent / CALLS


def launches(call: Callable[[], object]) -> Callable[[], object]:
    """The innermost launch that `call` comes down to: the compiled kernel with its tensors and grid."""
    caught: list[Callable[[], object]] = []
    execute = launch.compiled

    def catch(plan: object) -> Callable[..., None]:
        kernel = execute(plan)  # type: ignore[arg-type]

        def run(tensors: dict[str, torch.Tensor], blocks: int) -> None:
            caught.append(lambda: kernel(tensors, blocks))
            kernel(tensors, blocks)

        return run

    launch.compiled = catch
    try:
        call()
    finally:
        launch.compiled = execute
    return caught[0]


def report() -> str:
    """One line an operator."""
    x = norms_cases.inputs(norms_cases.Case(64, 512, weight="float32"), "cuda")
    z: dict[str, Any] = linear_norm_cases.inputs(linear_norm_cases.Case(128, 64, 512), "cuda")
    lines = ["host time a call: launch path / whole eager call / torch.matmul beside it"]
    for name, call in (("rms_norm", lambda: ck.rms_norm(**x)), ("linear_norm", lambda: ck.linear_norm(**z))):
        path, whole = per_call(launches(call)), per_call(call)
        beside = per_call(lambda: z["x"] @ z["weight"].mT)
        lines.append(f"{name:12} {path:.1f} µs / {whole:.1f} µs / {beside:.1f} µs")
    return "\n".join(lines)
