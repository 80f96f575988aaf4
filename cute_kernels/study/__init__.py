"""Pictures of a schedule, drawn from a plan and a simulated run; imports neither torch nor the DSL."""

from cute_kernels.study.flow import flow_svg
from cute_kernels.study.memory_map import memory_svg
from cute_kernels.study.page import page
from cute_kernels.study.timeline import perfetto, timeline_svg

__all__ = ["flow_svg", "memory_svg", "page", "perfetto", "timeline_svg"]
