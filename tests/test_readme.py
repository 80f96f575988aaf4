"""README's code runs as it stands; without a GPU, on the CPU inside `simulate`."""

import contextlib
import re
from pathlib import Path

import pytest
import torch

import cute_kernels
from cute_kernels.cli.catalogue import OPERATORS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_there_is_code() -> None:
    assert len(BLOCKS) == 2
    assert len(BLOCKS[0].splitlines()) <= 14


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_code_runs(block: str) -> None:
    on_gpu = torch.cuda.is_available()
    context = contextlib.nullcontext() if on_gpu else cute_kernels.simulate()
    with context:
        exec(block if on_gpu else block.replace('device="cuda"', 'device="cpu"'), {})


def test_every_operator_is_listed_and_has_a_readme() -> None:
    for operator in OPERATORS.values():
        assert f"`{operator.name}`" in README
        assert (ROOT / "cute_kernels" / operator.folder / "README.md").exists()


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "cute_kernels").glob("*/README.md"))], ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
    assert all((page.parent / link).exists() for link in links)


def test_make_targets_named_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"make ([a-z-]+)", README)) <= set(targets)
