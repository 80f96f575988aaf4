"""The vocabulary of role programs: what a program may say, whichever back end runs it. Imports nothing but Python."""

from cute_kernels.tile.jit import PROGRAMS, jit
from cute_kernels.tile.rings import RingProtocol
from cute_kernels.tile.statistics import mean_and_square, sum_over_cluster, sums_over_cluster
from cute_kernels.tile.walk import Walk

__all__ = ["PROGRAMS", "RingProtocol", "Walk", "jit", "mean_and_square", "sum_over_cluster", "sums_over_cluster"]
