"""Registers: the fragments alive at once in a member must fit the registers its role has. A lower bound of what a kernel needs."""

from typing import Any

from cute_kernels.simulator import faults


class Budget:
    """Counts float32 elements of live fragments, a register each."""

    def start(self, cluster: Any) -> None:
        target, roles = cluster.plan.target, cluster.plan.roles
        resident = roles.threads * cluster.plan.ctas_an_sm
        given = min(target.registers_a_thread, target.registers // resident // 8 * 8)
        for cta in cluster.ctas:
            for worker in cta.workers:
                worker.budget = min(worker.role.registers or given, target.registers_a_thread)

    def holds(self, worker: Any) -> None:
        if worker.registers > worker.budget:
            needs = f"fragments of {worker.registers} registers a thread, budget {worker.budget}"
            raise faults.RegisterBudget(needs, worker)
