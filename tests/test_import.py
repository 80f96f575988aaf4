"""Importing the package is light, whatever was asked of it: measured in a process of its own."""

import json
import subprocess
import sys

import pytest

import cute_kernels

PROBE = """
import json, sys, time
import torch
before, known = time.process_time(), set(sys.modules)
import cute_kernels
{statement}
print(json.dumps({{
    "seconds": time.process_time() - before,
    "dsl": sorted(name for name in set(sys.modules) - known if name.split(".")[0] in ("cutlass", "cuda", "tvm_ffi")),
    "cuda": torch.cuda.is_initialized(),
    "simulator": "cute_kernels.simulator" in sys.modules,
}}))
"""


def probe(statement: str) -> dict:
    """What `import cute_kernels` and `statement` brought about, after torch."""
    command = [sys.executable, "-c", PROBE.format(statement=statement)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_import_is_light() -> None:
    found = probe("")
    assert found["seconds"] < 0.3  # of processor time: the machine has other work too
    assert not found["dsl"]
    assert not found["cuda"]


def test_operators_need_neither_dsl_nor_simulator_to_be_imported() -> None:
    found = probe("cute_kernels.rms_norm, cute_kernels.linear_norm, cute_kernels.nn.LinearNorm, cute_kernels.simulate")
    assert not found["dsl"]
    assert not found["cuda"]
    assert not found["simulator"]


def test_package_alone_imports_without_torch() -> None:
    code = "import sys, cute_kernels; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_folder_does_not_hide_its_operator() -> None:
    code = "import cute_kernels.linear_norm.plan; assert callable(cute_kernels.linear_norm)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_how_to_import_from_such_a_folder() -> None:
    from cute_kernels.linear_norm import plan
    from cute_kernels.linear_norm.plan import LinearNorm

    assert plan.LinearNorm is LinearNorm
    with pytest.raises(ImportError, match="cannot import name .plan."):
        exec("import cute_kernels.linear_norm.plan as p")


def test_public_names() -> None:
    assert {"linear_norm", "nn", "rms_norm", "simulate"} <= set(dir(cute_kernels))
    assert all(hasattr(cute_kernels, name) for name in dir(cute_kernels))
    assert not hasattr(cute_kernels, "no_such_operator")
