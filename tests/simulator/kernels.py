"""The kernels the simulator's tests run, at sizes at which a run takes milliseconds, with their answers in float64."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cute_kernels import simulator
from cute_kernels.hyper_connection import streams
from cute_kernels.hyper_connection.plan import Parts, Post, PostBackward, Pre, PreBackward, Project
from cute_kernels.hyper_connection.plan import plan as plan_streams
from cute_kernels.linear_norm.plan import LinearNorm, Tiling
from cute_kernels.linear_norm.plan import plan as plan_linear_norm
from cute_kernels.norms.plan import Norm, NormBackward
from cute_kernels.norms.plan import plan as plan_norm
from cute_kernels.plan import SM90A, SM100A, Plan, Roles, Target
from cute_kernels.simulator.memory import NUMPY

TINY = Tiling(rows=16, columns_most=16, depth=8, part=4)
IN_TURN = replace(TINY, turns=3, turn_rows=8)
SHARED = replace(TINY, rows=16, multicast=True)  # a share is 8 rows of a cluster of two
SHARED_IN_TURN = replace(IN_TURN, turn_rows=16, multicast=True)
TINY_NORMED = Pre(4, 300, normed=True, elements=1, repeats=2)  # a cluster of 3
TINY_PROJECT = Project(2, 40, splits=2, rows=16, depth=8)
EVERYTHING: dict[str, Any] = {"centre": True, "residual": True, "return_sum": True, "return_stats": True}
EVERY_OPTION: dict[str, Any] = {
    "norm": "layer", "bias_dtype": "bfloat16", "norm_weight_dtype": "float32", "norm_bias_dtype": "float32",
    "residual": True, "return_z": True, "return_stats": True,
}  # fmt: skip
EVERY_GRADIENT: dict[str, Any] = {"centre": True, "residual": True, "dsum": True, "dweight": True, "dbias": True}
ROUNDING = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 0.0}  # relative, of one rounding
Arrays = dict[str, Any]


@dataclass(frozen=True)
class Kernel:
    """A plan, its arrays (outputs of NaN) and the right answers by the outputs' names, partial sums added."""

    plan: Plan
    arrays: Arrays
    answers: Arrays

    @property
    def m(self) -> int:
        """Rows."""
        return len(self.arrays[self.plan.tensors[0].name])

    @property
    def bits(self) -> bytes:
        """Of all outputs."""
        return b"".join(self.arrays[name].tobytes() for name in self.answers)

    def run(self, **options: Any) -> simulator.Report:
        """Run it on the arrays in place."""
        return simulator.run(self.plan, self.arrays, **options)

    def check(self) -> None:
        """Every element within one rounding of the answer, and float32's own, which grow with the rows that are summed."""
        assert set(self.answers) == {tensor.name for tensor in self.plan.tensors if tensor.output}
        columns = self.arrays[self.plan.tensors[0].name].shape[-1]
        for name, answer in self.answers.items():
            got = self.arrays[name].astype(np.float64)
            assert np.isfinite(got).all(), name
            parts = got.shape != answer.shape  # sums over rows, or over a row
            got, slack = (got.sum(0), 1e-7 * max(self.m, columns)) if parts else (got, 4e-6)
            bound = ROUNDING[self.plan.tensor(name).dtype] * abs(answer) + slack * (1 + abs(answer))
            assert (abs(got - answer) <= bound).all(), name


def arrays_of(plan: Plan, m: int, at_once: int = 2) -> Arrays:
    """Normal inputs, outputs of NaN, partial sums of as many clusters as run at once."""
    random, arrays = np.random.default_rng(m), {}
    sizes = {"m": m, "clusters": plan.blocks(m, at_once) // plan.cluster}
    for tensor in plan.tensors:
        shape = tuple(sizes[extent] if isinstance(extent, str) else extent for extent in tensor.extents)
        values = np.full(shape, np.nan) if tensor.output else random.standard_normal(shape)
        arrays[tensor.name] = values.astype(NUMPY[tensor.dtype])
    return arrays


def linear_norm(
    m: int = 70,
    k: int = 32,
    n: int = 32,
    dtype: str = "bfloat16",
    target: Target = SM90A,
    tiling: Tiling = TINY,
    **options: Any,
) -> Kernel:
    """y = norm(x · weightᵀ + bias + residual) · norm_weight + norm_bias, and what else it returns."""
    plan = plan_linear_norm(LinearNorm(k, n, dtype, tiling=tiling, **options), target)
    arrays = arrays_of(plan, m)
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    z = wide["x"] @ wide["weight"].T + wide.get("bias", 0.0) + wide.get("residual", 0.0)
    mean = z.mean(1) if plan.problem.centre else np.zeros(m)
    rstd = 1 / np.sqrt(((z - mean[:, None]) ** 2).mean(1) + plan.problem.eps)
    y = (z - mean[:, None]) * rstd[:, None] * wide.get("norm_weight", 1.0) + wide.get("norm_bias", 0.0)
    answers = {"y": y, "z": z, "rstd": rstd, "mean": mean}
    return Kernel(plan, arrays, {name: answers[name] for name in answers if name in arrays})


def normalised(arrays: Arrays, problem: Norm | NormBackward, eps: float) -> tuple[Any, Any, Any, Any]:
    """Of the rows of a norm: their sum, mean, rstd, and what multiplies x̂."""
    z = arrays["x"].astype(np.float64)
    z = z + arrays["residual"].astype(np.float64) if problem.residual else z
    mean = z.mean(1) if problem.centre else np.zeros(len(z))
    rstd = 1 / np.sqrt(((z - mean[:, None]) ** 2).mean(1) + eps)
    scale = problem.weight_offset + arrays["weight"].astype(np.float64) if "weight" in arrays else np.float64(1)
    return z, mean, rstd, scale


def norm(m: int, problem: Norm, target: Target = SM90A) -> Kernel:
    """y = norm(x + residual) · (offset + weight) + bias, and what else it returns."""
    plan = plan_norm(problem, target)
    arrays = arrays_of(plan, m)
    z, mean, rstd, scale = normalised(arrays, problem, problem.eps)
    bias = arrays["bias"].astype(np.float64) if problem.bias_dtype else 0.0
    answers = {"y": (z - mean[:, None]) * rstd[:, None] * scale + bias, "sum": z, "rstd": rstd, "mean": mean}
    return Kernel(plan, arrays, {name: answers[name] for name in answers if name in arrays})


def norm_backward(m: int, problem: NormBackward, target: Target = SM90A, at_once: int = 2) -> Kernel:
    """Its gradients, for as many clusters at once as the run has."""
    plan = plan_norm(problem, target)
    arrays = arrays_of(plan, m, at_once)
    z, mean, rstd, scale = normalised(arrays, problem, eps=1e-6)
    arrays["rstd"][:] = rstd
    if problem.centre:
        arrays["mean"][:] = mean
    dy, unit = arrays["dy"].astype(np.float64), (z - mean[:, None]) * rstd[:, None]
    g = dy * scale
    centred = g - g.mean(1, keepdims=True) if problem.centre else g
    dx = rstd[:, None] * (centred - unit * (g * unit).mean(1, keepdims=True))
    dx = dx + arrays["dsum"].astype(np.float64) if problem.dsum else dx
    answers = {"dx": dx, "dweight": (dy * unit).sum(0), "dbias": dy.sum(0)}
    return Kernel(plan, arrays, {name: answers[name] for name in answers if name in arrays})


def wide(arrays: Arrays, *names: str) -> list[Any]:
    """Arrays in float64."""
    return [arrays[name].astype(np.float64) for name in names]


def mhc_post(m: int, problem: Post, target: Target = SM90A) -> Kernel:
    """out_j = f · post_j + Σ_i comb_ij · x_i."""
    plan, n = plan_streams(problem, target), problem.n
    arrays = arrays_of(plan, m)
    f, post, comb, *x = wide(arrays, "f", "post", "comb", *streams.names("x", n))
    outs = streams.names("out", n)
    mixed = {out: sum(comb[:, i * n + j, None] * x[i] for i in range(n)) for j, out in enumerate(outs)}
    return Kernel(plan, arrays, {out: f * post[:, j, None] + mixed[out] for j, out in enumerate(outs)})


def mhc_pre(m: int, problem: Pre, target: Target = SM90A) -> Kernel:
    """post, comb and layer_input."""
    plan, n = plan_streams(problem, target), problem.n
    arrays = arrays_of(plan, m)
    dot, scale, base, *x = wide(arrays, "dot_mix", "scale", "base", *streams.names("x", n))
    squares = sum((one * one).sum(1, keepdims=True) for one in x)
    if not problem.normed:
        arrays["sqrsum"][...] = n * problem.h / problem.splits * np.exp(arrays["sqrsum"])
        squares = arrays["sqrsum"].astype(np.float64).sum(0)
    rstd = 1 / np.sqrt(squares / (n * problem.h) + problem.rms_eps)
    z = dot.sum(0) * rstd * np.repeat(scale, [n, n, n * n]) + base
    gates = 1 / (1 + np.exp(-z[:, : 2 * n]))
    comb = np.exp(z[:, 2 * n :]).reshape(-1, n, n)
    comb = comb / comb.sum(2, keepdims=True) + problem.sinkhorn_eps
    for axis in (1, *(2, 1) * (problem.repeats - 1)):
        comb = comb / (comb.sum(axis, keepdims=True) + problem.sinkhorn_eps)
    pre = gates[:, :n] + problem.pre_eps
    answers = {"post": problem.post_mult * gates[:, n:], "comb": comb.reshape(-1, n * n)}
    return Kernel(plan, arrays, answers | {"layer_input": sum(pre[:, j, None] * x[j] for j in range(n))})


def mhc_post_backward(m: int, problem: PostBackward, target: Target = SM90A) -> Kernel:
    """df, dx and, in parts, dpost and dcomb."""
    plan, n = plan_streams(problem, target), problem.n
    arrays = arrays_of(plan, m)
    f, post, comb = wide(arrays, "f", "post", "comb")
    x, dout = (wide(arrays, *streams.names(of, n)) for of in ("x", "dout"))
    answers = {"df": sum(post[:, j, None] * dout[j] for j in range(n))}
    answers |= {f"dx{i}": sum(comb[:, i * n + j, None] * dout[j] for j in range(n)) for i in range(n)}
    tables = [(value * d).sum(1) for value in (f, *x) for d in dout]
    return Kernel(plan, arrays, answers | {"parts": np.stack(tables, 1)})


def mhc_pre_backward(m: int, problem: PreBackward, target: Target = SM90A) -> Kernel:
    """dx and, in parts, dpre."""
    plan, n = plan_streams(problem, target), problem.n
    arrays = arrays_of(plan, m)
    arrays["sqrsum"][...] = n * problem.h / problem.splits * np.exp(arrays["sqrsum"])
    dot, sqrsum, scale, base, dlayer = wide(arrays, "dot_mix", "sqrsum", "scale", "base", "dlayer_input")
    rstd = 1 / np.sqrt(sqrsum.sum(0) / (n * problem.h) + problem.rms_eps)
    pre = 1 / (1 + np.exp(-(dot.sum(0)[:, :n] * rstd * scale[0] + base[:n]))) + problem.pre_eps
    dpre = [(x * dlayer).sum(1) for x in wide(arrays, *streams.names("x", n))]
    answers = {f"dx{j}": pre[:, j, None] * dlayer for j in range(n)}
    return Kernel(plan, arrays, answers | {"parts": np.stack(dpre, 1)})


def mhc_project(m: int, problem: Project, target: Target = SM90A) -> Kernel:
    """dot_mix and sqrsum, in parts."""
    plan = plan_streams(problem, target)
    arrays = arrays_of(plan, m)
    x, weight = wide(arrays, "x", "weight")
    dots = x @ weight.reshape(2, problem.mixes, problem.k).sum(0).T
    return Kernel(plan, arrays, {"dot_mix": dots, "sqrsum": (x * x).sum(1, keepdims=True)})


def mhc_add_parts(m: int, problem: Parts, target: Target = SM90A) -> Kernel:
    """total = Σ parts."""
    plan = plan_streams(problem, target)
    arrays = arrays_of(plan, m)
    return Kernel(plan, arrays, {"total": arrays["parts"].astype(np.float64).sum(0)})


def with_programs(plan: Plan, **programs: Callable[..., None]) -> Plan:
    """The plan with other programs in the named roles."""
    return replace(plan, roles=Roles(tuple(replace(r, program=programs.get(r.name, r.program)) for r in plan.roles)))


# What seeds and strategies are tried on: both generations, both ways of moving rows, clusters, ragged tails, rings that turn.
STANDARD: dict[str, Callable[[], Kernel]] = {
    "linear_norm-sm_90a": lambda: linear_norm(target=SM90A),
    "linear_norm-sm_100a": lambda: linear_norm(target=SM100A),
    "linear_norm-in-turn": lambda: linear_norm(m=60, tiling=IN_TURN),
    "linear_norm-shared": lambda: linear_norm(tiling=SHARED),
    "linear_norm-everything-in-turn": lambda: linear_norm(m=60, tiling=SHARED_IN_TURN, **EVERY_OPTION),
    "linear_norm-everything-sm_100a": lambda: linear_norm(m=36, n=40, target=SM100A, **EVERY_OPTION),
    "mhc_post": lambda: mhc_post(9, Post(4, 300, vector=4, elements=4)),
    "mhc_pre": lambda: mhc_pre(9, Pre(4, 300, splits=3, vector=4, elements=4)),
    "mhc_pre_normed": lambda: mhc_pre(9, TINY_NORMED),
    "mhc_post_backward": lambda: mhc_post_backward(9, PostBackward(4, 300, vector=4, elements=4)),
    "mhc_pre_backward": lambda: mhc_pre_backward(9, PreBackward(4, 300, splits=3, vector=4, elements=4)),
    "mhc_project": lambda: mhc_project(40, TINY_PROJECT),
    "mhc_add_parts": lambda: mhc_add_parts(37, Parts(5, 20)),
    "rms_norm": lambda: norm(200, Norm(40, "bfloat16", "float32")),
    "rms_norm-cluster": lambda: norm(200, Norm(40, "bfloat16", "float32", row=16)),
    "layer_norm-cluster": lambda: norm(200, Norm(40, "bfloat16", "float32", "float32", row=16, **EVERYTHING)),
    "norm_backward": lambda: norm_backward(300, NormBackward(40, "bfloat16", "float32", **EVERY_GRADIENT)),
    "norm_backward-cluster": lambda: norm_backward(300, NormBackward(40, "bfloat16", row=16, **EVERY_GRADIENT)),
}
