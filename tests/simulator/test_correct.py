"""The kernels' results in the simulator, over shapes, dtypes, cluster sizes and strategies."""

from dataclasses import replace

import numpy as np
import pytest

from cute_kernels import simulator
from cute_kernels.linear_norm.plan import blackwell, hopper
from cute_kernels.norms.plan import Norm, NormBackward
from cute_kernels.plan import SM90A, SM100A, Target
from tests.simulator.kernels import EVERYTHING, STANDARD, TINY, linear_norm, norm, norm_backward

TARGETS = pytest.mark.parametrize("target", [SM90A, SM100A], ids=lambda t: t.arch)


@TARGETS
@pytest.mark.parametrize("m", [1, 15, 16, 17, 24, 100])
def test_linear_norm_over_ragged_rows(target: Target, m: int) -> None:
    kernel = linear_norm(m=m, target=target)
    kernel.run()
    kernel.check()


@TARGETS
@pytest.mark.parametrize("k", [1, 8, 9, 40, 63, 136])
def test_linear_norm_over_k_whole_or_not(target: Target, k: int) -> None:
    kernel = linear_norm(k=k, target=target)
    kernel.run()
    kernel.check()


@TARGETS
@pytest.mark.parametrize(("n", "cluster"), [(16, 1), (32, 2), (48, 3), (64, 4), (128, 8)])
def test_linear_norm_over_clusters(target: Target, n: int, cluster: int) -> None:
    kernel = linear_norm(m=50, n=n, target=target)
    assert kernel.plan.cluster == cluster
    kernel.run()
    kernel.check()


@TARGETS
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_linear_norm_over_dtypes(target: Target, dtype: str) -> None:
    kernel = linear_norm(dtype=dtype, target=target)
    kernel.run()
    kernel.check()


@TARGETS
def test_linear_norm_with_rings_of_the_smallest_size(target: Target) -> None:
    tiling = replace(TINY, stages_most=2, staged=1, letters=1, accumulators=1)
    for seed in range(20):
        kernel = linear_norm(target=target, tiling=tiling)
        kernel.run(seed=seed)
        kernel.check()


@TARGETS
def test_linear_norm_at_its_real_tile(target: Target) -> None:
    kernel = linear_norm(m=300, k=200, n=512, target=target, tiling=type(TINY)())
    kernel.run()
    kernel.check()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize(
    ("n", "row", "cluster"), [(1, 64, 1), (40, 64, 1), (40, 20, 2), (41, 16, 3), (64, 16, 4), (64, 8, 8)]
)
def test_rms_norm(dtype: str, n: int, row: int, cluster: int) -> None:
    kernel = norm(45, Norm(n, dtype, "float32", weight_offset=1.0, row=row))
    assert kernel.plan.cluster == cluster
    kernel.run()
    kernel.check()


@TARGETS
@pytest.mark.parametrize(("n", "row", "cluster"), [(1, 64, 1), (33, 64, 1), (41, 16, 3), (64, 8, 8)])
def test_layer_norm_with_all_it_returns(target: Target, n: int, row: int, cluster: int) -> None:
    kernel = norm(45, Norm(n, "float32", "float32", "float32", 0.5, row=row, **EVERYTHING), target)
    assert kernel.plan.cluster == cluster
    kernel.run()
    kernel.check()


@TARGETS
@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize(("n", "row", "cluster"), [(7, 64, 1), (33, 64, 1), (41, 16, 3), (64, 8, 8)])
def test_norm_backward(target: Target, centre: bool, n: int, row: int, cluster: int) -> None:
    for asked in ({"dweight": True, "dbias": True}, {"dx": False, "dweight": True}, {"residual": True, "dsum": True}):
        kernel = norm_backward(300, NormBackward(n, "float32", "float32", 0.5, centre=centre, row=row, **asked), target)
        assert kernel.plan.cluster == cluster
        kernel.run()
        kernel.check()


def test_rms_norm_without_a_weight_in_vectors() -> None:
    kernel = norm(45, Norm(64, "float16", vector=8, row=24))
    kernel.run()
    kernel.check()


@pytest.mark.parametrize("strategy", simulator.STRATEGIES)
@pytest.mark.parametrize("name", STANDARD)
def test_every_strategy(name: str, strategy: str) -> None:
    kernel = STANDARD[name]()
    kernel.run(strategy=strategy)
    kernel.check()


def test_more_clusters_than_are_held_at_once() -> None:
    kernel = norm(256 * 20, Norm(8, "float32"))
    report = kernel.run()
    assert report.blocks > 8
    kernel.check()


def test_no_rows() -> None:
    kernel = linear_norm(m=0)
    report = kernel.run()
    assert report.verbs == report.blocks == 0


def test_a_row_of_nan_stays_a_row_of_nan() -> None:
    kernel = linear_norm(m=40)
    kernel.arrays["x"][7] = np.nan
    kernel.run()
    broken = np.isnan(kernel.arrays["y"].astype(np.float32)).any(axis=1)
    assert broken.tolist() == [row == 7 for row in range(40)]


def test_traffic_is_counted_from_the_copies() -> None:
    kernel = linear_norm(m=40, k=20, n=32)
    report = kernel.run()
    tiles, cluster = 3, 2
    assert report.bytes_read == 2 * (cluster * 40 * 20 + tiles * 32 * 20)
    assert report.bytes_written == 2 * 40 * 32
    assert report.mma_flops == 2 * tiles * 16 * 32 * 24
    assert report.dsmem_bytes == 4 * tiles * 16 * cluster * (cluster - 1)


@pytest.mark.parametrize(
    ("name", "array", "match"),
    [
        ("x", np.zeros((40, 32), np.float32), "x is float32"),
        ("x", np.zeros((40, 33), "bfloat16"), "x has shape"),
        ("y", np.zeros((41, 32), "bfloat16"), "y has shape"),
        ("x", np.zeros(40, "bfloat16"), "x has shape"),
    ],
)
def test_arrays_that_do_not_fit_the_plan(name: str, array: np.ndarray, match: str) -> None:
    kernel = linear_norm(m=40)
    kernel.arrays[name] = array
    with pytest.raises(ValueError, match=match):
        kernel.run()


def test_a_ring_of_one_stage_works_where_no_stage_is_held_back() -> None:
    """On Blackwell the tensor core releases a stage by itself. Hopper's mainloop holds one back, so it takes two."""
    for seed in range(10):
        kernel = linear_norm(target=SM100A)
        one = replace(kernel, plan=blackwell(kernel.plan.problem, SM100A, stages=1))
        one.run(seed=seed)
        one.check()
    kernel = linear_norm(target=SM90A)
    with pytest.raises(simulator.Deadlock, match=r"operands\[0\] full of CTA 0, phase 1"):
        replace(kernel, plan=hopper(kernel.plan.problem, SM90A, stages=1)).run()
