"""What compute-sanitizer is given runs every operator's kernels; and its complaints are an exit code. The tools themselves need a GPU."""

import stat
from pathlib import Path

import pytest
import torch

import cute_kernels
from cute_kernels.cli.catalogue import OPERATORS
from tools import sanitize


def test_the_calls_run_every_operator_forward_and_backward(capsys: pytest.CaptureFixture[str]) -> None:
    with cute_kernels.simulate() as simulation:
        assert sanitize.run_calls("cpu") == 0
    said = capsys.readouterr().out
    assert all(f"{name} " in said for name in OPERATORS)
    kernels = {(plan.operator, plan.cluster > 1) for plan in simulation.plans}
    clustered = {(name, wide) for name in ("linear_norm", "norm", "norm_backward") for wide in (False, True)}
    assert kernels == clustered | {
        ("mhc_add_parts", False),
        ("mhc_post", False),
        ("mhc_post_backward", False),
        ("mhc_pre_backward", False),
        ("mhc_pre_big_fuse", False),
        ("mhc_pre_big_fuse_with_prenorm", False),
        ("mhc_pre_big_fuse_with_prenorm", True),
    }


def test_a_result_that_is_not_finite_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {"y": torch.ones(3), "x": torch.tensor([1.0, torch.nan])}
    monkeypatch.setattr(sanitize, "calls", lambda device: iter([(OPERATORS["rms_norm"], "a case", results)]))
    assert sanitize.run_calls("cpu") == 1


@pytest.mark.parametrize(
    ("complains", "code", "ran"), [("none", 0, list(sanitize.TOOLS)), ("synccheck", 1, ["memcheck", "synccheck"])]
)
def test_a_complaint_is_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complains: str, code: int, ran: list[str]
) -> None:
    tool, python, log = tmp_path / "compute-sanitizer", tmp_path / "python", tmp_path / "log"
    tool.write_text(f'#!/bin/sh\necho "$*" >> {log}\n[ "$2" != {complains} ]\n')
    python.write_text("#!/bin/sh\n")
    for script in (tool, python):
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sanitize, "sanitizer", lambda: str(tool))
    monkeypatch.setattr(sanitize.sys, "executable", str(python))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert sanitize.main([]) == code
    lines = log.read_text().splitlines()
    assert [line.split()[1] for line in lines] == ran
    assert all("--report-api-errors no --error-exitcode 1" in line and line.endswith("--calls") for line in lines)


def test_without_a_gpu_it_says_what_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("a GPU is here")
    assert sanitize.main(["memcheck"]) == 2
    assert "needed are a CUDA GPU and compute-sanitizer" in capsys.readouterr().err
