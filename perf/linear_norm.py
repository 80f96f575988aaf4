"""linear_norm beside the product alone by cuBLAS and quack, and the unfused chain."""

from collections.abc import Sequence

import torch

import cute_kernels as ck
from cute_kernels.linear_norm import cases, reference
from perf.measure import Call, microseconds, sets_of
from perf.peers import quack_gemm
from perf.rule import checked
from perf.table import Row

CASES = tuple(
    cases.Case(m, k, n) for m in (8192, 262144) for k, n in ((512, 512), (1024, 512), (2048, 512), (1024, 1024))
)


def run(peers: Sequence[str]) -> list[Row]:
    return [row(case, peers) for case in CASES]


def row(case: cases.Case, peers: Sequence[str]) -> Row:
    """One case: checked first, then timed beside the product alone and the unfused chain."""
    sets = [cases.inputs(case, "cuda", seed) for seed in range(sets_of(cases.bytes_least(case)))]
    accuracy = checked(ck.linear_norm, reference, sets[0])
    products = [s["x"] @ s["weight"].mT for s in sets]
    pairs = list(zip(sets, products, strict=True))
    contenders: dict[str, list[Call]] = {
        "ours": [lambda s=s: ck.linear_norm(**s) for s in sets],  # type: ignore[misc]
        "cublas": [lambda s=s, z=z: torch.matmul(s["x"], s["weight"].mT, out=z) for s, z in pairs],  # type: ignore[misc]
    }
    if "quack" in peers:
        gemm = quack_gemm()
        contenders["quack gemm"] = [lambda s=s: gemm(s["x"], s["weight"].mT) for s in sets]  # type: ignore[misc]
    if "inductor" in peers:
        torch._dynamo.reset()
        chain = torch.compile(reference.linear_norm_pytorch)
        contenders["cublas + inductor"] = [lambda s=s: chain(**s) for s in sets]  # type: ignore[misc]
    times = microseconds(contenders)
    alone = min((n for n in times if n in ("cublas", "quack gemm")), key=times.__getitem__)
    rate = f"{2e-6 * case.m * case.n * case.k / times['ours']:.0f} TFLOP/s"
    if chained := times.get("cublas + inductor"):
        rate += f", {(chained - times['ours']) / (chained - times['cublas']):.0%} of the norm hidden"
    return Row("linear_norm", str(case), accuracy, times, alone, rate)
