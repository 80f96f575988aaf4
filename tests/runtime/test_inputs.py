"""Layout: what is used in place, what is copied, how wide it may be moved."""

import pytest
import torch

from cute_kernels.runtime import inputs
from cute_kernels.runtime.bridge import as_array

BASE = torch.arange(4 * 6 * 32, dtype=torch.float32)

IN_PLACE = {
    "contiguous": BASE.view(4, 6, 32),
    "rows of a wider tensor": BASE.view(4, 6, 32)[..., :16],
    "shifted": BASE[1:].as_strided((4, 6, 16), (6 * 32, 32, 1)),
    "one dimension": BASE[:32],
    "every other row": BASE.view(24, 32)[::2],
    "one row of any stride": BASE.as_strided((1, 16), (3, 1)),
    "one column of any stride": BASE.as_strided((5, 1), (7, 9)),
}
COPIED = {
    "transposed": BASE.view(32, 24).mT,
    "step-sliced": BASE.view(24, 32)[:, ::2],
    "expanded rows": BASE[:32].expand(6, 32),
    "expanded columns": BASE[:6, None].expand(6, 32),
    "middle dimensions out of order": BASE.view(4, 6, 32).transpose(0, 1),
    "overlapping rows": BASE.as_strided((4, 16), (8, 1)),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_used_in_place(name: str) -> None:
    x = IN_PLACE[name]
    rows = inputs.rows(x)
    assert rows.data_ptr() == x.data_ptr()
    assert torch.equal(rows, x.reshape(-1, x.shape[-1]))
    assert rows.stride(1) == 1
    assert rows.stride(0) >= rows.shape[1]


@pytest.mark.parametrize("name", COPIED)
def test_copied(name: str) -> None:
    x = COPIED[name]
    rows = inputs.rows(x)
    assert rows.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert torch.equal(rows, x.reshape(-1, x.shape[-1]))
    assert rows.is_contiguous()


@pytest.mark.parametrize(
    ("x", "vector"),
    [
        (torch.zeros(4, 32), 4),
        (torch.zeros(4, 32, dtype=torch.float16), 8),
        (torch.zeros(4, 34, dtype=torch.float16), 2),  # the row's length
        (torch.zeros(4, 36, dtype=torch.float16)[:, :32], 4),  # the pitch
        (torch.zeros(4, 32, dtype=torch.float16)[:, 4:20], 4),  # the base address
        (torch.zeros(4, 33, dtype=torch.float16), 1),
        (torch.zeros(200, dtype=torch.bfloat16)[1:65].view(4, 16), 1),
    ],
)
def test_vector_divides_length_pitch_and_address(x: torch.Tensor, vector: int) -> None:
    assert inputs.vector(x) == vector


def test_aligned_copies_only_what_is_not() -> None:
    x = torch.zeros(4, 64, dtype=torch.bfloat16)
    assert inputs.aligned(x) is x
    assert inputs.aligned(x[:, 8:16]).data_ptr() == x[:, 8:16].data_ptr()
    for view in (x[:, 4:12], torch.zeros(4, 68, dtype=torch.bfloat16)[:, :64]):
        copy = inputs.aligned(view)
        assert copy.is_contiguous()
        assert copy.data_ptr() % 16 == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_arrays_share_memory_with_tensors(dtype: torch.dtype) -> None:
    x = torch.arange(24, dtype=dtype).view(4, 6)[:, :3]
    array = as_array(x)
    assert array.shape == (4, 3)
    assert str(array.dtype) == str(dtype).removeprefix("torch.")
    array[2, 1] = 77
    assert x[2, 1] == 77
