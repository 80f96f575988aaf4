"""Row statistics that span the CTAs of a cluster. Straight-line helpers: they return the ring's next slot for the loop to re-bind."""

from typing import Any

TINY = 1e-37  # keeps 0 / 0 out where all columns are the same


def sum_over_cluster(mail: Any, letter: Any, rows: Any) -> tuple[Any, Any]:
    """`rows`, one float32 a row, summed over the CTAs of the cluster; and the mail's next slot.

    Every CTA adds the same numbers in the order of their ranks, so all get the same bits. A mail of no stages belongs
    to a cluster of one: the sum is there already.
    """
    if not mail.stages:
        return rows, letter
    mail.acquire(letter)
    mail.send(letter, rows)
    return received(mail, letter), mail.advance(letter)


def sums_over_cluster(mail: Any, letter: Any, several: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    """Several sums, their letters under way together where the mail has a stage for each; and the mail's next slot."""
    if not mail.stages:
        return several, letter
    if mail.stages < len(several):
        totals: tuple[Any, ...] = ()
        for rows in several:
            total, letter = sum_over_cluster(mail, letter, rows)
            totals += (total,)
        return totals, letter
    slots = [letter]
    for _ in several[1:]:
        slots.append(mail.advance(slots[-1]))
    for slot, rows in zip(slots, several, strict=True):
        mail.acquire(slot)
        mail.send(slot, rows)
    return tuple(received(mail, slot) for slot in slots), mail.advance(slots[-1])


def received(mail: Any, letter: Any) -> Any:
    """The letters of a slot added in the order of rank, when they are all there."""
    mail.wait(letter)
    first, *others = mail.receive(letter)
    for other in others:
        first = first + other
    mail.release(letter)
    return first


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
    (squares, rest), letter = sums_over_cluster(ctx.mail, letter, own)
    left, about_mean = rest / n, squares / n
    # about_mean − left², in a form that stays infinite where the squares overflow, instead of ∞ − ∞.
    share = left * (left / (about_mean + TINY))
    return (mean, left), about_mean * (1.0 - share), letter
