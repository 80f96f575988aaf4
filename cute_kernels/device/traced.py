"""How the objects a program holds cross the DSL's dynamic control flow."""

import dataclasses
from typing import Any

from cutlass import BFloat16, Float16, Float32, Int32

ELEMENT = {"bfloat16": BFloat16, "float16": Float16, "float32": Float32}


class Traced:
    """May be held across a dynamic loop or branch: it tells the tracer that it carries no run-time values of its own.

    What it holds is made when it is built, in its role's branch, and never changes.
    """

    def __extract_mlir_values__(self) -> list[Any]:
        return []

    def __new_from_mlir_values__(self, values: list[Any]) -> "Traced":
        return self


@dataclasses.dataclass(frozen=True)
class Slot:
    """A ring's run-time state, which loops re-bind. Frozen: a helper that moved it in place would lose the move without a word."""

    index: Int32
    phase: Int32

    def __extract_mlir_values__(self) -> list[Any]:
        return [self.index.ir_value(), self.phase.ir_value()]

    def __new_from_mlir_values__(self, values: list[Any]) -> "Slot":
        return Slot(*map(Int32, values))
