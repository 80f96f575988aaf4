"""Checks that operators share, and the layout kernels ask for: rows of stride 1 at one pitch, aligned as far as they are.

Checks see only what torch.compile also sees. What depends on pointers (`rows`, `aligned`, `vector`) is called inside the
registered operator, on real tensors.
"""

import sys
from numbers import Real
from typing import Any

import torch

from cute_kernels.runtime.errors import refuse

HALVES = (torch.bfloat16, torch.float16)
FLOATS = (*HALVES, torch.float32)
LARGEST = sys.float_info.max
WIDEST = 16  # bytes of the widest load; also what TMA asks of base addresses and pitches


def tensor(operator: str, argument: str, value: Any) -> torch.Tensor:
    """`value` as a tensor; whatever speaks DLPack is taken without a copy, unless it runs backwards."""
    if not isinstance(value, torch.Tensor):
        return from_dlpack(operator, argument, value)
    if value.is_nested or value.layout is not torch.strided:
        kind = "nested" if value.is_nested else str(value.layout)
        refuse(operator, argument, f"a {kind} tensor", "a strided tensor", TypeError)
    return value


def from_dlpack(operator: str, argument: str, value: Any) -> torch.Tensor:
    """A tensor on the memory of another library's array."""
    takes = "a torch.Tensor, or an array with __dlpack__"
    if not hasattr(value, "__dlpack__"):
        refuse(operator, argument, f"of type {type(value).__name__}", takes, TypeError)
    if any(stride < 0 for stride in getattr(value, "strides", None) or ()):
        value = value.copy()  # no tensor has negative strides, and torch.from_dlpack ends the process over them
    try:
        return torch.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0]
        refuse(operator, argument, f"an array that cannot be exported ({reason})", takes, TypeError)


def autocast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors as torch.autocast gives them to a matrix product; outside of it, as they are."""
    kind = tensors[0].device.type
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(value.to(dtype) if value.dtype in FLOATS else value for value in tensors)


def dtype(operator: str, argument: str, value: torch.Tensor, takes: tuple[torch.dtype, ...]) -> None:
    """Refuse `value` unless it is of one of the dtypes."""
    if value.dtype not in takes:
        refuse(operator, argument, str(value.dtype), " or ".join(map(str, dict.fromkeys(takes))), TypeError)


def shape(operator: str, argument: str, value: torch.Tensor, takes: str, fits: bool) -> None:
    """Refuse `value` unless its shape fits."""
    if not fits:
        refuse(operator, argument, f"of shape {list(value.shape)}", takes)


def same_device(operator: str, argument: str, value: torch.Tensor, x: torch.Tensor) -> None:
    """Refuse `value` unless it is where x is."""
    if value.device != x.device:
        refuse(operator, argument, f"on {value.device}", f"a tensor on x's device, {x.device}")


def epsilon(operator: str, eps: float | None, default: float, argument: str = "eps") -> float:
    """eps, or the operator's default."""
    takes = "None or a finite number >= 0"
    found = default if eps is None else number(operator, argument, eps, takes)
    if found < 0:
        refuse(operator, argument, eps, takes)
    return found


def number(operator: str, argument: str, value: Any, takes: str = "a finite number") -> float:
    """`value` as a float, unless it is none or not finite."""
    if not isinstance(value, Real):
        refuse(operator, argument, repr(value), takes, TypeError)
    # torch.compile traces this, as it does not math.isfinite; an int may be larger than any float.
    if not -LARGEST <= value <= LARGEST:  # type: ignore[operator]
        refuse(operator, argument, value, takes)
    return float(value)


def flag(operator: str, argument: str, value: Any) -> bool:
    """`value`, unless it is neither True nor False: what merely counts as true would select other outputs than was meant."""
    if not isinstance(value, bool):
        refuse(operator, argument, repr(value), "True or False", TypeError)
    return value


def rows(x: torch.Tensor) -> torch.Tensor:
    """x as [rows, n] with stride 1 along n: in place wherever its strides allow, else a copy.

    Strides of extents of 1 mean nothing; they are set as a contiguous tensor's would be.
    """
    n = x.shape[-1]
    if x.dim() == 2 and x.stride(1) == 1 and x.stride(0) >= n and x.shape[0] > 1:
        return x
    flat = x.reshape(-1, n)
    m = flat.shape[0]
    pitch = flat.stride(0) if m > 1 else n
    if pitch < n or (n > 1 and flat.stride(1) != 1):
        return flat.clone(memory_format=torch.contiguous_format)
    return flat.as_strided((m, n), (pitch, 1))


def aligned(x: torch.Tensor, width: int = WIDEST) -> torch.Tensor:
    """x, or a copy where its base address or a pitch is no multiple of `width` bytes, a power of two."""
    multiple, size = x.data_ptr(), x.element_size()
    for pitch in x.stride()[:-1]:
        multiple |= pitch * size
    return x.clone(memory_format=torch.contiguous_format) if multiple % width else x


def vector(x: torch.Tensor) -> int:
    """Elements a thread can move at once along the rows of x: the largest power of two that divides everything."""
    size = x.element_size()
    multiple = x.shape[1] | x.stride(0) | x.data_ptr() // size | WIDEST // size
    return multiple & -multiple
