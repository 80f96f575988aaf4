"""CPU tensors seen as NumPy arrays and back, without a copy. NumPy has no bfloat16 of its own; ml_dtypes lends it one."""

from typing import Any

import torch

NAMES = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: "float32"}


def as_array(tensor: torch.Tensor) -> Any:
    """The tensor's memory as an array of its dtype and strides; writing to one writes to the other."""
    tensor = tensor.detach()
    if tensor.dtype is not torch.bfloat16:
        return tensor.numpy()
    import ml_dtypes

    return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
