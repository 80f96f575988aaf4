"""A ring: stages handed from the role that fills them to the role that drains them, and back."""

from dataclasses import dataclass
from enum import Enum


class Fill(Enum):
    """What completes a stage's *full* barrier."""

    TMA = "tma"  # one announcement, then the bytes of the copies
    MAIL = "mail"  # likewise, but the bytes come from the CTAs of the cluster through DSMEM, this one included
    MMA = "mma"  # the tensor core, by tcgen05.commit, when the products so far are done
    WARPS = "warps"  # each warp of the one member that fills it, once


class Drain(Enum):
    """What completes a stage's *empty* barrier."""

    WARPS = "warps"  # each warp of every draining member, once
    PEERS = "peers"  # those warps in every CTA of the cluster: whoever got this CTA's letter, or its share of a box
    MMA = "mma"  # the tensor core, by tcgen05.commit


@dataclass(frozen=True)
class Ring:
    """`stages` stages, filled by one role and drained by another (or the same, for mail).

    carries  the buffers of which a stage is one stage each; with Fill.MMA the tensor-memory region; with Fill.WARPS maybe nothing: then
             a stage only says that something has been reached
    each     the role of which every member has a ring of its own; "" for one ring a CTA
    in_turn  a stage is for one of the members that drain the ring, whose turn it is; else for all of them. Who leaves stages to others
             must know, before it waits for its next one, that those were full: a parity tells only neighbouring phases apart
    stages 0 is a ring the plan leaves out: a program may start and drain it, which does nothing
    """

    name: str
    stages: int
    filled_by: str
    drained_by: str
    carries: tuple[str, ...]
    fill: Fill = Fill.TMA
    drain: Drain = Drain.WARPS
    each: str = ""
    in_turn: bool = False
