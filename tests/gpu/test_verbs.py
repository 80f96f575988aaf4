"""Each verb on the GPU: the tiny programs of tests/verbs, exact on small integers."""

import pytest
import torch

from cute_kernels import device
from tests.verbs.cases import Case, cases


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_verb(case: Case) -> None:
    tensors = case.inputs()
    on_gpu = {name: tensor.cuda() for name, tensor in tensors.items()}
    device.compile(case.plan)(on_gpu, case.blocks)
    torch.cuda.synchronize()
    for name, expected in case.expected(tensors).items():
        got = on_gpu[name].cpu()
        if case.approximate:
            torch.testing.assert_close(got, expected, rtol=case.approximate + 2 * torch.finfo(got.dtype).eps, atol=0)
        else:
            assert torch.equal(got, expected), name
