"""Role programs that do one thing each, in place of the roles of norms and of linear_norm's multiply role."""

from typing import Any

from cute_kernels import tile


@tile.jit
def copy(ctx: Any) -> None:
    """read, write: y = x."""
    for index in range(ctx.first, ctx.tiles, ctx.step):
        ctx.write(ctx.y, index, ctx.rank, ctx.read(ctx.x, index, ctx.rank))


@tile.jit
def scale_columns(ctx: Any) -> None:
    """read_columns, apply over columns: y = x · weight + 1."""
    weight = ctx.read_columns(ctx.weight, ctx.rank)
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x = ctx.read(ctx.x, index, ctx.rank)
        ctx.apply(x, lambda v, w: v * w + 1.0, columns=(weight,))
        ctx.write(ctx.y, index, ctx.rank, x)


@tile.jit
def combine_scaled(ctx: Any) -> None:
    """combine of a fragment that columns are applied to: y = x · weight + residual."""
    weight = ctx.read_columns(ctx.weight, ctx.rank)
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x, residual = ctx.read(ctx.x, index, ctx.rank), ctx.read(ctx.residual, index, ctx.rank)
        ctx.apply(x, lambda v, w: v * w, columns=(weight,))
        ctx.write(ctx.y, index, ctx.rank, *ctx.combine(lambda v, r: (v + r,), (x, residual)))


@tile.jit
def sum_rows(ctx: Any) -> None:
    """row_sum, zero_rows, apply over rows: y = x + Σ x of this CTA's columns."""
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x = ctx.read(ctx.x, index, ctx.rank)
        sums = ctx.zero_rows() + ctx.row_sum(x, lambda v: v)
        ctx.apply(x, lambda v, s: v + s, rows=(sums,))
        ctx.write(ctx.y, index, ctx.rank, x)


@tile.jit
def count_columns(ctx: Any) -> None:
    """row_sum counts no column beyond the tensor, whatever the function makes of it: y = this CTA's number of columns."""
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x = ctx.read(ctx.x, index, ctx.rank)
        ctx.apply(x, lambda v, s: v * 0.0 + s, rows=(ctx.row_sum(x, lambda v: v * 0.0 + 1.0),))
        ctx.write(ctx.y, index, ctx.rank, x)


@tile.jit
def pair(ctx: Any) -> None:
    """row_sum and apply over two tiles: y = 2 x + residual + Σ x · residual. One CTA a row."""
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x, other = ctx.read(ctx.x, index, ctx.rank), ctx.read(ctx.residual, index, ctx.rank)
        sums = ctx.row_sum(x, lambda v, r: v * r, tiles=(other,))
        ctx.apply(x, lambda v, s, r: v + v + r + s, rows=(sums,), tiles=(other,))
        ctx.write(ctx.y, index, ctx.rank, x)


@tile.jit
def sum_thrice(ctx: Any) -> None:
    """row_sums: y = x + Σ x + 2 Σ (x + 1) · residual + 3 Σ residual. One CTA a row."""
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x, other = ctx.read(ctx.x, index, ctx.rank), ctx.read(ctx.residual, index, ctx.rank)
        one, two, three = ctx.row_sums(x, lambda v, r: (v, (v + 1.0) * r, r), tiles=(other,))
        ctx.apply(x, lambda v, s: v + s, rows=(one + two * 2.0 + three * 3.0,))
        ctx.write(ctx.y, index, ctx.rank, x)


@tile.jit
def write_row_sums(ctx: Any) -> None:
    """write_rows: y = x, rstd = Σ x, mean = Σ x². One CTA a row."""
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x = ctx.read(ctx.x, index, ctx.rank)
        ctx.write_rows(ctx.rstd, index, ctx.row_sum(x, lambda v: v))
        ctx.write_rows(ctx.mean, index, ctx.row_sum(x, lambda v: v * v))
        ctx.write(ctx.y, index, ctx.rank, x)


@tile.jit
def read_row_factors(ctx: Any) -> None:
    """prefetch, beyond the tensor too; read_rows: dx = x · rstd + mean."""
    for index in range(ctx.first, ctx.tiles, ctx.step):
        ctx.prefetch(ctx.x, index + ctx.step, ctx.rank)
        x = ctx.read(ctx.x, index, ctx.rank)
        rows = (ctx.read_rows(ctx.rstd, index), ctx.read_rows(ctx.mean, index))
        ctx.apply(x, lambda v, r, m: v * r + m, rows=rows)
        ctx.write(ctx.dx, index, ctx.rank, x)


@tile.jit
def sum_columns(ctx: Any) -> None:
    """zero_columns, add_columns, write_columns: dweight = Σ x · dy, dbias = 2 Σ x over the cluster's rows."""
    products, doubled = ctx.zero_columns(ctx.dweight), ctx.zero_columns(ctx.dbias)
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x, dy = ctx.read(ctx.x, index, ctx.rank), ctx.read(ctx.dy, index, ctx.rank)
        ctx.add_columns(products, x, lambda v, d: v * d, tiles=(dy,))
        ctx.add_columns(doubled, x, lambda v: v)
        ctx.add_columns(doubled, x, lambda v: v)
    ctx.write_columns(ctx.dweight, ctx.first, ctx.rank, products)
    ctx.write_columns(ctx.dbias, ctx.first, ctx.rank, doubled)


@tile.jit
def inverse_roots(ctx: Any) -> None:
    """rsqrt: y = 1 / √(Σ x² of this CTA's columns), in every column."""
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x = ctx.read(ctx.x, index, ctx.rank)
        root = ctx.rsqrt(ctx.row_sum(x, lambda v: v * v))
        ctx.apply(x, lambda v, r: v * 0.0 + r, rows=(root,))
        ctx.write(ctx.y, index, ctx.rank, x)


@tile.jit
def exchange(ctx: Any) -> None:
    """send, receive and the mail's ring, lap after lap: y = x + Σ over ranks of (rank + 1) · that CTA's Σ x."""
    mail = ctx.mail
    letter = mail.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x = ctx.read(ctx.x, index, ctx.rank)
        mail.acquire(letter)
        mail.send(letter, ctx.row_sum(x, lambda v: v))
        mail.wait(letter)
        total = weigh(mail.receive(letter))
        mail.release(letter)
        letter = mail.advance(letter)
        ctx.apply(x, lambda v, s: v + s, rows=(total,))
        ctx.write(ctx.y, index, ctx.rank, x)
    mail.drain(letter)


def weigh(letters: tuple[Any, ...]) -> Any:
    """Σ (rank + 1) · letter."""
    total = letters[0]
    for rank, letter in enumerate(letters[1:], start=2):
        total = total + letter * float(rank)
    return total


def write_parts(ctx: Any, index: Any, accumulator: Any) -> None:
    """acquire, put, publish and store of a staging: an accumulator into its tile of y. Straight-line, so it needs no decorator."""
    staging = ctx.staging
    for part in staging.parts:
        staging.acquire()
        staging.put(part, ctx.part(accumulator, part))
        staging.publish()
        staging.store(ctx.y, part, index * ctx.members + ctx.member, ctx.rank * len(staging.parts) + part)


@tile.jit
def multiply(ctx: Any) -> None:
    """The Hopper product with its ring and staging, nothing in the epilogue: y = x · weightᵀ."""
    ring, product = ctx.operands, ctx.product
    accumulator = product.accumulator()
    slot = ring.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        ring.wait(slot)
        product.multiply(accumulator, slot, fresh=True)
        product.wait(0)
        ring.release(slot)
        slot = ring.advance(slot)
        for _k in range(1, ctx.plan.problem.steps):
            ring.wait(slot)
            product.multiply(accumulator, slot)
            product.wait(0)
            ring.release(slot)
            slot = ring.advance(slot)
        write_parts(ctx, index, accumulator)
    ctx.staging.drain()


@tile.jit
def sum_accumulator_rows(ctx: Any) -> None:
    """row_sum and apply on accumulators: y = x · weightᵀ + its row sums over this CTA's columns. One step of K."""
    ring, product = ctx.operands, ctx.product
    accumulator = product.accumulator()
    slot = ring.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        ring.wait(slot)
        product.multiply(accumulator, slot, fresh=True)
        product.wait(0)
        ring.release(slot)
        slot = ring.advance(slot)
        ctx.apply(accumulator, lambda v, s: v + s, rows=(ctx.row_sum(accumulator, lambda v: v),))
        write_parts(ctx, index, accumulator)
    ctx.staging.drain()


@tile.jit
def complete_accumulator(ctx: Any) -> None:
    """read, read_columns, apply over columns and over tiles, on parts of an accumulator: y = x · weightᵀ · norm_weight + 2 residual. One step of K."""
    ring, product = ctx.operands, ctx.product
    accumulator = product.accumulator()
    slot = ring.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        ring.wait(slot)
        product.multiply(accumulator, slot, fresh=True)
        product.wait(0)
        ring.release(slot)
        slot = ring.advance(slot)
        complete_parts(ctx, index * ctx.members + ctx.member, accumulator)
        write_parts(ctx, index, accumulator)
    ctx.staging.drain()


def complete_parts(ctx: Any, row: Any, accumulator: Any) -> None:
    """The columns and the tile applied to each part, in place."""
    for part in ctx.staging.parts:
        column = ctx.rank * len(ctx.staging.parts) + part
        values = ctx.part(accumulator, part)
        ctx.apply(values, lambda v, w: v * w, columns=(ctx.read_columns(ctx.norm_weight, column),))
        ctx.apply(values, lambda v, r: v + r + r, tiles=(ctx.read(ctx.residual, row, column),))


@tile.jit
def count_accumulator_columns(ctx: Any) -> None:
    """row_sums of accumulators count no column beyond the tensor; write_rows: y = this CTA's number of columns, rstd = the first CTA's Σ z."""
    ring, product = ctx.operands, ctx.product
    accumulator = product.accumulator()
    slot = ring.start()
    for index in range(ctx.first, ctx.tiles, ctx.step):
        ring.wait(slot)
        product.multiply(accumulator, slot, fresh=True)
        product.wait(0)
        ring.release(slot)
        slot = ring.advance(slot)
        count, total = ctx.row_sums(accumulator, lambda v: (v * 0.0 + 1.0, v))
        ctx.write_rows(ctx.rstd, index * ctx.members + ctx.member, total)
        ctx.apply(accumulator, lambda v, c: v * 0.0 + c, rows=(count,))
        write_parts(ctx, index, accumulator)
    ctx.staging.drain()


@tile.jit
def multiply_by_turns(ctx: Any) -> None:
    """skip, publish, and a product whose operands have a ring each: y = x · weightᵀ, members taking whole tiles in turn."""
    rows, weights, turns, product = ctx.rows, ctx.weights, ctx.turns, ctx.product
    steps = ctx.plan.problem.steps
    accumulator = product.accumulator()
    slot, turn = rows.skip(rows.start(), ctx.member * steps), turns.skip(turns.start(), ctx.member)
    if ctx.member == ctx.members - 1:
        turns.publish(turns.start())
    for index in range(ctx.first + ctx.member * ctx.step, ctx.tiles, ctx.members * ctx.step):
        turns.wait(turn)
        turns.release(turn)
        held = weights.start()
        for k in range(steps):
            rows.wait(slot)
            weights.wait(held)
            product.multiply(accumulator, slot, fresh=k == 0, other=held)
            product.wait(0)
            rows.release(slot)
            slot, held = rows.advance(slot), weights.advance(held)
        if index + ctx.step < ctx.tiles:
            turns.publish(turns.advance(turn))
        turn, slot = turns.skip(turn, ctx.members), rows.skip(slot, (ctx.members - 1) * steps)
        write_tile(ctx, index, accumulator)
    held = weights.start()
    for _k in range(steps):
        weights.release(held)
        held = weights.advance(held)
    ctx.staging.drain()


def write_tile(ctx: Any, row: Any, accumulator: Any) -> None:
    """write_parts of a member that has the tile to itself."""
    staging = ctx.staging
    for part in staging.parts:
        staging.acquire()
        staging.put(part, ctx.part(accumulator, part))
        staging.publish()
        staging.store(ctx.y, part, row, ctx.rank * len(staging.parts) + part)


@tile.jit
def combine_streams(ctx: Any) -> None:
    """read_table, combine, slices of a row: out0 = f · post0 + x1 · comb1, out1 = x0 - comb3, of two streams."""
    for index in range(ctx.first, ctx.tiles, ctx.step):
        f, one, other = (ctx.read(tensor, index, ctx.rank) for tensor in (ctx.f, ctx.x0, ctx.x1))
        (post,), comb = ctx.read_table(ctx.post, index, 0, 1), ctx.read_table(ctx.comb, index, 1, 3)
        outs = ctx.combine(
            lambda f, x, y, p, c, d: (f * p + y * c, x - d), (f, one, other), rows=(post, comb[0], comb[2])
        )
        ctx.write(ctx.out0, index, ctx.rank, outs[0])
        ctx.write(ctx.out1, index, ctx.rank, outs[1])


@tile.jit
def stream_sums(ctx: Any) -> None:
    """read_table of splits: layer_input = x0 · Σ sqrsum + the last of Σ dot_mix, which adds the splits' parts."""
    problem = ctx.plan.problem
    for index in range(ctx.first, ctx.tiles, ctx.step):
        x = ctx.read(ctx.x0, index, ctx.rank)
        (sqrsum,) = ctx.read_table(ctx.sqrsum, index, 0, 1)
        (last,) = ctx.read_table(ctx.dot_mix, index, problem.mixes - 1, 1)
        ctx.write(ctx.layer_input, index, ctx.rank, *ctx.combine(lambda v, s, d: (v * s + d,), (x,), (sqrsum, last)))


@tile.jit
def sum_splits(ctx: Any) -> None:
    """write_table: post and comb are sums over the splits, and a table that is the same for every row."""
    n = ctx.plan.problem.n
    if ctx.rank == 0:
        for index in range(ctx.first, ctx.tiles, ctx.step):
            base = ctx.read_table(ctx.base, index, 0, n)
            ctx.write_table(ctx.post, index, base)
            ctx.write_table(ctx.comb, index, ctx.read_table(ctx.dot_mix, index, 2 * n, n * n))


@tile.jit
def transcendentals(ctx: Any) -> None:
    """exp, reciprocal, maximum: post = e^Σ dot_mix of pre, comb = 1 / (max(Σ dot_mix of comb, its first) + 1000)."""
    n = ctx.plan.problem.n
    if ctx.rank == 0:
        for index in range(ctx.first, ctx.tiles, ctx.step):
            ctx.write_table(ctx.post, index, tuple(ctx.exp(v) for v in ctx.read_table(ctx.dot_mix, index, 0, n)))
            comb = ctx.read_table(ctx.dot_mix, index, 2 * n, n * n)
            found = tuple(ctx.reciprocal(ctx.maximum(v, comb[0]) + 1000.0) for v in comb)
            ctx.write_table(ctx.comb, index, found)
