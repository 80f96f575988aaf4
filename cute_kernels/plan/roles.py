"""The role table: which warps run which program, with how many registers. Thread counts and positions are derived."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cute_kernels.plan.target import Target
from cute_kernels.plan.types import PlanError, find

WARP = 32
WARPGROUP = 4  # warps; registers move between warpgroups, never within one
NAMED_BARRIERS = 16  # of a CTA's hardware


@dataclass(frozen=True)
class Role:
    """`members` groups of `warps` warps, each running `program` on its own.

    registers  the budget a thread of the role gets by setmaxnreg; None leaves what the launch gave it
    teams      equal groups of a member's warps that meet among themselves, beside the meetings of the whole member
    """

    name: str
    program: Callable[..., None]
    warps: int
    members: int = 1
    registers: int | None = None
    teams: int = 0

    @property
    def named_barriers(self) -> int:
        """Of all members: a meeting of the member and those of its teams have other counts, so each has a barrier of its own."""
        return self.members * (1 + self.teams)

    @property
    def threads(self) -> int:
        """Threads of one member."""
        return self.warps * WARP


@dataclass(frozen=True)
class Roles:
    """Roles in the order of their warps. Roles of one register budget share warpgroups, others start a new one."""

    table: tuple[Role, ...]

    def __iter__(self) -> Iterator[Role]:
        return iter(self.table)

    def __getitem__(self, name: str) -> Role:
        return find("role", name, self.table)

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the table."""
        return tuple(role.name for role in self.table)

    @property
    def groups(self) -> tuple[tuple[Role, ...], ...]:
        """Neighbours of equal register budget, which are routed, and get their registers, together."""
        groups: list[tuple[Role, ...]] = []
        for role in self.table:
            if groups and groups[-1][-1].registers == role.registers:
                groups[-1] += (role,)
            else:
                groups.append((role,))
        return tuple(groups)

    def group_warps(self, group: tuple[Role, ...]) -> int:
        """Warps set aside for a group: whole warpgroups where budgets differ, just those used where none is asked."""
        warps = sum(role.warps * role.members for role in group)
        return warps if group[0].registers is None else -(-warps // WARPGROUP) * WARPGROUP

    def first_warp(self, name: str) -> int:
        """The first warp of the first member of a role."""
        warp = 0
        for group in self.groups:
            inside = warp
            for role in group:
                if role.name == name:
                    return inside
                inside += role.warps * role.members
            warp += self.group_warps(group)
        raise KeyError(name)

    def first_barrier(self, name: str) -> int:
        """The first named barrier of a role: each member's own, then its teams'. Barrier 0 is the CTA's."""
        return 1 + sum(role.named_barriers for role in self.table[: self.names.index(name)])

    @property
    def warps(self) -> int:
        """Warps of a CTA, idle ones that fill up a warpgroup included."""
        return sum(map(self.group_warps, self.groups))

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return self.warps * WARP

    def check(self, target: Target) -> None:
        """Raise PlanError where the table does not fit the target."""
        if not self.table:
            raise PlanError("no roles: a kernel has one at least")
        if len(set(self.names)) != len(self.names):
            raise PlanError(f"two roles have one name: {', '.join(self.names)}")
        for role in self.table:
            if role.warps < 1 or role.members < 1:
                raise PlanError(f"{role.name} has {role.members} members of {role.warps} warps")
            if role.teams and role.warps % role.teams:
                raise PlanError(
                    f"{role.name} has {role.warps} warps a member, not to be shared out over {role.teams} teams"
                )
        named = 1 + sum(role.named_barriers for role in self.table)
        if named > NAMED_BARRIERS:
            raise PlanError(f"{named} named barriers, a CTA has {NAMED_BARRIERS}\n{self}")
        if self.threads > target.threads:
            raise PlanError(f"{self.threads} threads, {target.arch} takes {target.threads} a CTA\n{self}")
        if any(r.registers is not None and (r.registers % 8 or not 24 <= r.registers <= 256) for r in self.table):
            raise PlanError(f"a register budget is a multiple of 8 from 24 to 256\n{self}")
        asked = sum(self.group_warps(g) * WARP * (g[0].registers or 0) for g in self.groups)
        if asked > target.registers:
            raise PlanError(f"{asked} registers asked for, {target.arch} has {target.registers}\n{self}")

    def __str__(self) -> str:
        line = "{:12} warps {:2}-{:2}  {} member(s) of {:3} threads, {} registers"
        return "\n".join(
            line.format(
                r.name,
                (first := self.first_warp(r.name)),
                first + r.warps * r.members - 1,
                r.members,
                r.threads,
                r.registers or "the launch's",
            )
            for r in self.table
        )
