"""How long things take, for the strategy "timed". A model, not a measurement: it says which role waits for which, and roughly how long.

What a target states (copy rate, MMA FLOPs a cycle, clock) is taken from there. The rest are the constants below, chosen
once from published microbenchmarks' orders of magnitude and not tuned to any kernel.
"""

from dataclasses import dataclass

from cute_kernels.plan import Plan

COPY_LATENCY = 600.0  # ns from issue of a TMA load to its bytes, through HBM
CACHE_LATENCY = 250.0  # ns likewise where somebody has read the box before: it lies in L2, which never forgets here
PORT = 64.0  # bytes a cycle between an SM and L2, or another SM
LETTER_LATENCY = 200.0  # ns of a store into another CTA's shared memory
STORE_LATENCY = 50.0  # ns until a TMA store has read its buffer
PRODUCT_LATENCY = 30.0  # cycles of a product beyond its FLOPs
WAKE = 20.0  # cycles from the completion of a barrier to the next instruction of who waited
ISSUE = 10.0  # cycles of a verb that only issues or arrives
READ_LATENCY = 600.0  # ns of global loads into registers
# Instructions for each element a thread holds; a warp issues one a cycle.
INSTRUCTIONS = {
    "row_sum": 2.0,
    "apply": 2.0,
    "put": 1.5,
    "tmem read": 1.0,
    "read": 1.0,
    "read columns": 1.0,
    "write": 1.0,
    "add columns": 2.0,
    "write columns": 2.0,
}
SHUFFLE = 60.0  # cycles to complete a row's sum over its threads
MEET = 30.0  # cycles of a named barrier among a member's warps

KINDS = {
    "row_sum": "compute", "apply": "compute", "rsqrt": "compute", "put": "compute", "tmem read": "compute",
    "add columns": "compute", "read rows": "copy", "write rows": "store", "write columns": "store",
    "read": "copy", "read columns": "copy", "load": "copy", "write": "store", "store": "store",
    "send": "exchange", "receive": "exchange", "multiply": "mma",
    "staging acquire": "sync", "staging publish": "sync",
}  # fmt: skip
UNIT_KINDS = {"TMA": "copy", "tensor core": "mma", "DSMEM": "exchange", "TMA store": "store"}


@dataclass(frozen=True)
class Cost:
    """The model for one plan. A cluster has its share of the chip's HBM, a CTA its share of its SM."""

    ns_a_cycle: float
    memory: float  # bytes a ns between a cluster and HBM
    port: float  # bytes a ns in and out of a CTA
    flops: float  # a ns, of a CTA

    @classmethod
    def of(cls, plan: Plan) -> "Cost":
        target, share = plan.target, plan.ctas_an_sm
        cycles = target.clock_hz / 1e9
        memory = target.copy_rate / 1e9 / target.sms / share * plan.cluster
        return cls(1 / cycles, memory, PORT * cycles / share, target.mma_flops_a_cycle * cycles / share)

    def verb(self, name: str, work: int) -> float:
        """ns a worker spends in a verb, `work` elements a thread."""
        cycles = ISSUE + INSTRUCTIONS.get(name, 0.0) * work
        cycles += {"row_sum": SHUFFLE, "staging acquire": MEET, "staging publish": MEET}.get(name, 0.0)
        return cycles * self.ns_a_cycle + (READ_LATENCY if name in ("read", "read columns", "read rows") else 0.0)

    def busy(self, kind: str, amount: int) -> float:
        """ns a unit is taken up by an operation, and cannot begin the next."""
        return amount / (self.flops if kind == "tensor core" else self.port)

    def latency(self, kind: str, cached: bool) -> float:
        """ns more until its effect is seen, in which the unit serves others."""
        if kind == "tensor core":
            return PRODUCT_LATENCY * self.ns_a_cycle
        copy = CACHE_LATENCY if cached else COPY_LATENCY
        return {"TMA": copy, "DSMEM": LETTER_LATENCY, "TMA store": STORE_LATENCY}[kind]
