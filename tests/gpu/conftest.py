"""Nothing here runs, or is reported as passed, without a GPU of a generation that the plans know."""

from collections.abc import Iterator

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        raise pytest.UsageError("tests/gpu need a CUDA GPU; the CPU suite is `make test`")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A kernel that faults leaves the process without its GPU: stop, instead of letting every later test fail for it."""
    report = yield
    if report.failed and not alive():  # type: ignore[attr-defined]
        item.session.shouldstop = f"the CUDA context is lost since {item.nodeid}"
    return report


def alive() -> bool:
    """Whether this process can still use its GPU."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True
