"""What a user sees when something is wrong: one line that names the operator, the argument, what it got and what it takes."""

from typing import NoReturn

LONGEST = 200  # characters of what was got: a tensor given for a number would fill a page


class TargetError(RuntimeError):
    """No GPU that the kernels run on. The message says what was found, what is needed, and what works meanwhile."""


def refuse(operator: str, argument: str, got: object, takes: str, error: type[Exception] = ValueError) -> NoReturn:
    """Raise `error` on one line, whatever was got."""
    text = " ".join(str(got).split())
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    raise error(f"{operator}: {argument} is {text}; it takes {takes}")
