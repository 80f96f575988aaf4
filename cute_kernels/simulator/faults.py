"""The faults a simulated run can end with, each with a name, and the program line they are blamed on."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).resolve().parent.parent
# Frames of these are machinery, not program: a message names the line of the program that called them.
MACHINERY = (str(PACKAGE / "simulator"), str(PACKAGE / "tile" / "rings.py"), str(PACKAGE / "tile" / "jit.py"))


class Hazard(Exception):  # noqa: N818 - the field's word for it
    """Something a GPU would get wrong, at least sometimes. `fault` names it; the message says what, who and where."""

    fault = "hazard"

    def __init__(self, what: str, worker: Any = None) -> None:
        super().__init__(f"{self.fault}: {what}{blame(worker)}")


class ReadBeforeArrival(Hazard):
    fault = "read before arrival"


class UninitialisedRead(Hazard):
    fault = "uninitialised read"


class StaleSlot(Hazard):
    fault = "stale slot: read after its release"


class OverwriteBeforeRelease(Hazard):
    fault = "overwritten before its release"


class OverwriteBeforeArrival(Hazard):
    fault = "overwritten before the last write had arrived"


class ReleaseInFlight(Hazard):
    fault = "released while products still read it"


class DoubleRelease(Hazard):
    fault = "released twice"


class ProductInFlight(Hazard):
    fault = "accumulator touched while products are in flight"


class MissingFence(Hazard):
    fault = "missing fence between ordinary accesses and the async proxy"


class OverlayClash(Hazard):
    fault = "overlay used in both lifetimes at once"


class WrongParity(Hazard):
    fault = "wrong parity"


class WrongCount(Hazard):
    fault = "wrong arrival count"


class WrongPhase(Hazard):
    fault = "bytes arrived in another phase than they were sent for"


class EarlyExit(Hazard):
    fault = "early exit: a CTA leaves while it may still be reached"


class LostTail(Hazard):
    fault = "lost tail: work left behind"


class OutOfBounds(Hazard):
    fault = "out of bounds"


class WrittenTwice(Hazard):
    fault = "output written twice"


class NotWritten(Hazard):
    fault = "output not written"


class TensorMemoryLeak(Hazard):
    fault = "tensor memory not freed"


class DoubleFree(Hazard):
    fault = "tensor memory freed twice"


class UseAfterFree(Hazard):
    fault = "tensor memory used after it was freed"


class RegisterBudget(Hazard):
    fault = "over the register budget"


class Deadlock(Exception):  # noqa: N818
    """Nothing can go on. The message has a paragraph for each waiting worker."""


def blame(worker: Any) -> str:
    """Who did it, at which line of its program."""
    if worker is None:
        return ""
    running = worker.engine.running is worker
    frame = sys._getframe(1) if running else worker.frame
    line = program_line(frame)
    return f"; {worker.name}" + (f" at {line}" if line else ", at the end of its program")


def program_line(frame: FrameType | None) -> str:
    """The program lines on the stack, innermost first."""
    lines = []
    while frame is not None and frame.f_code.co_name != "_live":
        path = frame.f_code.co_filename
        if not path.startswith(MACHINERY):
            lines.append(f"{shorten(path)}:{frame.f_lineno} in {frame.f_code.co_name}")
        frame = frame.f_back
    return ", called from ".join(lines)


def shorten(path: str) -> str:
    """The path inside the package, or as it is."""
    try:
        return str(Path(path).relative_to(PACKAGE))
    except ValueError:
        return path
