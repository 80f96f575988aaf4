"""Every operator: where it lives, in which variants and for what it exists. Commands, tests and benchmarks walk this list."""

import importlib
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any

SCHEDULED = "scheduled kernel"
FUSED = "scheduled kernel, dweight and dbias by partial sums added in a fixed order"
PYTORCH = "PyTorch formulas in float32"
STREAMS = "scheduled kernels, parts of sums added in a fixed order; PyTorch formulas for a token's coefficients"
NORM_VARIANTS = ("residual", "weight", "weight_offset", "bias", "rows over a cluster of 2-16 CTAs")
LINEAR_VARIANTS = (
    "norm='rms'", "norm='layer'", "bias", "residual", "norm_weight", "norm_bias", "one CTA a row", "rows over a cluster of 2-16 CTAs",
)  # fmt: skip


@dataclass(frozen=True)
class Operator:
    """An operator and its folder: `op`, `plan`, `reference` and `cases` are the same in each."""

    name: str
    folder: str
    variants: tuple[str, ...]
    architectures: tuple[str, ...] = ("sm_90a", "sm_100a")
    forward: str = SCHEDULED
    backward: str = PYTORCH

    def module(self, name: str) -> ModuleType:
        """One of the folder's modules."""
        return importlib.import_module(f"cute_kernels.{self.folder}.{name}")

    def call(self, **arguments: Any) -> Any:
        """The operator itself."""
        return getattr(self.module("op"), self.name)(**arguments)

    def reference(self, **arguments: Any) -> Any:
        """Its float64 specification."""
        return getattr(self.module("reference"), self.name)(**arguments)

    def yardstick(self, **arguments: Any) -> Any:
        """Its float32 chain, rounded once."""
        return getattr(self.module("reference"), f"{self.name}_yardstick")(**arguments)

    def pytorch(self, **arguments: Any) -> Any:
        """What one would write with PyTorch's operators."""
        return getattr(self.module("reference"), f"{self.name}_pytorch")(**arguments)

    def allowed(self, **arguments: Any) -> Any:
        """Absolute errors that outputs may have whatever the yardstick's; None where the yardstick decides."""
        bounds = getattr(self.module("reference"), f"{self.name}_allowed", None)
        return bounds and bounds(**arguments)

    @property
    def demo(self) -> Any:
        """The demonstration case."""
        return own(self.name, self.module("cases").DEMO)

    @property
    def speed(self) -> tuple[Any, ...]:
        """What benchmarks measure."""
        return own(self.name, self.module("cases").SPEED)

    def case(self, shape: str = "", dtype: str = "") -> Any:
        """The demonstration case, with other extents ("300x512x512") or another dtype."""
        case = self.demo
        names = [field.name for field in fields(case) if field.type is int]
        if shape:
            extents = shape.lower().split("x")
            if len(extents) != len(names) or not all(e.isdecimal() and int(e) for e in extents):
                raise ValueError(
                    f"{self.name}: shape is {shape!r}; it takes {'x'.join(n.upper() for n in names)}, whole numbers >= 1"
                )
            case = replace(case, **{name: int(extent) for name, extent in zip(names, extents, strict=True)})
        takes = [str(known).removeprefix("torch.") for known in self.module("op").DTYPES]
        if dtype and dtype not in takes:
            raise ValueError(f"{self.name}: dtype is {dtype!r}; it takes {' or '.join(takes)}")
        return replace(case, dtype=dtype) if dtype else case


def own(operator: str, cases: Any) -> Any:
    """Cases of one operator, where a folder has several whose cases differ."""
    return cases[operator] if isinstance(cases, dict) else cases


OPERATORS = {
    operator.name: operator
    for operator in (
        Operator("rms_norm", "norms", NORM_VARIANTS, backward=FUSED),
        Operator("layer_norm", "norms", NORM_VARIANTS, backward=FUSED),
        Operator("mhc_post", "hyper_connection", ("2, 4 or 8 streams",), backward=STREAMS),
        Operator(
            "mhc_pre_big_fuse", "hyper_connection", ("2, 4 or 8 streams", "any number of splits"), backward=STREAMS
        ),
        Operator(
            "mhc_pre_big_fuse_with_prenorm",
            "hyper_connection",
            ("2, 4 or 8 streams", "over a cluster of 1-16 CTAs"),
            backward=STREAMS,
        ),
        Operator("linear_norm", "linear_norm", LINEAR_VARIANTS),
    )
}
