"""Whole plans: derived arrivals and bytes, grids, consistency, and that a plan is a pure value."""

import dataclasses

import pytest

from cute_kernels.linear_norm.plan import LinearNorm, Tiling
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms.plan import Norm
from cute_kernels.norms.plan import plan as plan_rms_norm
from cute_kernels.plan import SM90A, SM100A, Memory, Plan, PlanError, Target, target

TARGETS = pytest.mark.parametrize("on", [SM90A, SM100A], ids=lambda target: target.arch)


def linear_norm(on: Target, n: int = 512, k: int = 512, **tiling: int) -> Plan:
    return plan_linear_norm(LinearNorm(k=k, n=n, dtype="bfloat16", tiling=Tiling(**tiling)), on)


@TARGETS
def test_equal_problems_give_equal_plans(on: Target) -> None:
    assert linear_norm(on) == linear_norm(on)
    assert hash(linear_norm(on)) == hash(linear_norm(on))
    assert linear_norm(on) != linear_norm(on, k=256)


def test_arrivals_on_hopper_are_derived_from_the_role_table() -> None:
    plan = linear_norm(SM90A)
    operands, mail = plan.ring("operands"), plan.ring("mail")
    assert plan.empty_arrivals(operands) == 2 * 4  # each warp of both consumers
    assert plan.empty_arrivals(mail) == 4 * 2  # each warp of the same consumer in both CTAs
    assert plan.stage_bytes(operands) == (128 * 64 + 256 * 64) * 2
    assert plan.stage_bytes(mail) == 2 * 64 * 4  # a float32 a row from each CTA, its own included
    assert plan.memory.barriers == 2 * operands.stages + 2 * (2 * mail.stages)


def test_arrivals_on_blackwell_are_derived_from_the_role_table() -> None:
    plan = linear_norm(SM100A)
    assert plan.empty_arrivals(plan.ring("operands")) == 1  # one commit of the tensor core
    assert plan.empty_arrivals(plan.ring("accumulators")) == 4  # each warp of the epilogue
    assert plan.stage_bytes(plan.ring("accumulators")) == 0
    assert plan.memory.tensor_memory is not None
    assert plan.memory.tensor_memory.allocated == 512


@TARGETS
@pytest.mark.parametrize(("n", "cluster"), [(64, 1), (256, 1), (320, 5), (384, 2), (512, 2), (1024, 4), (4096, 16)])
def test_a_row_is_shared_by_as_few_ctas_as_hold_it(on: Target, n: int, cluster: int) -> None:
    plan = linear_norm(on, n)
    assert plan.cluster == cluster
    assert plan.ring("mail").stages == (2 if cluster > 1 else 0)


@TARGETS
def test_stages_fill_what_shared_memory_is_left(on: Target) -> None:
    plan = linear_norm(on)
    stages = plan.ring("operands").stages
    assert plan.memory.bytes <= on.smem_bytes
    assert plan.memory.bytes + plan.stage_bytes(plan.ring("operands")) > on.smem_bytes or stages == 8
    assert linear_norm(on, stages_most=3).ring("operands").stages == 3


@TARGETS
@pytest.mark.parametrize(("n", "message"), [(17 * 64, "a cluster of 17 CTAs"), (8192, "a cluster of 32 CTAs")])
def test_rows_that_no_cluster_holds(on: Target, n: int, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        linear_norm(on, n)


def test_over_capacity_names_the_bytes_and_prints_the_table() -> None:
    with pytest.raises(PlanError, match="bytes of shared memory, sm_90a has 232448") as caught:
        linear_norm(SM90A, rows=1024)
    assert any(line.startswith("x_tiles") for line in str(caught.value).splitlines())


def test_grid() -> None:
    plan = linear_norm(SM90A)
    assert plan.blocks(1) == 2
    assert plan.blocks(129) == 4
    assert plan.blocks(10**9) == 132  # persistent: a CTA an SM
    assert plan.blocks(10**9, clusters_at_once=60) == 120
    one_each = plan_rms_norm(Norm(512, "bfloat16", vector=8), SM90A)
    assert one_each.blocks(10**9) == -(-(10**9) // one_each.rows)


@pytest.mark.parametrize("vector", [1, 8])
@pytest.mark.parametrize(
    ("n", "cluster"),
    [(1, 1), (64, 1), (1000, 1), (2048, 1), (8192, 1), (8200, 2), (16384, 2), (131072, 16), (131080, 16), (262144, 16)],
)
def test_rms_norm_cuts_a_row_among_threads_and_ctas(n: int, cluster: int, vector: int) -> None:
    plan = plan_rms_norm(Norm(n, "bfloat16", vector=vector), SM90A)
    x = plan.tensor("x")
    assert plan.cluster == cluster
    assert x.box[0] == plan.rows
    assert n <= x.box[1] * cluster < n + cluster * max(vector, 1)
    assert x.box[1] % x.vector == 0
    assert plan.roles.threads % plan.rows == 0


def test_barriers_that_do_not_match_the_rings_are_refused() -> None:
    plan = linear_norm(SM90A)
    with pytest.raises(PlanError, match="barriers placed"):
        dataclasses.replace(plan, memory=dataclasses.replace(plan.memory, barriers=1))


def test_members_that_do_not_match_the_roles_are_refused() -> None:
    plan = linear_norm(SM90A)
    memory: Memory = dataclasses.replace(plan.memory, members=(("multiply", 1),))
    with pytest.raises(PlanError, match="multiply has 2 members"):
        dataclasses.replace(plan, memory=memory)


def test_a_plan_prints_itself_and_its_reasons() -> None:
    text = str(linear_norm(SM90A))
    assert "linear_norm on sm_90a" in text
    assert "ring operands" in text
    assert text.count("why: ") >= 3


def test_unknown_architecture() -> None:
    with pytest.raises(ValueError, match="unknown architecture 'sm_80': cute_kernels knows sm_90a, sm_100a"):
        target("sm_80")
