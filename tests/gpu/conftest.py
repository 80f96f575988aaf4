"""Nothing here runs, or is reported as passed, without a GPU of a generation that the plans know."""

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        raise pytest.UsageError("tests/gpu need a CUDA GPU; the CPU suite is `make test`")
