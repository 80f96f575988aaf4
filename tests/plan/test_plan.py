"""Whole plans: derived arrivals and bytes, grids, consistency, and that a plan is a pure value."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from cute_kernels.linear_norm.plan import LinearNorm, Tiling
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms.plan import Norm, NormBackward
from cute_kernels.norms.plan import plan as plan_rms_norm
from cute_kernels.plan import SM90A, SM100A, Drain, Fill, Memory, Plan, PlanError, Roles, Target, target

Edit = Callable[[Plan], dict[str, Any]]  # what to replace in a plan
TARGETS = pytest.mark.parametrize("on", [SM90A, SM100A], ids=lambda target: target.arch)


def linear_norm(on: Target, n: int = 512, k: int = 512, **tiling: Any) -> Plan:
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
@pytest.mark.parametrize(("n", "cluster"), [(64, 1), (256, 1), (320, 2), (384, 2), (512, 2), (1024, 4), (4096, 16)])
def test_a_row_is_shared_by_as_few_ctas_as_hold_it(on: Target, n: int, cluster: int) -> None:
    plan = linear_norm(on, n)
    assert plan.cluster == cluster
    assert plan.ring("mail").stages == (2 if cluster > 1 else 0)


@TARGETS
@pytest.mark.parametrize(
    ("n", "cluster", "columns"), [(8, 1, 64), (24, 1, 64), (520, 3, 192), (768, 3, 256), (3000, 12, 256)]
)
def test_columns_are_cut_into_whole_parts_that_cover_them(on: Target, n: int, cluster: int, columns: int) -> None:
    plan = linear_norm(on, n)
    assert (plan.cluster, plan.products[0].tile[1], plan.width) == (cluster, columns, n)
    assert plan.slice(plan.tensor("y")) == columns


@pytest.mark.parametrize(("turns", "stages"), [(2, 8), (3, 8), (4, 7)])
def test_the_weight_stays_where_consumers_take_turns(turns: int, stages: int) -> None:
    plan = linear_norm(SM90A, turns=turns, columns_most=128)
    rows, weights, order = plan.ring("rows"), plan.ring("weights"), plan.ring("turns")
    assert (rows.stages, weights.stages, order.stages) == (stages, 8, turns)
    assert plan.memory["weight_tiles"].stage_bytes * weights.stages == 128 << 10
    assert plan.empty_arrivals(rows) == 4  # the warps of the member whose tile it is
    assert plan.empty_arrivals(weights) == 4 * turns
    assert plan.full_arrivals(order) == 4
    assert sum(r.threads * r.members * (r.registers or 0) for r in plan.roles) <= SM90A.registers


def test_where_ctas_load_x_for_each_other_all_of_them_release_it() -> None:
    plan = linear_norm(SM90A, n=1024, multicast=True)
    assert plan.tensor("x").shared
    assert not plan.tensor("weight").shared
    assert plan.empty_arrivals(plan.ring("operands")) == 4 * 2 * 4  # each warp of both consumers of four CTAs
    assert (
        plan.stage_bytes(plan.ring("operands")) == (128 * 64 + 256 * 64) * 2
    )  # a share from each CTA, and the own weight
    assert not linear_norm(SM90A, n=256, multicast=True).tensor("x").shared
    assert not linear_norm(SM100A, n=1024, multicast=True).tensor("x").shared


def test_shares_are_whole_swizzle_atoms() -> None:
    with pytest.raises(PlanError, match="x: 128 rows in shares of 8, 16, … for 3 CTAs"):
        linear_norm(SM90A, n=768, multicast=True)


def test_a_weight_that_does_not_fit_cannot_stay() -> None:
    with pytest.raises(PlanError, match="bytes of shared memory"):
        linear_norm(SM90A, k=1024, turns=2, columns_most=128)


@TARGETS
def test_stages_fill_what_shared_memory_is_left(on: Target) -> None:
    plan = linear_norm(on)
    stages = plan.ring("operands").stages
    assert plan.memory.bytes <= on.smem_bytes
    assert plan.memory.bytes + plan.stage_bytes(plan.ring("operands")) > on.smem_bytes or stages == 8
    assert linear_norm(on, stages_most=3).ring("operands").stages == 3


@TARGETS
@pytest.mark.parametrize(("n", "message"), [(4104, "a cluster of 17 CTAs"), (8192, "a cluster of 32 CTAs")])
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
    [(1, 1), (64, 1), (1000, 1), (2048, 1), (8192, 1), (16384, 1), (16392, 2), (131072, 8), (131080, 9), (262144, 16)],
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


def altered(things: tuple[Any, ...], name: str, /, **changes: Any) -> tuple[Any, ...]:
    """The same, the one of that name changed."""
    return tuple(dataclasses.replace(thing, **changes) if thing.name == name else thing for thing in things)


def buffers(name: str, /, **changes: Any) -> Edit:
    return lambda plan: {
        "memory": dataclasses.replace(plan.memory, buffers=altered(plan.memory.buffers, name, **changes))
    }


def part(field: str, name: str, /, **changes: Any) -> Edit:
    return lambda plan: {field: altered(getattr(plan, field), name, **changes)}


INCONSISTENT: list[tuple[Edit, str]] = [
    (part("rings", "operands", filled_by="store"), "ring operands: no role 'store'; there are load, multiply"),
    (part("rings", "operands", drained_by="store"), "ring operands: no role 'store'"),
    (part("rings", "mail", each="store"), "ring mail: no role 'store'"),
    (part("rings", "operands", stages=2), "ring operands has 2 stages, x_tiles has 4"),
    (part("rings", "operands", stages=-1), "ring operands has -1 stages"),
    (part("rings", "operands", carries=()), "ring operands carries nothing"),
    (
        part("rings", "operands", carries=("tiles",)),
        "no buffer 'tiles'; there are letters, x_tiles, weight_tiles, parts",
    ),
    (part("rings", "operands", carries=("parts",)), "ring operands is of the CTA, its parts of multiply"),
    (part("rings", "operands", fill=Fill.MMA), "the plan has no tensor memory"),
    (part("rings", "operands", drain=Drain.MMA), "ring operands: multiply issues no product into tensor memory"),
    (part("rings", "mail", name="operands"), "two rings have one name: operands, operands"),
    (part("tensors", "y", name="x"), "two tensors have one name: x, weight, x"),
    (part("tensors", "x", buffer="tiles"), "no buffer 'tiles'"),
    (part("tensors", "x", box=(64, 64)), r"x moves boxes of .*64, 64.*; a stage of x_tiles is .*128, 64"),
    (part("tensors", "x", dtype="float16"), "x moves boxes of .*float16.*; a stage of x_tiles is .*bfloat16"),
    (part("tensors", "x", dtype="int3"), "unknown dtype 'int3'; plans take bfloat16, float16, float32"),
    (part("products", "product", role="store"), "no role 'store'"),
    (part("products", "product", a="tiles"), "no buffer 'tiles'"),
    (part("products", "product", into="tmem"), "the plan has no tensor memory"),
    (part("products", "product", tile=(64, 128, 64)), "product takes .*; stages of x_tiles and weight_tiles are"),
    (part("stagings", "staging", role="store"), "no role 'store'"),
    (part("stagings", "staging", role="load"), "staging is of load, its parts of multiply"),
    (part("stagings", "staging", parts=3), "staging: 3 parts are no multiple of its buffer's stages"),
    (buffers("letters", shape=(1, 64)), "letters has places for 1 letters, the cluster 2 CTAs"),
    (buffers("parts", name="x_tiles"), "two buffers have one name"),
    (buffers("parts", each="store"), "parts: how many members 'store' has is not said"),
    (buffers("parts", over="tiles"), "no buffer before it 'tiles'"),
    (buffers("parts", stages=0), "parts has 0 stages"),
    (buffers("x_tiles", dtype="int3"), "unknown dtype 'int3'"),
    (lambda plan: {"rows": 0}, "0 rows a tile"),
    (lambda plan: {"cluster": 0}, "a cluster of 0 CTAs"),
    (lambda plan: {"ctas_an_sm": 0}, "0 CTAs an SM"),
    (lambda plan: {"roles": Roles(())}, "no roles"),
]


@pytest.mark.parametrize(("edit", "message"), INCONSISTENT, ids=[message for _, message in INCONSISTENT])
def test_parts_that_do_not_fit_each_other_are_refused_in_one_line(edit: Edit, message: str) -> None:
    plan = linear_norm(SM90A)
    with pytest.raises(PlanError) as caught:
        dataclasses.replace(plan, **edit(plan))
    assert re.match(message, str(caught.value).splitlines()[0])


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (part("rings", "accumulators", stages=1), "ring accumulators has 1 stages, tmem has 2"),
        (
            part("rings", "accumulators", carries=("parts",)),
            "ring accumulators carries 'parts'; tensor memory is 'tmem'",
        ),
        (part("products", "product", into="parts"), "product goes into 'parts', not 'tmem'"),
    ],
)
def test_parts_of_a_blackwell_plan_that_do_not_fit(edit: Edit, message: str) -> None:
    plan = linear_norm(SM100A)
    with pytest.raises(PlanError, match=message):
        dataclasses.replace(plan, **edit(plan))


@TARGETS
@pytest.mark.parametrize("problem", [{"n": 0}, {"n": 100}, {"k": 0}, {"dtype": "int3"}], ids=str)
def test_problems_that_linear_norm_has_no_plan_for(on: Target, problem: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        plan_linear_norm(LinearNorm(**{"k": 64, "n": 128, "dtype": "bfloat16", **problem}), on)


@pytest.mark.parametrize(
    "problem",
    [Norm(0, "bfloat16"), Norm(8, "int3"), Norm(8, "bfloat16", "int3"), NormBackward(0, "bfloat16")],
    ids=str,
)
def test_problems_that_the_norms_have_no_plan_for(problem: Norm | NormBackward) -> None:
    with pytest.raises(PlanError):
        plan_rms_norm(problem, SM90A)


def test_a_part_that_is_not_there_is_asked_for_by_name() -> None:
    plan = linear_norm(SM90A)
    with pytest.raises(PlanError, match="no ring 'tiles'; there are operands, mail"):
        plan.ring("tiles")
    with pytest.raises(PlanError, match="no tensor 'z'; there are x, weight, y"):
        plan.tensor("z")


def test_a_plan_prints_itself_and_its_reasons() -> None:
    text = str(linear_norm(SM90A))
    assert "linear_norm on sm_90a" in text
    assert "ring operands" in text
    assert text.count("why: ") >= 3


def test_unknown_architecture() -> None:
    with pytest.raises(ValueError, match="unknown architecture 'sm_80': cute_kernels knows sm_90a, sm_100a"):
        target("sm_80")


@pytest.mark.parametrize(
    ("problem", "teams"),
    [
        (Norm(512, "bfloat16", vector=8), 0),
        (Norm(2048, "bfloat16", vector=8), 4),
        (Norm(4096, "bfloat16", vector=8), 2),
        (Norm(8192, "bfloat16", vector=8), 0),
        (NormBackward(1024, "bfloat16", dweight=True, vector=8), 0),
        (NormBackward(2048, "bfloat16", dweight=True, vector=8), 0),
    ],
)
def test_rows_of_several_warps_are_teams_of_the_role(problem: Any, teams: int) -> None:
    """So that a row's meeting is never taken for the whole CTA's, in which the parameters' gradients are added."""
    (role,) = plan_rms_norm(problem, SM90A).roles
    assert role.teams == teams


def test_wgmma_is_for_whole_warpgroups() -> None:
    """From warps 1 to 4 it is an illegal instruction."""
    plan = linear_norm(SM90A)
    load, multiply = plan.roles
    unaligned = Roles((dataclasses.replace(load, registers=None), dataclasses.replace(multiply, registers=None)))
    with pytest.raises(PlanError, match="multiply has 4 warps from 1 on; wgmma takes whole warpgroups"):
        dataclasses.replace(plan, roles=unaligned)
