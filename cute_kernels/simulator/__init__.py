"""The verbs in NumPy: executes a plan's role programs on a CPU, under adversarial timing, and names what is wrong with them."""

from cute_kernels.simulator.faults import Deadlock, Hazard
from cute_kernels.simulator.observers.timeline import Span
from cute_kernels.simulator.run import STRATEGIES, Report, run

__all__ = ["STRATEGIES", "Deadlock", "Hazard", "Report", "Span", "run"]
