"""What holds for every test: a kernel cache of the run's own, as users have theirs; and figures that tests measure, and the table of
the contract, printed at the end of the run: pytest hides what a test prints, xdist's workers even without capture."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import matrix


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of compiled kernels, for tests and the processes they start: never the user's."""
    where = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUTE_KERNELS_CACHE", str(where))
        patch.delenv("CUTE_KERNELS_NO_CACHE", raising=False)
        yield where


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """`figure(text)` keeps a text for the end of the run."""
    return functools.partial(record_property, "figure")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print them; the reports bring them here from whichever process ran the test."""
    reports = [r for some in terminalreporter.stats.values() for r in some if getattr(r, "when", "") == "call"]
    texts = [text for report in reports for name, text in report.user_properties if name == "figure"]
    if texts:
        terminalreporter.section("figures")
    for text in texts:
        terminalreporter.write_line(text)
    passed = [report.nodeid for report in reports if report.passed]
    if any(folder in name for name in passed for folder in ("contract/", "gpu/")):
        terminalreporter.section("the contract: tests passed for each operator")
        for line in matrix.table(matrix.count(passed)):
            terminalreporter.write_line(line)
