"""What a compiled kernel really uses, read from its cubin by NVIDIA's cuobjdump. Needs no GPU."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """Of one kernel: registers a thread at launch, bytes of stack and local memory a thread (spills), static shared memory."""

    registers: int
    stack: int
    local: int
    shared: int


def cuobjdump() -> str:
    """Path of the tool: on PATH, or from the package nvidia-cuda-cuobjdump. FileNotFoundError says what to install."""
    if found := shutil.which("cuobjdump"):
        return found
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for path in pathlib.Path(folder).glob("*/bin/cuobjdump"):
            return str(path)
    raise FileNotFoundError(
        "cuobjdump: not on PATH and no package nvidia-cuda-cuobjdump: pip install nvidia-cuda-cuobjdump"
    )


def resources(cubin: pathlib.Path) -> Resources:
    """The resources of the one kernel in `cubin`."""
    command = [cuobjdump(), "--dump-resource-usage", str(cubin)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    counts = [dict(re.findall(r"(REG|STACK|LOCAL|SHARED):(\d+)", line)) for line in text.splitlines() if "REG:" in line]
    (only,) = counts
    return Resources(*(int(only[key]) for key in ("REG", "STACK", "LOCAL", "SHARED")))
