"""A deadlock says who waits for which barrier and phase, at which line, and who should have come."""

import pytest

from cute_kernels import simulator
from tests.simulator.toys import flawed, miscounted


def message(flaw: str, **options: object) -> str:
    with pytest.raises(simulator.Deadlock) as raised:
        flawed(flaw).run(**options)
    return str(raised.value)


def test_nobody_releases() -> None:
    text = message("no release", strategy="late", seed=5, blocks=1)
    assert "strategy='late', seed=5" in text
    assert "CTA 0 load at " in text
    assert "toys.py:" in text
    assert "waits for operands[0] empty of CTA 0, phase 0 (parity 0): it lacks 8 of 8 arrivals" in text
    assert "so far came nobody; should come: multiply 0, multiply 1 (release, 4 each)" in text
    assert "CTA 0 multiply 1 at " in text


def test_one_of_two_releases() -> None:
    text = message("release in half", blocks=1)
    assert "it lacks 4 of 8 arrivals; so far came CTA 0 multiply 0 (4)" in text


def test_a_copy_is_missing() -> None:
    text = message("one copy short", blocks=1)
    assert "operands[0] full of CTA 0, phase 0 (parity 0): it lacks 0 of 1 arrivals and 256 bytes" in text
    assert "should come: load (acquire), then 512 bytes of its copies" in text


def test_too_many_arrivals_expected() -> None:
    with pytest.raises(simulator.Deadlock, match="lacks 4 of 12 arrivals"):
        miscounted(flawed(""), arrivals=4).run()


def test_too_many_bytes_announced() -> None:
    with pytest.raises(simulator.Deadlock, match="lacks 0 of 1 arrivals and 64 bytes"):
        miscounted(flawed(""), announced=64).run()


def test_a_long_list_is_cut() -> None:
    text = message("no release", blocks=8, strategy="round_robin")
    assert text.count("waits for ") == 12
