"""The role table: warps are placed, registers are counted, what does not fit is refused with the table."""

from typing import Any

import pytest

from cute_kernels.plan import SM90A, PlanError, Role, Roles


def program(ctx: Any) -> None:
    """Stands for any role's."""


def test_roles_of_one_budget_share_a_warpgroup_and_others_start_one() -> None:
    roles = Roles(
        (
            Role("load", program, warps=1, registers=40),
            Role("store", program, warps=1, registers=40),
            Role("multiply", program, warps=4, members=2, registers=232),
        )
    )
    assert [roles.first_warp(name) for name in ("load", "store", "multiply")] == [0, 1, 4]
    assert roles.warps == 12
    assert roles.threads == 384
    assert roles["multiply"].threads == 128
    assert [len(group) for group in roles.groups] == [2, 1]
    roles.check(SM90A)


def test_without_budgets_no_warp_is_idle() -> None:
    roles = Roles(
        (Role("epilogue", program, warps=4), Role("load", program, warps=1), Role("multiply", program, warps=1))
    )
    assert roles.warps == 6
    assert roles.first_warp("multiply") == 5


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ((Role("a", program, warps=1), Role("a", program, warps=1)), "one name"),
        ((), "no roles"),
        ((Role("a", program, warps=0),), "a has 1 members of 0 warps"),
        ((Role("a", program, warps=1, members=0),), "a has 0 members of 1 warps"),
        ((Role("a", program, warps=36),), "1152 threads, sm_90a takes 1024"),
        ((Role("a", program, warps=4, registers=100),), "multiple of 8"),
        ((Role("a", program, warps=4, teams=3),), "4 warps a member, not to be shared out over 3 teams"),
        ((Role("a", program, warps=16, teams=16),), "18 named barriers, a CTA has 16"),
        ((Role("a", program, warps=4, members=3, registers=240),), "92160 registers asked for, sm_90a has 65536"),
    ],
)
def test_refusals(table: tuple[Role, ...], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Roles(table).check(SM90A)


def test_meetings_of_other_counts_have_named_barriers_of_their_own() -> None:
    """A barrier that some threads take for 64 and others for 128 is an illegal instruction."""
    roles = Roles(
        (
            Role("load", program, warps=1),
            Role("rows", program, warps=4, members=2, teams=2),
            Role("store", program, warps=1),
        )
    )
    roles.check(SM90A)
    assert [roles.first_barrier(name) for name in roles.names] == [1, 2, 8]


def test_refusal_prints_the_table() -> None:
    roles = Roles(
        (Role("load", program, warps=1, registers=40), Role("multiply", program, 4, members=4, registers=232))
    )
    with pytest.raises(PlanError) as caught:
        roles.check(SM90A)
    assert str(roles) in str(caught.value)
    assert "warps  4-19" in str(roles)
