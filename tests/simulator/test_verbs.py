"""Each verb's tiny program (tests/verbs), which the GPU runs too: the simulator gives the exact answer."""

import pytest
import torch

from cute_kernels import simulator
from cute_kernels.runtime.bridge import as_array
from tests.verbs.cases import Case, cases


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_verb(case: Case) -> None:
    tensors = case.inputs()
    simulator.run(case.plan, {name: as_array(tensor) for name, tensor in tensors.items()}, blocks=case.blocks)
    for name, expected in case.expected(tensors).items():
        rounding = torch.finfo(expected.dtype).eps if case.approximate else 0.0
        allowed = (case.approximate + rounding) * expected.double().abs()
        assert ((tensors[name].double() - expected.double()).abs() <= allowed).all(), name
