"""linear_norm beside the product alone by cuBLAS and quack, and beside two unfused chains: cuBLAS + Inductor's norm, quack's product + quack's norm."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

import cute_kernels as ck
from cute_kernels.linear_norm import cases, reference
from cute_kernels.plan import SM90A
from perf.measure import Call, microseconds, sets_of
from perf.peers import quack_gemm, quack_layer_norm, quack_rms_norm
from perf.rule import checked
from perf.table import Row

MATMUL_RATE = 790e12  # FLOP/s: the most that large cuBLAS products reached on an H200, at its power limit
EXTENTS = (128, 256, 512, 1024, 2048, 4096)
AFFINE: dict[str, Any] = {"norm_weight": "float32", "norm_bias": "float32"}  # what quack's layer norm takes too
Arguments = dict[str, Any]


def case_of(m: int, k: int, n: int, norm: str) -> cases.Case:
    """RMS without parameters; layer norm with both."""
    return cases.Case(m, k, n, norm=norm, **(AFFINE if norm == "layer" else {}))


SHAPES = ((512, 512), (1024, 512), (2048, 512), (1024, 1024))
CASES = tuple(case_of(m, k, n, norm) for m in (8192, 262144) for k, n in SHAPES for norm in ("rms", "layer"))
ALL = tuple(case_of(m, k, n, n_) for m in (8192, 262144) for k in EXTENTS for n in EXTENTS for n_ in ("rms", "layer"))


def run(peers: Sequence[str]) -> list[Row]:
    """The shapes of the README's table."""
    return [row(case, peers) for case in CASES]


def run_all(peers: Sequence[str]) -> list[Row]:
    """Every K and N of 128 to 4096: an hour, most of it compilation."""
    return [row(case, peers) for case in ALL]


def row(case: cases.Case, peers: Sequence[str]) -> Row:
    """One case: checked first, then timed beside the product alone and the unfused chains."""
    sets = [cases.inputs(case, "cuda", seed) for seed in range(sets_of(cases.bytes_least(case)))]
    accuracy = checked(ck.linear_norm, reference, sets[0])
    times = microseconds(contenders(case, sets, peers))
    alone = min((n for n in times if n in ("cublas", "quack gemm")), key=times.__getitem__)
    rate = f"{2e-6 * case.m * case.n * case.k / times['ours']:.0f} TFLOP/s, floor {floor(case):.0f} µs"
    for chain, product in (("cublas + inductor", "cublas"), ("quack gemm + norm", "quack gemm")):
        if chain in times:
            rate += f", {hidden(times['ours'], times[chain], times[product])} of {chain}'s norm hidden"
    return Row("linear_norm", str(case), accuracy, times, alone, rate)


def contenders(case: cases.Case, sets: Sequence[Arguments], peers: Sequence[str]) -> dict[str, list[Call]]:
    """Ours, the products alone and the chains, a call for every set."""
    products = [s["x"] @ s["weight"].mT for s in sets]
    pairs = list(zip(sets, products, strict=True))
    found: dict[str, list[Call]] = {
        "ours": [lambda s=s: ck.linear_norm(**s) for s in sets],  # type: ignore[misc]
        "cublas": [lambda s=s, z=z: torch.matmul(s["x"], s["weight"].mT, out=z) for s, z in pairs],  # type: ignore[misc]
    }
    if "quack" in peers:
        gemm, norm = quack_gemm(), quack_norm(case)
        found["quack gemm"] = [lambda s=s: gemm(s["x"], s["weight"].mT) for s in sets]  # type: ignore[misc]
        found["quack gemm + norm"] = [lambda s=s: norm(gemm(s["x"], s["weight"].mT), s) for s in sets]  # type: ignore[misc]
    if "inductor" in peers:
        torch._dynamo.reset()
        chain = torch.compile(reference.linear_norm_pytorch)
        found["cublas + inductor"] = [lambda s=s: chain(**s) for s in sets]  # type: ignore[misc]
    return found


def quack_norm(case: cases.Case) -> Callable[[torch.Tensor, Arguments], Any]:
    """quack's norm of a product, with the case's parameters."""
    if case.norm == "layer":
        layer = quack_layer_norm()
        return lambda z, s: layer(z, s["norm_weight"], 0.0, s["norm_bias"])
    rms = quack_rms_norm()
    return lambda z, s: rms(z, None, 0.0)


def hidden(ours: float, unfused: float, product: float) -> str:
    """Which share of the norm the fusion saves: (unfused − fused) / (unfused − product alone)."""
    return f"{(unfused - ours) / (unfused - product):.0%}"


def floor(case: cases.Case) -> float:
    """Microseconds of an H200 that did nothing but the FLOPs, or nothing but move the bytes."""
    flops, moved = 2 * case.m * case.n * case.k / MATMUL_RATE, cases.bytes_least(case) / SM90A.copy_rate
    return 1e6 * max(flops, moved)
