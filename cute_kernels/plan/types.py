"""The element types plans speak of, by the names torch and NumPy share, and the error a bad plan raises."""

DTYPES = {"bfloat16": 2, "float16": 2, "float32": 4}


class PlanError(ValueError):
    """A plan that cannot stand: over capacity, inconsistent roles, a forbidden overlay. The message shows the table."""


def itemsize(dtype: str) -> int:
    """Bytes of one element."""
    return DTYPES[dtype]
