"""Checkers of a simulated run: each listens to the machine's events and raises the fault it knows. See events.py."""

from cute_kernels.simulator.observers.bounds import Bounds
from cute_kernels.simulator.observers.budget import Budget
from cute_kernels.simulator.observers.contents import Contents
from cute_kernels.simulator.observers.leaving import Leaving
from cute_kernels.simulator.observers.order import Order

ALL = (Order, Contents, Bounds, Leaving, Budget)

__all__ = ["ALL", "Bounds", "Budget", "Contents", "Leaving", "Order"]
