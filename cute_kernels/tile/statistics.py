"""Row statistics that span the CTAs of a cluster. Straight-line helpers: they return the ring's next slot for the loop to re-bind."""

from typing import Any


def sum_over_cluster(mail: Any, letter: Any, rows: Any) -> tuple[Any, Any]:
    """`rows`, one float32 a row, summed over the CTAs of the cluster; and the mail's next slot.

    Every CTA adds the same numbers in the order of their ranks, so all get the same bits. A mail of no stages belongs
    to a cluster of one: the sum is there already.
    """
    if not mail.stages:
        return rows, letter
    mail.acquire(letter)
    mail.send(letter, rows)
    mail.wait(letter)
    first, *others = mail.receive(letter)
    for other in others:
        first = first + other
    mail.release(letter)
    return first, mail.advance(letter)


def sums_over_pieces(ctx: Any, pieces: Any, function: Any, rows: Any = ()) -> tuple[Any, ...]:
    """The row_sums of fragments that lie side by side, added in their order."""
    total: tuple[Any, ...] = ()
    for piece in pieces:
        own = ctx.row_sums(piece, function, rows)
        total = tuple(a + b for a, b in zip(total, own, strict=True)) if total else own
    return total


def mean_and_square(ctx: Any, letter: Any, pieces: Any, n: int, centre: bool) -> tuple[Any, Any, Any]:
    """Of the rows of `n` columns that the cluster holds: their mean (None unless `centre`), their mean square about it; the mail's next slot.

    `pieces` are the fragments of this CTA's columns; they are walked once for a mean square, twice with a mean.

    The mean is a pair of float32 to be subtracted one after the other: what rounding left of it, a second pass over the
    registers finds, together with the square about it. So nothing cancels, however large the mean.
    """
    if not centre:
        squares, letter = sum_over_cluster(ctx.mail, letter, sums_over_pieces(ctx, pieces, lambda v: (v * v,))[0])
        return None, squares / n, letter
    total, letter = sum_over_cluster(ctx.mail, letter, sums_over_pieces(ctx, pieces, lambda v: (v,))[0])
    mean = total / n
    own = sums_over_pieces(ctx, pieces, lambda v, m: ((v - m) * (v - m), v - m), rows=(mean,))
    squares, letter = sum_over_cluster(ctx.mail, letter, own[0])
    rest, letter = sum_over_cluster(ctx.mail, letter, own[1])
    left = rest / n
    return (mean, left), squares / n - left * left, letter
