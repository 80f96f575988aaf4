"""Every verb's program with the shapes and dtypes it is tried on. Inputs are small integers, so answers are exact."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch

from cute_kernels.hyper_connection.plan import Post, Pre, Project
from cute_kernels.hyper_connection.plan import plan as plan_streams
from cute_kernels.linear_norm.plan import LinearNorm, Tiling
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms.plan import Norm, NormBackward
from cute_kernels.norms.plan import plan as plan_norm
from cute_kernels.plan import SM90A, Plan, Roles
from tests.verbs import programs

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Case:
    """A program in a plan, rows of input, and the answers by the outputs' names as a function of the float32 inputs."""

    name: str
    plan: Plan
    rows: int
    answer: Callable[[Plan, Tensors], Tensors]
    approximate: float = 0.0  # relative error allowed before rounding

    @property
    def blocks(self) -> int:
        """CTAs to run it on: few, so that each walks over several tiles."""
        return self.plan.blocks(self.rows, clusters_at_once=2)

    def inputs(self) -> Tensors:
        """Small integers, and outputs of NaN."""
        generator = torch.Generator().manual_seed(self.rows)
        sizes = {"m": self.rows, "clusters": self.blocks // self.plan.cluster}
        made: Tensors = {}
        for tensor in self.plan.tensors:
            shape = [extent if isinstance(extent, int) else sizes[extent] for extent in tensor.extents]
            dtype = getattr(torch, tensor.dtype)
            values = torch.randint(-2, 3, shape, generator=generator).to(dtype)
            made[tensor.name] = torch.full(shape, torch.nan, dtype=dtype) if tensor.output else values
        return made

    def expected(self, tensors: Tensors) -> Tensors:
        """The answers, rounded to the outputs' dtypes."""
        answers = self.answer(self.plan, {name: tensor.float() for name, tensor in tensors.items()})
        return {name: answer.to(tensors[name].dtype) for name, answer in answers.items()}


def with_program(plan: Plan, role: str, program: Callable[..., Any], walks: bool = True) -> Plan:
    """The plan with another program in one role, its CTAs walking over tiles so that rings turn, where they may."""
    table = tuple(replace(r, program=program) if r.name == role else r for r in plan.roles.table)
    return replace(plan, roles=Roles(table), persistent=walks)


def slices(plan: Plan, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """x's columns by the CTA of the cluster that holds them."""
    return x.split(plan.tensor("x").box[1], dim=1)


def by_slice(plan: Plan, x: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> Tensors:
    """y as a function of each CTA's columns."""
    return {"y": torch.cat([function(part) for part in slices(plan, x)], dim=1)}


def copied(plan: Plan, t: Tensors) -> Tensors:
    return {"y": t["x"]}


def scaled(plan: Plan, t: Tensors) -> Tensors:
    return {"y": t["x"] * t["weight"] + 1}


def scaled_and_combined(plan: Plan, t: Tensors) -> Tensors:
    return {"y": t["x"] * t["weight"] + t["residual"]}


def summed(plan: Plan, t: Tensors) -> Tensors:
    return by_slice(plan, t["x"], lambda s: s + s.sum(1, keepdim=True))


def counted(plan: Plan, t: Tensors) -> Tensors:
    return by_slice(plan, t["x"], lambda s: torch.full_like(s, s.shape[1]))


def rooted(plan: Plan, t: Tensors) -> Tensors:
    return by_slice(plan, t["x"], lambda s: s.double().square().sum(1, keepdim=True).rsqrt().expand_as(s))


def paired(plan: Plan, t: Tensors) -> Tensors:
    return {"y": 2 * t["x"] + t["residual"] + (t["x"] * t["residual"]).sum(1, keepdim=True)}


def summed_thrice(plan: Plan, t: Tensors) -> Tensors:
    x, r = t["x"], t["residual"]
    return {"y": x + (x + 2 * (x + 1) * r + 3 * r).sum(1, keepdim=True)}


def rows_written(plan: Plan, t: Tensors) -> Tensors:
    return {"y": t["x"], "rstd": t["x"].sum(1), "mean": t["x"].square().sum(1)}


def rows_read(plan: Plan, t: Tensors) -> Tensors:
    return {"dx": t["x"] * t["rstd"][:, None] + t["mean"][:, None]}


def columns_summed(plan: Plan, t: Tensors) -> Tensors:
    """Each cluster's sums over the tiles it walks."""
    clusters = len(t["dweight"])
    of = torch.arange(len(t["x"])) // plan.rows % clusters
    rows = [of == cluster for cluster in range(clusters)]
    products = torch.stack([(t["x"] * t["dy"])[own].sum(0) for own in rows])
    return {"dweight": products, "dbias": torch.stack([2 * t["x"][own].sum(0) for own in rows])}


def exchanged(plan: Plan, t: Tensors) -> Tensors:
    x = t["x"]
    return {"y": x + sum((rank + 1) * s.sum(1, keepdim=True) for rank, s in enumerate(slices(plan, x)))}


def multiplied(plan: Plan, t: Tensors) -> Tensors:
    return {"y": t["x"] @ t["weight"].T}


def multiplied_and_summed(plan: Plan, t: Tensors) -> Tensors:
    columns = plan.products[0].tile[1]
    parts = (t["x"] @ t["weight"].T).split(columns, dim=1)
    return {"y": torch.cat([z + z.sum(1, keepdim=True) for z in parts], dim=1)}


def completed(plan: Plan, t: Tensors) -> Tensors:
    return {"y": t["x"] @ t["weight"].T * t["norm_weight"] + 2 * t["residual"]}


def columns_counted(plan: Plan, t: Tensors) -> Tensors:
    parts = (t["x"] @ t["weight"].T).split(plan.products[0].tile[1], dim=1)
    return {"y": torch.cat([torch.full_like(z, z.shape[1]) for z in parts], dim=1), "rstd": parts[0].sum(1)}


def combined(plan: Plan, t: Tensors) -> Tensors:
    f, x, y, comb = t["f"], t["x0"], t["x1"], t["comb"]
    return {"out0": f * t["post"][:, :1] + y * comb[:, 1:2], "out1": x - comb[:, 3:4]}


def of_split_tables(plan: Plan, t: Tensors) -> Tensors:
    """What stream_sums and sum_splits find."""
    n, dot = plan.problem.n, t["dot_mix"].sum(0)
    return {
        "layer_input": t["x0"] * t["sqrsum"].sum(0) + dot[:, -1:],
        "post": t["base"][:n].expand(len(dot), n),
        "comb": dot[:, 2 * n :],
    }


def transcendental(plan: Plan, t: Tensors) -> Tensors:
    n, dot = plan.problem.n, t["dot_mix"].sum(0).double()
    comb = dot[:, 2 * n :]
    return {
        "layer_input": of_split_tables(plan, t)["layer_input"],
        "post": dot[:, :n].exp(),
        "comb": 1 / (comb.maximum(comb[:, :1]) + 1000),
    }


def stream_cases() -> Iterator[Case]:
    """Tables, slices, and what coefficients are computed with; lanes that share a token: 1 to 128."""
    for h, vector in ((8, 8), (200, 8), (77, 1), (5000, 8)):
        plan = plan_streams(Post(2, h, vector=vector), SM90A)
        plan = with_program(plan, "mix", programs.combine_streams, walks=False)
        yield Case(f"combine_streams-{h}-vector{vector}", plan, 37, combined)
        for n, splits in ((4, 1), (4, 2), (2, 3), (8, 16), (4, 40)):
            plan = plan_streams(Pre(n, h, splits=splits, vector=vector), SM90A)
            plan = with_program(plan, "collapse", programs.stream_sums, walks=False)
            for program, answer in ((programs.sum_splits, of_split_tables), (programs.transcendentals, transcendental)):
                name = f"{program.__name__}-{h}-vector{vector}-{n}-splits{splits}"
                approximate = 2**-17 if answer is transcendental else 0.0
                yield Case(name, with_program(plan, "coefficients", program, walks=False), 37, answer, approximate)


def projected(plan: Plan, t: Tensors) -> Tensors:
    """Of each part of the steps along K, two terms of the weight added, and squares."""
    problem, x = plan.problem, t["x"]
    weight = t["weight"].view(2, problem.mixes, problem.k).sum(0)
    edges = [part * problem.steps // problem.splits * problem.depth for part in range(problem.splits + 1)]
    parts = [slice(start, stop) for start, stop in pairwise(edges)]
    dots = torch.stack([x[:, part] @ weight[:, part].T for part in parts])
    return {"dot_mix": dots, "sqrsum": torch.stack([x[:, part].square().sum(1, keepdim=True) for part in parts])}


def projection_cases() -> Iterator[Case]:
    """read_stage and write_accumulator, in the program that is made of them."""
    for n, h, splits, dtype in ((2, 72, 1, "float16"), (4, 160, 3, "bfloat16"), (4, 1280, 8, "bfloat16")):
        plan = plan_streams(Project(n, h, dtype, splits), SM90A)
        yield Case(f"project-300x{h}x{n}-splits{splits}-{dtype}", plan, 300, projected)


def norm_case(program: Any, answer: Any, rows: int, problem: Norm | NormBackward, approximate: float = 0.0) -> Case:
    role = "normalise" if isinstance(problem, Norm) else "differentiate"
    plan = with_program(plan_norm(problem, SM90A), role, program)
    name = f"{program.__name__}-{rows}x{problem.n}-{problem.dtype}-vector{problem.vector}-cluster{plan.cluster}"
    return Case(name, plan, rows, answer, approximate)


def product_case(program: Any, answer: Any, rows: int, problem: LinearNorm) -> Case:
    plan = with_program(plan_linear_norm(problem, SM90A), "multiply", program)
    how = f"-turns{problem.tiling.turns}" if problem.tiling.turns else ""
    how += "-multicast" if problem.tiling.multicast else ""
    return Case(f"{program.__name__}-{rows}x{problem.n}x{problem.k}-{problem.dtype}{how}", plan, rows, answer)


def cases() -> Iterator[Case]:
    """All of them."""
    for dtype, vector in (("bfloat16", 8), ("bfloat16", 1), ("float16", 2), ("float32", 4), ("float32", 1)):
        for n in (8, 200, 1000, 2048):
            yield norm_case(programs.copy, copied, 37, Norm(n, dtype, vector=vector))
            yield norm_case(programs.sum_rows, summed, 21, Norm(n, dtype, vector=vector))
        scale = Norm(2000, dtype, weight_dtype="float32", vector=min(vector, 4))
        yield from (
            norm_case(programs.scale_columns, scaled, 19, replace(scale, centre=centre)) for centre in (False, True)
        )
        yield norm_case(programs.combine_scaled, scaled_and_combined, 19, replace(scale, residual=True))
        yield norm_case(programs.inverse_roots, rooted, 9, Norm(512, dtype, vector=vector), approximate=2**-21)
        for n in (8, 200, 1000):
            yield from norm_option_cases(n, dtype, vector)
    yield from stream_cases()
    yield from projection_cases()
    for n in (7, 33, 1001, 9000):
        yield norm_case(programs.copy, copied, 130, Norm(n, "float16", vector=1))
        yield norm_case(programs.count_columns, counted, 130, Norm(n, "float32", vector=1))
        yield from norm_option_cases(min(n, 3000), "float16", 1)
    yield norm_case(programs.count_columns, counted, 130, Norm(200, "float32", vector=4, row=64))
    for cluster in (2, 3, 5, 8, 16):
        problem = Norm(128 * cluster, "float32", vector=4, row=128)
        yield norm_case(programs.exchange, exchanged, 200, problem)
    for dtype in ("bfloat16", "float16"):
        for n, k in ((64, 64), (256, 8), (512, 200), (768, 64)):
            yield product_case(programs.multiply, multiplied, 300, LinearNorm(k, n, dtype))
        yield product_case(programs.sum_accumulator_rows, multiplied_and_summed, 300, LinearNorm(64, 512, dtype))
        yield from accumulator_cases(dtype)


def accumulator_cases(dtype: str) -> Iterator[Case]:
    """What linear_norm's options use on accumulators, whole slices and ragged ones; and consumers that take turns."""
    for n in (8, 64, 512, 520, 776):
        options: dict[str, Any] = {"norm_weight_dtype": "float32" if n == 520 else dtype, "residual": True}
        yield product_case(programs.complete_accumulator, completed, 300, LinearNorm(64, n, dtype, **options))
        counts = LinearNorm(64, n, dtype, return_stats=True)
        yield product_case(programs.count_accumulator_columns, columns_counted, 300, counts)
    for turns, multicast in ((2, False), (3, True), (4, False)):
        for rows, n, k in ((1, 128, 8), (700, 512, 200)):
            tiling = Tiling(turns=turns, columns_most=128, multicast=multicast)
            yield product_case(programs.multiply_by_turns, multiplied, rows, LinearNorm(k, n, dtype, tiling=tiling))
    for n in (512, 1024):
        yield product_case(programs.multiply, multiplied, 300, LinearNorm(200, n, dtype, tiling=Tiling(multicast=True)))


def norm_option_cases(n: int, dtype: str, vector: int) -> Iterator[Case]:
    """What only some norms use: second tiles, vectors along the rows, sums over rows."""
    forward, backward = partial(Norm, n, dtype, vector=vector), partial(NormBackward, n, dtype, vector=vector)
    yield norm_case(programs.pair, paired, 35, forward(residual=True))
    yield norm_case(programs.sum_thrice, summed_thrice, 35, forward(residual=True))
    yield norm_case(programs.write_row_sums, rows_written, 35, forward(centre=True, return_stats=True))
    yield norm_case(programs.read_row_factors, rows_read, 35, backward(centre=True))
    sums = backward(dx=False, dweight=True, dbias=True)
    yield norm_case(programs.sum_columns, columns_summed, 700 if n < 100 else 35, sums)
