"""Global memory: boxes start inside their tensor, and every output element is written exactly once."""

from typing import Any

import numpy as np

from cute_kernels.simulator import faults


class Bounds:
    """Keeps a map of what has been written of every output, and the boxes of inputs it has found right."""

    def __init__(self) -> None:
        self.written: dict[str, Any] = {}
        self.right: set[tuple[str, tuple[int, ...]]] = set()

    def box(self, worker: Any, tensor: Any, start: tuple[int, ...], size: int, writes: bool) -> None:
        if (tensor.name, start) in self.right and not writes:
            return
        corner = tuple(index * extent for index, extent in zip(start, tensor.box, strict=True))
        for place, limit in zip(corner, tensor.limits, strict=True):
            if not 0 <= place < limit:
                raise faults.OutOfBounds(
                    f"box {start} of {tensor.name} starts at {corner}, beyond {tensor.extents}", worker
                )
        self.right.add((tensor.name, start))
        if writes:
            self.mark(worker, tensor, corner)

    def mark(self, worker: Any, tensor: Any, corner: tuple[int, ...]) -> None:
        """Note the box as written."""
        if not tensor.spec.output:
            raise faults.OutOfBounds(f"{tensor.name} is an input", worker)
        if tensor.name not in self.written:
            self.written[tensor.name] = np.zeros(tensor.extents, bool)
        part = self.written[tensor.name][tuple(slice(a, a + n) for a, n in zip(corner, tensor.box, strict=True))]
        if part.any():
            raise faults.WrittenTwice(f"{tensor.name} from {corner} on", worker)
        part[...] = True

    def finish(self, tensors: dict[str, Any]) -> None:
        for name, tensor in tensors.items():
            written = self.written.get(name)
            if tensor.spec.output and tensor.array.size and (written is None or not written.all()):
                missing = tensor.array.size - (0 if written is None else int(written.sum()))
                raise faults.NotWritten(f"{missing} of {tensor.array.size} elements of {name}")
