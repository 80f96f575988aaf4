"""Compile a plan for its target, on any Linux machine, with or without a GPU."""

import tempfile
from pathlib import Path
from typing import Any

import cutlass.cute as cute
from cutlass import Int32
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from cute_kernels.device.builder import Kernel
from cute_kernels.device.objects import NAME, CompiledKernel
from cute_kernels.device.traced import ELEMENT
from cute_kernels.plan import Plan, Tensor, itemsize

TMA_ALIGNMENT = 16  # bytes, of base pointers and row pitches


def compile(plan: Plan, keep: str = "") -> CompiledKernel:
    """Compile `plan`. `keep` names a folder where PTX and cubin are left for reading."""
    extents = {e: cute.sym_int() for tensor in plan.tensors for e in tensor.extents if isinstance(e, str)}
    fakes = tuple(fake(tensor, extents) for tensor in plan.tensors)
    options = f"--enable-tvm-ffi --gpu-arch {plan.target.arch}"
    if keep:
        options += f" --keep-ptx --keep-cubin --dump-dir {keep}"
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return CompiledKernel(plan, cute.compile(Kernel(plan), fakes, Int32(1), stream, options=options))


def export(kernel: CompiledKernel) -> bytes:
    """A kernel just compiled, as an object file with one visible function."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.o")
        kernel.run.export_to_c(str(path), NAME, export_only_tvm_ffi_symbols=True)
        return path.read_bytes()


def fake(tensor: Tensor, extents: dict[str, Any]) -> Any:
    """A stand-in with the tensor's static extents, run-time `extents` by name, run-time pitches, and the alignment the plan relies on."""
    shape = tuple(extents[extent] if isinstance(extent, str) else extent for extent in tensor.extents)
    align = TMA_ALIGNMENT if tensor.buffer else tensor.vector * itemsize(tensor.dtype)
    whole = max(1, align // itemsize(tensor.dtype))
    stride = (*(cute.sym_int64(divisibility=whole) for _ in shape[1:]), 1)
    return make_fake_tensor(ELEMENT[tensor.dtype], shape, stride=stride, assumed_align=align)
