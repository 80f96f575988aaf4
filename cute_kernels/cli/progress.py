"""A bar on standard error for whatever takes longer than two seconds, if somebody is looking."""

import contextlib
import itertools
import sys
import threading
from collections.abc import Iterator

PATIENCE = 2.0  # seconds without a bar
REFRESH = 0.1
WIDTH = 30
BLOCK = 6


@contextlib.contextmanager
def progress(label: str) -> Iterator[None]:
    """Show that `label` is under way, and for how long, while the body runs."""
    done = threading.Event()
    drawer = threading.Thread(target=draw, args=(label, done), daemon=True)
    if sys.stderr.isatty():
        drawer.start()
    try:
        yield
    finally:
        done.set()
        if drawer.is_alive():
            drawer.join()


def draw(label: str, done: threading.Event) -> None:
    """Redraw the line until `done`, then wipe it."""
    if done.wait(PATIENCE):
        return
    for turn in itertools.count():
        sys.stderr.write(f"\r{label} [{bar(turn)}] {PATIENCE + turn * REFRESH:.0f} s ")
        sys.stderr.flush()
        if done.wait(REFRESH):
            break
    sys.stderr.write("\r\033[K")


def bar(turn: int) -> str:
    """A block that goes round: how much work is left is not known beforehand."""
    cells = "=" * BLOCK + " " * (WIDTH - BLOCK)
    at = -turn % WIDTH
    return cells[at:] + cells[:at]
