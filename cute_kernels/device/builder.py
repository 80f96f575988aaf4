"""From a plan to a launched kernel: TMA atoms, shared memory, barriers, and every role on its warps. Reads the plan, knows no operator."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32

from cute_kernels.device import product_sm100
from cute_kernels.device.context import Context, Launch, rings_of
from cute_kernels.device.memory import SharedMemory
from cute_kernels.device.rings import Ring
from cute_kernels.device.tensors import make_atom
from cute_kernels.plan import Plan, Role

arch = cute.arch
RESERVED = 1024  # bytes of shared memory the system takes from every CTA


class Kernel:
    """The host function of a plan, to be handed to cute.compile: (tensors in the plan's order, CTAs, stream)."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.boxed = tuple(t for t in plan.tensors if t.buffer)

    @cute.jit
    def __call__(self, tensors: tuple, blocks: Int32, stream: Any) -> None:
        values = dict(zip([t.name for t in self.plan.tensors], tensors, strict=True))
        atoms = tuple(make_atom(self.plan, t, values[t.name]) for t in self.boxed)
        self.kernel(tensors, atoms).launch(
            grid=[blocks, 1, 1],
            block=[self.plan.roles.threads, 1, 1],
            cluster=[self.plan.cluster, 1, 1],
            min_blocks_per_mp=self.plan.ctas_an_sm,
            preferred_smem_carveout=self.carveout(),
            stream=stream,
        )

    def carveout(self) -> int:
        """Percent of an SM's L1 that its CTAs need as shared memory; the rest caches. Told, so that compiling asks no GPU."""
        needed = self.plan.ctas_an_sm * (self.plan.memory.bytes + RESERVED)
        return min(100, -(-100 * needed // (self.plan.target.smem_bytes + RESERVED)))

    @cute.kernel
    def kernel(self, tensors: tuple, atoms: tuple) -> None:
        plan, memory = self.plan, SharedMemory(self.plan)
        names, boxed = [t.name for t in plan.tensors], [t.name for t in self.boxed]
        values, by_name = dict(zip(names, tensors, strict=True)), dict(zip(boxed, atoms, strict=True))
        self.prologue(memory)
        rank = arch.make_warp_uniform(arch.block_idx_in_cluster()) if plan.cluster > 1 else 0
        self.route(Launch(plan, memory, values, by_name, rank), arch.make_warp_uniform(arch.warp_idx()), 0, 0)

    def prologue(self, memory: SharedMemory) -> None:
        """Barriers set and seen by the whole cluster before any role runs."""
        if not self.plan.memory.barriers:
            return
        self.initialise(memory)
        arch.mbarrier_init_fence()
        arch.cluster_arrive_relaxed()
        arch.cluster_wait()

    @cute.jit
    def initialise(self, memory: SharedMemory) -> None:
        warp = arch.make_warp_uniform(arch.warp_idx())
        if warp == 0:
            with arch.elect_one():
                self.set_counts(memory)
        if cutlass.const_expr(self.plan.memory.tensor_memory is not None):
            if warp == self.plan.roles.first_warp(self.plan.products[0].role):
                product_sm100.allocate(memory)
            arch.sync_threads()

    def set_counts(self, memory: SharedMemory) -> None:
        for ring in self.plan.rings:
            for member in range(self.plan.roles[ring.each].members if ring.each else 1):
                pointer = next(p for r, p in rings_of(self.plan, memory.barriers(), member) if r is ring)
                Ring(self.plan, ring, pointer).initialise()

    @cute.jit
    def route(self, launch: Launch, warp: Int32, group: cutlass.Constexpr, first: cutlass.Constexpr) -> None:
        """One if/else over the groups of roles, as setmaxnreg asks: each group on its own warpgroups."""
        groups = self.plan.roles.groups
        after = first + self.plan.roles.group_warps(groups[group])
        if cutlass.const_expr(group + 1 == len(groups)):
            self.enter(launch, warp, group, first)
        else:
            if warp < after:
                self.enter(launch, warp, group, first)
            else:
                self.route(launch, warp, group + 1, after)

    def enter(self, launch: Launch, warp: Any, group: int, first: int) -> None:
        """Take the group's registers, then run each of its roles on its own warps."""
        roles = self.plan.roles.groups[group]
        budget = roles[0].registers
        if budget is not None:
            at_launch = self.plan.target.registers // self.plan.roles.threads // 8 * 8
            (arch.setmaxregister_decrease if budget < at_launch else arch.setmaxregister_increase)(budget)
        alone = len(roles) == 1 and roles[0].warps * roles[0].members == self.plan.roles.group_warps(roles)
        for role in roles:
            (self.run if alone else self.run_where)(launch, warp, role, first)
            first += role.warps * role.members

    @cute.jit
    def run_where(self, launch: Launch, warp: Int32, role: cutlass.Constexpr, first: cutlass.Constexpr) -> None:
        """The role, on its warps of a group that has others, idle ones among them."""
        if warp >= first and warp < first + role.warps * role.members:
            self.run(launch, warp, role, first)

    def run(self, launch: Launch, warp: Any, role: Role, first: int) -> None:
        """The role's program, on the member that this warp belongs to."""
        member = (warp - first) // role.warps if role.members > 1 else 0
        extent = next(t for t in self.plan.tensors if t.extents[0] == "m")
        role.program(Context(launch, role, member, launch.values[extent.name].shape[0]))
