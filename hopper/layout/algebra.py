"""How layouts combine: coalesce, compose, complement, invert, divide, multiply. After CuTe.

Source: CUTLASS, "CuTe Layout Algebra", and the documentation's worked examples, which
tests/test_layout.py repeats. ``composition(a, b)`` here is ``a(b(c))`` for every coordinate c of b,
or it is refused: CuTe checks its two divisibility conditions, and leaves to you that b stays inside
a and that the modes of b do not carry into each other.

A *tiler* is a layout, an integer (a shape, of stride 1), or a tuple of tilers, one for each mode.
"""

from __future__ import annotations

from collections.abc import Callable

from hopper.errors import ProblemError

from .core import IntTuple, Layout, make_layout, written

Tiler = Layout | int | tuple["Tiler", ...]

# ---- coalesce -----------------------------------------------------------------------------------


def coalesce(layout: Layout, profile: IntTuple | None = None) -> Layout:
    """The same function of an integer with as few modes as possible.

    ``profile``: a tuple coalesces each mode by itself, so the rank stays: ``coalesce(a, (1, 1))``;
    its numbers do not matter, and modes beyond it stay as they are. Raises ProblemError for more
    parts than modes.
    """
    if isinstance(profile, tuple):
        _require_rank(layout, profile, "profile")
        done = [coalesce(mode, part) for mode, part in zip(layout, profile, strict=False)]
        return make_layout(*done, *list(layout)[len(profile) :])
    modes: list[tuple[int, int]] = []
    for shape, stride in layout.leaves:
        if shape == 1:
            continue
        if modes and stride == modes[-1][0] * modes[-1][1]:
            modes[-1] = (modes[-1][0] * shape, modes[-1][1])
        else:
            modes.append((shape, stride))
    return _of(modes)


def _of(modes: list[tuple[int, int]]) -> Layout:
    """A layout of these leaves: an integer one where there is one, 1:0 where there is none."""
    if len(modes) < 2:
        return Layout(*(modes[0] if modes else (1, 0)))
    return Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))


# ---- composition --------------------------------------------------------------------------------


def composition(a: Layout, b: Tiler) -> Layout:
    """``a`` after ``b``: a layout r with ``r(c) == a(b(c))`` for every coordinate c of ``b``.

    ``b`` may be a tiler; a tuple composes mode by mode, and modes beyond it stay. Raises
    ProblemError where ``b`` leaves ``a`` or breaks a condition that composing mode by mode has, and
    says which. (For a few of those a layout exists, which neither this nor CuTe looks for.)
    """
    if isinstance(b, tuple):
        return _by_mode(a, b, composition)
    b = _layout(b)
    flat = coalesce(a)
    reached = [0] * flat.rank
    composed = _compose(flat, b, reached)
    for mode, ((extent, stride), digit) in enumerate(zip(flat.leaves, reached, strict=True)):
        if digit < extent:
            continue
        if mode == flat.rank - 1:
            raise ProblemError(
                f"{a} ∘ {b}: the right one reaches {b.cosize - 1}, the left one has {a.size} "
                f"elements; make the right one smaller or the left one larger"
            )
        raise ProblemError(
            f"{a} ∘ {b}: the modes of the right one carry into each other inside the mode "
            f"{extent}:{stride} of {flat}, so no strides describe it; use modes that stay below "
            f"{extent} together"
        )
    return composed


def _compose(flat: Layout, b: Layout, reached: list[int]) -> Layout:
    """Compose each leaf of ``b`` by itself; add to ``reached`` how far it goes in each mode."""
    if isinstance(b.shape, tuple):
        return make_layout(*(_compose(flat, mode, reached) for mode in b))
    count, step = b.shape, b.stride
    found: list[tuple[int, int]] = []
    modes = flat.leaves
    for mode, (extent, stride) in enumerate(modes):
        if count == 1 or step == 0:
            break
        last = mode == len(modes) - 1
        if not last and step % extent == 0:  # nothing of this mode is left: it is skipped whole
            step //= extent
            continue
        stays = (count - 1) * step < extent
        if not last and extent % step and not stays:
            raise ProblemError(
                f"{flat} ∘ {b}: steps of {b.stride} begin anew inside the mode {extent}:{stride}, "
                f"because {extent} and {step} do not divide one another (stride divisibility); "
                f"choose a stride that divides it or that it divides"
            )
        left = count if last or stays else extent // step
        if count > left and count % left:
            raise ProblemError(
                f"{flat} ∘ {b}: {b.shape} elements end inside the mode {extent}:{stride}: "
                f"{count} is no multiple of the {left} that it gives (shape divisibility); choose "
                f"a shape that divides it or that it divides"
            )
        taken = min(count, left)
        found.append((taken, stride * step))
        reached[mode] += (taken - 1) * step
        count, step = count // taken, 1
    if not found:
        return Layout(b.shape, 0)
    return _of(found)


# ---- complement and inverses --------------------------------------------------------------------


def complement(layout: Layout, cotarget: int | None = None) -> Layout:
    """The repetitions of ``layout`` that fill the offsets from 0 to ``cotarget`` - 1 with it.

    Together, ``make_layout(layout, complement(layout, n))`` reach every offset below n once, and
    beyond n only to complete a repetition. Its strides increase. ``cotarget``: left out, the cosize
    of the layout. Raises ProblemError where repetitions cannot fill the gaps.
    """
    current = 1
    found: list[tuple[int, int]] = []
    for stride, shape in sorted((d, s) for s, d in layout.leaves if s > 1 and d > 0):
        if stride % current:
            raise ProblemError(
                f"complement of {layout}: stride {stride} is no multiple of {current}, where the "
                f"modes below it end, so its gaps have no regular filling; use strides that are "
                f"multiples of the extents below them"
            )
        found.append((stride // current, current))
        current = shape * stride
    target = layout.cosize if cotarget is None else cotarget
    found.append((-(-target // current), current))
    return coalesce(_of(found))


def right_inverse(layout: Layout) -> Layout:
    """An r with ``layout(r(i)) == i``: from an offset back to an integer coordinate.

    Its size tells how far: up to the first offset that the modes of the layout leave out.
    """
    current = 1
    found: list[tuple[int, int]] = []
    ordered = sorted(
        (stride, shape, place)
        for (shape, stride), (_, place) in zip(
            layout.leaves, Layout(layout.flat.shape).leaves, strict=True
        )
        if shape > 1 and stride > 0
    )
    for stride, shape, place in ordered:
        if stride != current:
            break
        found.append((shape, place))
        current *= shape
    return coalesce(_of(found))


def left_inverse(layout: Layout) -> Layout:
    """An l with ``l(layout(i)) == i`` for every integer coordinate i: who is at an offset.

    At an offset that the layout leaves out, l gives some number of ``size`` or more. Raises
    ProblemError for a layout that maps two coordinates to one offset, or whose gaps are irregular.
    """
    if any(d == 0 and s > 1 for s, d in layout.leaves):
        raise ProblemError(
            f"left inverse of {layout}: a stride of 0 puts several coordinates at one offset, so "
            f"none of them can be told from it; leave that mode out"
        )
    return right_inverse(make_layout(layout, complement(layout)))


# ---- division -----------------------------------------------------------------------------------


def logical_divide(layout: Layout, tiler: Tiler) -> Layout:
    """Two modes: the elements that ``tiler`` points at, and the repetitions of that tile.

    It is ``composition(layout, (tiler, complement(tiler, size)))``. A tuple divides mode by mode:
    ((tile, rest), (tile, rest), …). Raises ProblemError where tiles do not fill the layout: CuTe
    rounds up, and leaves it to you to guard the elements beyond the end.
    """
    try:
        return _divide(layout, tiler)
    except ProblemError as error:
        raise ProblemError(f"{layout} cut into tiles {written(tiler)}: {error}") from error


def _divide(layout: Layout, tiler: Tiler) -> Layout:
    if isinstance(tiler, tuple):
        return _by_mode(layout, tiler, _divide)
    tile = _layout(tiler)
    try:
        return composition(layout, make_layout(tile, complement(tile, layout.size)))
    except ProblemError as error:
        if layout.size % tile.size == 0:
            raise
        raise ProblemError(
            f"tiles of {tile.size} do not fill the {layout.size} elements of {layout}; choose a "
            f"tile whose size divides {layout.size}, or pad the matrix"
        ) from error


def zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    """``logical_divide`` with all tiles in mode 0 and all repetitions in mode 1."""
    return _zipped(layout, tiler, logical_divide)


def tiled_divide(layout: Layout, tiler: Tiler) -> Layout:
    """``zipped_divide`` with each repetition a mode of its own: ((tile, tile), rest, rest, …)."""
    tile, rest = zipped_divide(layout, tiler)
    return make_layout(tile, *rest)


def flat_divide(layout: Layout, tiler: Tiler) -> Layout:
    """``zipped_divide`` with every part a mode of its own: (tile, tile, rest, rest, …)."""
    tile, rest = zipped_divide(layout, tiler)
    return make_layout(*tile, *rest)


# ---- products -----------------------------------------------------------------------------------


def logical_product(layout: Layout, tiler: Tiler) -> Layout:
    """Two modes: ``layout`` itself, and its repetitions, in the order that ``tiler`` gives.

    A tuple multiplies mode by mode. Raises ProblemError where complement or composition does.
    """
    if isinstance(tiler, tuple):
        return _by_mode(layout, tiler, logical_product)
    order = _layout(tiler)
    repeated = complement(layout, layout.size * order.cosize)
    return make_layout(layout, composition(repeated, order))


def zipped_product(layout: Layout, tiler: Tiler) -> Layout:
    """``logical_product`` with the layout's modes in mode 0 and all repetitions in mode 1."""
    return _zipped(layout, tiler, logical_product)


def blocked_product(layout: Layout, tiler: Layout) -> Layout:
    """``layout`` as a block, repeated as ``tiler`` arranges: mode i of both becomes one mode.

    The block's coordinate runs fastest. The one with fewer modes gets modes of 1.
    """
    block, repeated = _matched_product(layout, tiler)
    return _paired(block, repeated)


def raked_product(layout: Layout, tiler: Layout) -> Layout:
    """Like ``blocked_product``, but ``tiler``'s coordinate runs fastest: the blocks interleave."""
    block, repeated = _matched_product(layout, tiler)
    return _paired(repeated, block)


def _matched_product(layout: Layout, tiler: Layout) -> Layout:
    rank = max(layout.rank, tiler.rank)
    return logical_product(_padded(layout, rank), _padded(tiler, rank))


def _padded(layout: Layout, rank: int) -> Layout:
    return make_layout(*layout, *[Layout(1, 0)] * (rank - layout.rank))


def _paired(fast: Layout, slow: Layout) -> Layout:
    pairs = make_layout(*(make_layout(*pair) for pair in zip(fast, slow, strict=True)))
    return coalesce(pairs, (1,) * pairs.rank)


# ---- tilers -------------------------------------------------------------------------------------


def _layout(tiler: Layout | int) -> Layout:
    return tiler if isinstance(tiler, Layout) else Layout(tiler)


def _by_mode(layout: Layout, tiler: tuple, operation: Callable[..., Layout]) -> Layout:
    _require_rank(layout, tiler, "tiler")
    done = [operation(mode, part) for mode, part in zip(layout, tiler, strict=False)]
    return make_layout(*done, *list(layout)[len(tiler) :])


def _require_rank(layout: Layout, parts: tuple, what: str) -> None:
    if len(parts) > layout.rank:
        raise ProblemError(
            f"{what} {written(parts)}: it has {len(parts)} parts, and {layout} has {layout.rank} "
            f"modes; give at most one part for each mode"
        )


def _zipped(layout: Layout, tiler: Tiler, operation: Callable[..., Layout]) -> Layout:
    """What ``operation`` gives, its first parts gathered in mode 0 and its second in mode 1."""
    done = operation(layout, tiler)
    if not isinstance(tiler, tuple):
        return done
    pairs = [_zipped_pair(mode, part) for mode, part in zip(done, tiler, strict=False)]
    rest = list(done)[len(tiler) :]
    return make_layout(
        make_layout(*(first for first, _ in pairs)),
        make_layout(*(second for _, second in pairs), *rest),
    )


def _zipped_pair(mode: Layout, part: Tiler) -> tuple[Layout, Layout]:
    if isinstance(part, tuple):
        inner = [_zipped_pair(one, deeper) for one, deeper in zip(mode, part, strict=False)]
        rest = list(mode)[len(part) :]
        return make_layout(*(a for a, _ in inner)), make_layout(*(b for _, b in inner), *rest)
    first, second = mode
    return first, second
