"""What a plan may know of a GPU: capacities and rates, each with its source. No detection here; runtime does that."""

from dataclasses import dataclass

CUDA_GUIDE = "CUDA C++ Programming Guide 13.0, table 'Technical Specifications per Compute Capability'"
HOPPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper; NVIDIA H200 datasheet"
BLACKWELL = "NVIDIA Blackwell B200 datasheet; CUTLASS Blackwell functionality notes"


@dataclass(frozen=True)
class Target:
    """One architecture. Sizes in bytes, rates per second unless a name says otherwise."""

    arch: str  # what the compiler is told: "sm_90a"
    generation: str
    capability: tuple[int, int]
    sms: int
    smem_bytes: int  # largest a CTA may use
    registers: int  # 32-bit registers of an SM, which one CTA may own whole
    registers_a_thread: int
    threads: int  # largest CTA
    cluster_portable: int
    cluster_most: int
    tmem_columns: int  # of 128 lanes x 32 bits; 0 where there is no tensor memory
    clock_hz: float
    copy_rate: float  # bytes read plus bytes written through HBM
    mma_flops_a_cycle: int  # of one SM, 16-bit inputs, dense
    sources: tuple[tuple[str, str], ...]

    def __hash__(self) -> int:
        """Of its name: every launch looks something up by its target."""
        return hash(self.arch)

    @property
    def mma_rate(self) -> float:
        """FLOP/s of the whole chip on 16-bit inputs, at the nominal clock."""
        return self.sms * self.mma_flops_a_cycle * self.clock_hz


SM90A = Target(
    arch="sm_90a",
    generation="Hopper",
    capability=(9, 0),
    sms=132,
    smem_bytes=232448,
    registers=65536,
    registers_a_thread=255,
    threads=1024,
    cluster_portable=8,
    cluster_most=16,
    tmem_columns=0,
    clock_hz=1.755e9,
    copy_rate=4.24e12,
    mma_flops_a_cycle=4096,
    sources=(
        ("sms, mma_flops_a_cycle", HOPPER + ": 132 SMs, 989 TFLOP/s dense bf16"),
        ("smem_bytes, registers, threads, cluster_portable", CUDA_GUIDE),
        ("cluster_most", "CUDA C++ Programming Guide 13.0, thread block clusters: 16 with the non-portable attribute"),
        ("clock_hz", "boost clock at which the datasheet's tensor rate is quoted"),
        ("copy_rate", "device-to-device copy measured on one H200, November 2026"),
    ),
)

SM100A = Target(
    arch="sm_100a",
    generation="Blackwell",
    capability=(10, 0),
    sms=148,
    smem_bytes=232448,
    registers=65536,
    registers_a_thread=255,
    threads=1024,
    cluster_portable=8,
    cluster_most=16,
    tmem_columns=512,
    clock_hz=1.85e9,
    copy_rate=7.2e12,
    mma_flops_a_cycle=8192,
    sources=(
        (
            "sms, mma_flops_a_cycle, copy_rate",
            BLACKWELL + ": 2.25 PFLOP/s dense bf16, 8 TB/s; 90 % of it for a copy, not measured",
        ),
        ("smem_bytes, registers, threads, cluster_portable", CUDA_GUIDE),
        ("tmem_columns", "PTX ISA 9.0, tensor memory: 512 columns of 128 lanes"),
    ),
)

TARGETS = {t.arch: t for t in (SM90A, SM100A)}


def target(arch: str) -> Target:
    """The target called `arch`; ValueError names those there are."""
    if arch not in TARGETS:
        raise ValueError(f"unknown architecture {arch!r}: cute_kernels knows {', '.join(TARGETS)}")
    return TARGETS[arch]
