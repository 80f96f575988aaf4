"""Which tiles a CTA handles, in which order. Only + - * // and comparisons, so it serves integers and traced values alike."""

from typing import Any

from cute_kernels.plan import Plan


class Walk:
    """The row tiles of one cluster: `for index in range(ctx.first, ctx.tiles, ctx.step)`.

    first, step  the cluster's number and how many clusters there are
    tiles        row tiles in all, the ragged last one included
    rank         of the CTA in its cluster, or among the slices; these CTAs share rows and split columns
    """

    def __init__(self, plan: Plan, m: Any, block: Any, blocks: Any, rank: Any) -> None:
        self.plan, self.rank = plan, block % plan.slices if plan.slices > 1 else rank
        self.first = block // plan.sharing
        self.step = blocks // plan.sharing
        self.tiles = (m + plan.rows - 1) // plan.rows
