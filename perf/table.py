"""One measured case, and rows of them as text."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """Microseconds of each contender on one case. `bound` names the contender that ratios are taken to."""

    operator: str
    case: str
    accuracy: str
    microseconds: dict[str, float]
    bound: str
    rate: str  # ours, in the unit that bounds it

    @property
    def ratio(self) -> float:
        """Ours over the bound: 1 is level with it, less is faster."""
        return self.microseconds["ours"] / self.microseconds[self.bound]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def text(title: str, rows: list[Row]) -> str:
    """A table, a line a case."""
    names = list(dict.fromkeys(name for row in rows for name in row.microseconds))
    head = [title, *names, "ours / bound", "rate", "accuracy"]
    lines = [head]
    for row in rows:
        times = [f"{row.microseconds[n]:.1f}" if n in row.microseconds else "" for n in names]
        lines.append([row.case, *times, f"{row.ratio:.3f} {row.bound}", row.rate, row.accuracy])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
