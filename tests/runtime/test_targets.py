"""Target detection says what was found, what is needed and what works meanwhile, on one line."""

import pytest
import torch

from cute_kernels.plan import SM90A, SM100A
from cute_kernels.runtime import targets
from cute_kernels.runtime.errors import TargetError


@pytest.fixture(autouse=True)
def _fresh() -> None:
    targets.obstacle.cache_clear()
    targets.target_of_capability.cache_clear()


def test_capabilities() -> None:
    assert targets.target_of_capability((9, 0), "H200") is SM90A
    assert targets.target_of_capability((10, 0), "B200") is SM100A


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 3), (12, 0)])
def test_an_unsupported_gpu(capability: tuple[int, int]) -> None:
    with pytest.raises(TargetError) as caught:
        targets.target_of_capability(capability, "Some GPU")
    message = str(caught.value)
    assert "\n" not in message
    assert f"Some GPU has compute capability {capability[0]}.{capability[1]}" in message
    assert "needed is a GPU of compute capability 9.0" in message
    assert "cute_kernels.simulate()" in message


@pytest.mark.parametrize(
    ("cuda", "hip", "available", "dsl", "message"),
    [
        (None, None, False, True, "built without CUDA"),
        (None, "6.4", True, True, "built for AMD"),
        ("13.0", None, False, True, "no usable GPU .*driver too old for CUDA 13.0"),
        ("13.0", None, True, False, "nvidia-cutlass-dsl >= 4.8.1"),
    ],
)
def test_obstacles(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, hip: str | None, available: bool, dsl: bool, message: str
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(targets, "has_dsl", lambda: dsl)
    with pytest.raises(TargetError, match=message) as caught:
        targets.here()
    assert "\n" not in str(caught.value)
    assert "cute_kernels.simulate()" in str(caught.value)


def test_a_gpu_that_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "obstacle", lambda: "")
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda i: (10, 0) if i == 1 else (8, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: f"GPU {i}")
    assert targets.here() is SM100A
