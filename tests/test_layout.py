"""hopper.layout: against brute-force definitions, CuTe's documentation, and the book's own maps."""

import itertools

import numpy
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from hopper import fragment
from hopper.descriptor import element_offset
from hopper.errors import ProblemError
from hopper.layout import (
    Layout,
    Swizzle,
    SwizzledLayout,
    blocked_product,
    coalesce,
    column_major,
    complement,
    composition,
    crd2idx,
    flat_divide,
    idx2crd,
    left_inverse,
    logical_divide,
    logical_product,
    make_layout,
    matrices,
    parse,
    raked_product,
    right_inverse,
    row_major,
    tiled_divide,
    zipped_divide,
    zipped_product,
)
from hopper.layout.core import flatten
from hopper.swizzle import SPANS, swizzled

# ---- the definitions, spelled out ---------------------------------------------------------------


def natural_coordinates(shape):
    """Every coordinate nested like ``shape``, in colexicographic order."""
    if isinstance(shape, int):
        return list(range(shape))
    parts = [natural_coordinates(part) for part in shape]
    return [tuple(reversed(one)) for one in itertools.product(*reversed(parts))]


def inner_product(coordinate, stride):
    if isinstance(coordinate, int):
        return coordinate * stride
    return sum(map(inner_product, coordinate, stride))


def values(layout):
    """The function of an integer, from nothing but the definition."""
    return [inner_product(c, layout.stride) for c in natural_coordinates(layout.shape)]


def shapes(most=4, leaves=4):
    def nested(inner):
        return st.lists(inner, min_size=1, max_size=3).map(tuple)

    return st.recursive(st.integers(1, most), nested, max_leaves=leaves)


@st.composite
def layouts(draw, most=4, leaves=4, strides=range(25)):
    shape = draw(shapes(most, leaves))
    stride = st.sampled_from(strides)

    def stride_of(part):
        return tuple(map(stride_of, part)) if isinstance(part, tuple) else draw(stride)

    return Layout(shape, stride_of(shape))


@st.composite
def compact(draw, most=4, leaves=4, gap=2):
    """An injective layout: each mode, in some order, begins where those before it end."""
    shape = draw(shapes(most, leaves))
    leaf = flatten(shape)
    strides, step = [0] * len(leaf), 1
    for place in draw(st.permutations(range(len(leaf)))):
        step *= draw(st.integers(1, gap))
        strides[place] = step
        step *= leaf[place]
    numbers = iter(strides)

    def refolded(part):
        return tuple(map(refolded, part)) if isinstance(part, tuple) else next(numbers)

    return Layout(shape, refolded(shape))


# ---- what a layout is ---------------------------------------------------------------------------


@given(layouts())
def test_every_form_of_a_coordinate_gives_the_same_offset(layout):
    expected = values(layout)
    assert layout.offsets.tolist() == expected
    for index, natural in enumerate(natural_coordinates(layout.shape)):
        assert layout(index) == layout(natural) == expected[index]
        assert idx2crd(index, layout.shape) == idx2crd(natural, layout.shape) == natural
        assert crd2idx(natural, layout.shape) == index
    if layout.rank > 1:
        sizes = [mode.size for mode in layout]
        for index, flat in enumerate(itertools.product(*map(range, reversed(sizes)))):
            assert layout(*reversed(flat)) == layout(tuple(reversed(flat))) == expected[index]


@given(layouts())
def test_size_cosize_rank_depth_and_modes(layout):
    assert layout.size == len(values(layout)) and layout.cosize == max(values(layout)) + 1
    assert make_layout(*layout).size == layout.size
    assert len(list(layout)) == layout.rank
    assert layout.flat.depth == 1 and layout.flat.offsets.tolist() == values(layout)
    assert layout.injective == (len(set(values(layout))) == layout.size)
    if layout.rank == 2:
        rows, columns = (mode.size for mode in layout)
        expected = [[layout(i, j) for j in range(columns)] for i in range(rows)]
        assert layout.table.tolist() == expected


@given(shapes())
def test_column_major_counts_and_row_major_counts_from_the_other_side(shape):
    layout = column_major(shape)
    assert layout.offsets.tolist() == list(range(layout.size))
    reversed_leaves = tuple(reversed(flatten(shape)))
    strides = tuple(reversed(Layout(reversed_leaves).stride))
    assert flatten(row_major(shape).stride) == strides


def test_arrays_of_coordinates_give_arrays_of_offsets():
    layout = parse("(4,(2,8)):(1,(64,8))")
    i, j = numpy.meshgrid(numpy.arange(4), numpy.arange(16), indexing="ij")
    assert (layout(i, j) == i + 64 * (j % 2) + 8 * (j // 2)).all()
    assert (layout(i, (j % 2, j // 2)) == layout(i, j)).all()
    row, (a, b) = idx2crd(numpy.arange(64), layout.shape)
    assert (layout(row, (a, b)) == layout(numpy.arange(64))).all()
    assert layout(3, numpy.arange(2)).tolist() == [3, 67]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Layout((4, 2), (1, (4, 2))), "nested differently"),
        (lambda: Layout((4, 0)), "shape 0: .*at least 1"),
        (lambda: Layout(4, -1), "stride -1: .*at least 0"),
        (lambda: Layout(4.5), "shape 4.5: .*whole numbers"),
        (lambda: Layout((4, 8))(4, 0), "coordinate 4: shape 4 has 4 .*from 0 to 3"),
        (lambda: Layout((4, 8))(32), "coordinate 32: shape .4,8. has 32"),
        (lambda: Layout((4, 8))(-1), "coordinate -1"),
        (lambda: Layout((4, 8))(numpy.arange(33)), "coordinate 32"),
        (lambda: Layout((4, 8))(1, 2, 3), r"coordinate \(1,2,3\): shape \(4,8\)"),
        (lambda: Layout(8)((1, 2)), r"coordinate \(1,2\): shape 8"),
        (lambda: Layout((4, 8))[2], "mode 2: .* has 2"),
        (lambda: Layout((4, 8, 2)).table, "rank 3"),
        (lambda: idx2crd(32, (4, 8)), "coordinate 32"),
        (lambda: coalesce(Layout((4, 8)), (1, 1, 1)), "3 parts, and .* has 2 modes"),
        (lambda: composition(Layout(8), (4, 2)), "2 parts, and 8:1 has 1"),
    ],
)
def test_what_is_no_layout_or_no_coordinate_is_refused(make, told):
    with pytest.raises(ProblemError, match=told):
        make()


# ---- printed and read ---------------------------------------------------------------------------


@given(layouts())
def test_what_is_printed_can_be_read(layout):
    assert parse(str(layout)) == layout
    assert parse(f"  {str(layout).replace(',', ' , ').replace('(', '( ')} ") == layout


def test_cutes_marks_are_read():
    assert parse("(_4,(_2,8)):(_1,(64,_8))") == parse("(4,(2,8)):(1,(64,8))")
    swizzle, plain = Swizzle(3, 3, 3), parse("(8,64):(64,1)")
    assert parse("Sw<3,3,3> o (8,64):(64,1)") == SwizzledLayout(swizzle, plain)
    printed = "Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)"
    assert parse(printed) == SwizzledLayout(swizzle, plain)
    assert str(parse(printed)) == "Sw<3,3,3> o (8,64):(64,1)"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the end where a shape"),
        ("(4,2)", "the end where ':' between shape and stride"),
        ("(4,2:(1,4)", "':' at place 4 where '\\)' or a comma, inside a shape"),
        ("(4,):(1,1)", "'\\)' at place 3 where a shape"),
        ("(4 2):(1,4)", "'2' at place 3"),
        ("(4,x):(1,4)", "character 'x' at place 3"),
        ("(4,2):(1,4)7", "'7' at place 11 where the end"),
        ("4:-1", "character '-' at place 2"),
        ("(4,2):(1,(4,2))", "nested differently"),
        ("Sw<3,4,3> (8,64):(64,1)", "character 'S' at place 0"),
        ("Sw<3,4,2> o (8,64):(64,1)", "S is at least B"),
        ("Sw<3,4,3> o smem_ptr[4b](unset) o 8:1", "elements of 4 bits"),
        ("Sw<3,4,3> o (8,64):(64", "the end where '\\)' or a comma, inside a stride"),
    ],
)
def test_what_cannot_be_read_is_named(text, told):
    with pytest.raises(ProblemError, match=told):
        parse(text)


# ---- CuTe's worked examples ---------------------------------------------------------------------


def test_the_layouts_of_cutes_first_page():
    # CUTLASS, "CuTe Layouts", Constructing a Layout, Matrix examples, Coordinate and Index Mapping.
    hierarchical = parse("(2,(2,2)):(4,(2,1))")
    assert hierarchical.table.tolist() == [[0, 2, 1, 3], [4, 6, 5, 7]]
    assert hierarchical.offsets.tolist() == [0, 4, 2, 6, 1, 5, 3, 7]
    assert str(column_major((2, (2, 2)))) == "(2,(2,2)):(1,(2,4))"
    assert row_major((2, (2, 2))) == hierarchical
    assert parse("((2,2),2):((4,1),2)").table.tolist() == [[0, 2], [4, 6], [1, 3], [5, 7]]
    assert parse("((4,2)):((2,1))").offsets.tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert idx2crd(16, (3, (2, 3))) == idx2crd((1, 5), (3, (2, 3))) == (1, (1, 2))
    layout = parse("(3,(2,3)):(3,(12,1))")
    assert layout(16) == layout(1, 5) == layout(1, (1, 2)) == 17
    assert layout.table[2].tolist() == [6, 18, 7, 19, 8, 20]


@pytest.mark.parametrize(
    ("a", "b", "printed"),
    [
        ("(6,2):(8,2)", "(4,3):(3,1)", "((2,2),3):((24,2),8)"),
        ("20:2", "(5,4):(4,1)", "(5,4):(8,2)"),
        ("(10,2):(16,4)", "(5,4):(1,5)", "(5,(2,2)):(16,(80,4))"),
    ],
)
def test_cutes_compositions(a, b, printed):
    assert str(composition(parse(a), parse(b))) == printed


def test_cutes_strided_and_cut_shapes():
    # "Computing Composition": (3,6,2,8):(w,x,y,z) o 16:9 = (1,2,2,4):(9w,3x,y,z), its 1 left out.
    a = Layout((3, 6, 2, 8), (1000, 100, 10, 1))
    assert str(composition(a, parse("16:9"))) == "(2,2,4):(300,10,1)"
    assert str(composition(a, parse("4:72"))) == "4:2"


def test_cutes_compositions_by_mode():
    a = parse("(12,(4,8)):(59,(13,1))")
    assert str(composition(a, (parse("3:4"), parse("8:2")))) == "(3,(2,4)):(236,(26,1))"
    assert str(composition(a, (3, 8))) == "(3,(4,2)):(59,(13,1))"


def test_cutes_coalescings():
    a = parse("(2,(1,6)):(1,(6,2))")
    assert str(coalesce(a)) == "12:1"
    assert str(coalesce(a, (1, 1))) == "(2,6):(1,2)"


@pytest.mark.parametrize(
    ("layout", "printed"),
    [
        ("4:1", "6:4"),
        ("6:4", "4:1"),
        ("(4,6):(1,4)", "1:0"),
        ("4:2", "(2,3):(1,8)"),
        ("(2,4):(1,6)", "3:2"),
        ("(2,2):(1,6)", "(3,2):(2,12)"),
    ],
)
def test_cutes_complements(layout, printed):
    whole = complement(parse(layout), 24)
    assert (str(whole) if whole.size > 1 else "1:0") == printed


def test_cutes_divisions():
    one = logical_divide(parse("(4,2,3):(2,1,8)"), parse("4:2"))
    assert str(one) == "((2,2),(2,3)):((4,1),(2,8))"
    a, tiler = parse("(9,(4,8)):(59,(13,1))"), (parse("3:3"), parse("(2,4):(1,8)"))
    assert logical_divide(a, tiler)[0].size == 9 and logical_divide(a, tiler)[1].size == 32
    zipped = zipped_divide(a, tiler)
    assert str(zipped[0]) == "(3,(2,4)):(177,(13,2))"
    assert [mode.size for mode in zipped] == [24, 12]
    assert [mode.size for mode in zipped[1]] == [3, 4]
    assert zipped(0, (1, 2)) == zipped(0, 7)
    assert tiled_divide(a, tiler).rank == 3 and flat_divide(a, tiler).rank == 4


def test_cutes_products():
    a = parse("(2,2):(4,1)")
    assert str(logical_product(a, parse("6:1"))) == "((2,2),(2,3)):((4,1),(2,8))"
    again = logical_product(a, parse("(4,2):(2,1)"))
    assert again[0] == a and [mode.size for mode in again[1]] == [4, 2]
    block, order = parse("(2,5):(5,1)"), parse("(3,4):(1,3)")
    assert str(blocked_product(block, order)) == "(6,(5,4)):(5,(1,30))"
    assert str(raked_product(block, order)) == "((3,2),(4,5)):((10,5),(30,1))"


# ---- the algebra, against its definitions -------------------------------------------------------


@given(layouts())
def test_coalesce_changes_the_modes_and_not_the_function(layout):
    small = coalesce(layout)
    assert small.offsets.tolist() == values(layout)
    assert small.depth <= 1 and small.rank <= layout.flat.rank
    for (s, d), (_, after) in itertools.pairwise(small.leaves):
        assert after != s * d
    by_mode = coalesce(layout, (1,) * layout.rank)
    assert by_mode.rank == layout.rank and by_mode.offsets.tolist() == values(layout)
    assert [mode.size for mode in by_mode] == [mode.size for mode in layout]


@given(compact(6, 3), st.data())
def test_a_composition_is_one_function_after_the_other_or_it_is_refused(a, data):
    strides = sorted({1, 2, 3, *numpy.cumprod(flatten(a.shape)).tolist()})
    b = data.draw(layouts(4, 3, [0, *strides]))
    try:
        both = composition(a, b)
    except ProblemError as error:
        event("refused")
        reaches = max(values(b)) >= a.size
        assert reaches or any(word in str(error) for word in ("divisibility", "carry"))
        return
    event("composed")
    assert both.offsets.tolist() == [values(a)[i] for i in values(b)]
    assert [both(c) for c in natural_coordinates(b.shape)] == both.offsets.tolist()


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        ("(4,3):(1,10)", "4:3", "4 and 3 do not divide one another .stride divisibility"),
        ("(4,3):(1,10)", "6:1", "6 is no multiple of the 4 that it gives .shape divisibility"),
        ("(4,3):(1,10)", "(4,4):(1,4)", "reaches 15, the left one has 12 elements"),
        ("(6,2):(1,100)", "(3,2):(2,3)", "carry into each other inside the mode 6:1"),
        ("(4,2):(1,10)", "(2,2):(2,2)", "carry into each other inside the mode 4:1"),
        ("20:2", "21:1", "reaches 20, the left one has 20"),
    ],
)
def test_a_broken_condition_of_composition_is_named(a, b, told):
    with pytest.raises(ProblemError, match=told):
        composition(parse(a), parse(b))


def test_a_stride_that_stays_inside_a_mode_needs_to_divide_nothing():
    a = parse("(4,3):(1,10)")
    assert composition(a, parse("2:3")).offsets.tolist() == [0, 3]
    assert composition(a, parse("(2,3):(3,4)")).offsets.tolist() == [0, 3, 10, 13, 20, 23]


@given(compact(), st.integers(1, 200))
def test_a_complement_fills_what_is_left_in_order(layout, target):
    rest = complement(layout, target)
    whole = make_layout(layout, rest).offsets.tolist()
    assert len(set(whole)) == len(whole)
    assert set(range(target)) <= set(whole)
    assert (numpy.diff(rest.offsets) > 0).all()


@pytest.mark.parametrize("text", ["(4,2):(1,2)", "(2,2):(1,1)", "(2,3):(2,3)"])
def test_gaps_without_a_regular_filling_are_refused(text):
    with pytest.raises(ProblemError, match="no multiple of"):
        complement(parse(text), 24)


@given(layouts())
def test_a_right_inverse_leads_back_to_the_offset(layout):
    inverse = right_inverse(layout)
    reached = set(values(layout))
    assert [layout(int(i)) for i in inverse.offsets] == list(range(inverse.size))
    assert inverse.size <= next(i for i in itertools.count() if i not in reached)


@given(compact(gap=1))
def test_the_right_inverse_of_a_layout_without_gaps_is_the_whole_inverse(layout):
    assert right_inverse(layout).size == layout.size


@given(compact())
def test_a_left_inverse_leads_back_to_the_coordinate(layout):
    inverse = left_inverse(layout)
    assert [inverse(offset) for offset in values(layout)] == list(range(layout.size))
    unreached = set(range(min(inverse.size, layout.cosize))) - set(values(layout))
    assert all(inverse(offset) >= layout.size for offset in unreached)


def test_what_two_coordinates_share_has_no_left_inverse():
    with pytest.raises(ProblemError, match="a stride of 0"):
        left_inverse(parse("(4,2):(1,0)"))


@given(compact(4, 3), compact(3, 2))
def test_a_division_splits_into_a_tile_and_its_repetitions(layout, tile):
    assume(tile.cosize <= layout.size)
    try:
        divided = logical_divide(layout, tile)
    except ProblemError:
        event("refused")
        return
    event("divided")
    assert divided.rank == 2 and sorted(divided.offsets.tolist()) == sorted(values(layout))
    assert divided[0].offsets.tolist() == [values(layout)[i] for i in values(tile)]
    flavours = (zipped_divide, tiled_divide, flat_divide)
    assert all(one(layout, tile).offsets.tolist() == divided.offsets.tolist() for one in flavours)


def test_divisions_by_mode_only_reorder_the_modes():
    a, tiler = parse("(8,(4,6),5):(1,(8,32),192)"), (parse("4:2"), parse("(2,3):(1,8)"))
    divided = logical_divide(a, tiler)
    assert [mode.size for mode in divided] == [8, 24, 5]
    (tile_m, rest_m), (tile_n, rest_n), left = divided
    zipped = zipped_divide(a, tiler)
    assert zipped == make_layout(make_layout(tile_m, tile_n), make_layout(rest_m, rest_n, left))
    assert zipped[0] == composition(make_layout(a[0], a[1]), tiler)
    parts = (tile_m, tile_n, rest_m, rest_n, left)
    assert flat_divide(a, tiler) == make_layout(*parts)
    assert tiled_divide(a, tiler) == make_layout(make_layout(*parts[:2]), *parts[2:])


def test_tiles_that_do_not_fill_a_layout_are_refused():
    with pytest.raises(ProblemError, match="10:1 cut into tiles 4:1: tiles of 4 do not fill"):
        logical_divide(parse("10:1"), parse("4:1"))


@given(compact(4, 2), compact(4, 2))
def test_a_product_repeats_the_layout_in_the_order_of_the_other(layout, order):
    try:
        both = logical_product(layout, order)
    except ProblemError:  # as three repetitions of 2:2, which start at 0, 1 and 4
        event("refused")
        return
    event("multiplied")
    assert both[0] == layout and both[1].size == order.size
    assert len(set(values(both))) == layout.size * order.size
    repeated = complement(layout, layout.size * order.cosize)
    assert both[1].offsets.tolist() == [repeated(i) for i in values(order)]


@given(st.data())
def test_blocked_and_raked_products_put_the_block_in_a_grid(data):
    sides = st.tuples(st.integers(1, 4), st.integers(1, 4))
    orders = st.sampled_from([column_major, row_major])
    block = data.draw(orders)(data.draw(sides))
    grid = data.draw(orders)(data.draw(sides))
    product = logical_product(block, grid)
    blocked, raked = blocked_product(block, grid), raked_product(block, grid)
    (rows, columns), (down, right) = block.shape, grid.shape
    for i, j, k, m in itertools.product(*map(range, (rows, columns, down, right))):
        expected = product((i, j), (k, m))
        assert blocked(i + rows * k, j + columns * m) == expected
        assert raked(k + down * i, m + right * j) == expected
    assert zipped_product(block, grid) == product


def test_products_pad_the_one_with_fewer_modes_and_go_by_mode():
    assert str(blocked_product(parse("4:1"), parse("(2,3):(3,1)"))) == "((4,2),3):((1,12),4)"
    by_mode = logical_product(parse("(2,5):(5,1)"), (parse("3:1"), parse("4:1")))
    assert [mode.size for mode in by_mode] == [6, 20]
    zipped = zipped_product(parse("(2,5):(5,1)"), (parse("3:1"), parse("4:1")))
    assert str(zipped[0]) == "(2,5):(5,1)" and [mode.size for mode in zipped[1]] == [3, 4]


# ---- swizzles -----------------------------------------------------------------------------------


@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("item_bytes", [1, 2, 4, 8, 16])
def test_a_swizzle_of_bytes_is_the_hardwares_in_any_unit(span, item_bytes):
    address = numpy.arange(0, 4096, item_bytes)
    swizzle = Swizzle.of_span(span).in_items(item_bytes)
    assert (swizzle(address // item_bytes) * item_bytes == swizzled(address, span)).all()
    assert (swizzle(swizzle(address)) == address).all()


def test_the_spans_have_cutes_names():
    assert [str(Swizzle.of_span(span)) for span in (128, 64, 32, 0)] == [
        "Sw<3,4,3>", "Sw<2,4,3>", "Sw<1,4,3>", "Sw<0,4,3>"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Swizzle(3, 4, 2), "Sw<3,4,2>: .*S is at least B"),
        (lambda: Swizzle(-1, 4, 3), "not negative"),
        (lambda: Swizzle.of_span(16), "swizzle=16"),
        (lambda: Swizzle.of_span(128).in_items(3), "item_bytes=3: .*pieces of 16 bytes"),
        (lambda: Swizzle.of_span(128).in_items(32), "item_bytes=32"),
        (lambda: matrices.swizzled_tile(8, 0), "core_matrices"),
    ],
)
def test_what_is_no_swizzle_is_refused(make, told):
    with pytest.raises(ProblemError, match=told):
        make()


# ---- the book's matrices ------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_the_accumulator_is_one_layout(n):
    thread, register = numpy.meshgrid(numpy.arange(128), numpy.arange(n // 2), indexing="ij")
    row, column = fragment.held_by(thread, register)
    held = matrices.accumulator(n)
    assert str(held) == f"((4,8,4),(2,2,{n // 8})):((128,1,16),(64,8,512))"
    assert (held(thread, register) == row + 64 * column).all()
    assert (matrices.accumulator(n, "row")(thread, register) == row * n + column).all()
    assert held.injective and right_inverse(held).size == held.size == held.cosize
    holder = idx2crd(left_inverse(held)(row + 64 * column), (128, n // 2))
    assert (holder[0] == thread).all() and (holder[1] == register).all()


@pytest.mark.parametrize("item_bytes", [1, 2, 4])
def test_the_fragment_of_a_is_one_layout(item_bytes):
    items, depth = 4 // item_bytes, 32 // item_bytes
    thread, element = numpy.meshgrid(numpy.arange(128), numpy.arange(4 * items), indexing="ij")
    row, k = fragment.a_held_by(thread, element // items, element % items, item_bytes=item_bytes)
    for order, place in (("column", row + 64 * k), ("row", row * depth + k)):
        assert (matrices.a_fragment(order, item_bytes=item_bytes)(thread, element) == place).all()
    if item_bytes == 2:
        printed = "((4,8,4),(2,2,2)):((128,1,16),(64,8,512))"
        assert str(matrices.a_fragment(item_bytes=2)) == printed


@pytest.mark.parametrize(
    ("major", "swizzle", "item_bytes", "rows", "depth"),
    [
        *(("K", span, 2, 256, 64 * span // 128) for span in (128, 64, 32)),
        ("K", 128, 1, 64, 128),
        ("K", 128, 4, 64, 32),
        ("K", 128, 2, 64, 16),
        ("K", 0, 2, 256, 64),
        ("K", 0, 1, 64, 32),
        *(("MN", span, 2, 256, 64) for span in (128, 64, 32, 0)),
    ],
)
def test_an_operand_is_a_layout_before_the_xor(major, swizzle, item_bytes, rows, depth):
    r, k = numpy.meshgrid(numpy.arange(rows), numpy.arange(depth), indexing="ij")
    for leading, stride in ((128, 16384), (8192, 1024), (1040, 2064)):
        how = dict(major=major, swizzle=swizzle, leading=leading, stride=stride)
        layout = matrices.operand(rows, depth, **how, item_bytes=item_bytes)
        expected = element_offset(r, k, **how, item_bytes=item_bytes)
        assert (layout(r, k) * item_bytes == expected).all()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (dict(rows=60, depth=16, major="K", swizzle=128), "rows=60: .*multiple of 8"),
        (dict(rows=64, depth=12, major="K", swizzle=0), "depth=12: .*multiple of 8"),
        (dict(rows=64, depth=128, major="K", swizzle=128), "depth=128: a row of a 128-byte"),
        (dict(rows=32, depth=16, major="MN", swizzle=128), "rows=32: .*multiple of 64"),
        (dict(rows=64, depth=16, major="N", swizzle=128), "major='N'"),
        (dict(rows=64, depth=16, major="MN", swizzle=128, item_bytes=1), "item_bytes=1"),
        (dict(rows=64, depth=16, major="K", swizzle=48), "swizzle=48"),
    ],
)
def test_an_operand_that_wgmma_cannot_read_is_refused(arguments, told):
    with pytest.raises(ProblemError, match=told):
        matrices.operand(**arguments, stride=1024)


@pytest.mark.parametrize("n", [4, 12, 264])
def test_an_accumulator_that_wgmma_has_not_is_refused(n):
    with pytest.raises(ProblemError, match=f"n={n}"):
        matrices.accumulator(n)


@pytest.mark.parametrize(("rows", "depth"), [(64, 16), (16, 16), (64, 64), (256, 64)])
def test_core_matrices_lie_as_the_kernels_store_them(rows, depth):
    row, k = numpy.meshgrid(numpy.arange(rows), numpy.arange(depth), indexing="ij")
    core = row // 8 * (depth // 8) + k // 8  # core_matrix_index of core_matrix.cuh
    expected = core * 64 + row % 8 * 8 + k % 8
    assert (matrices.core_matrices(rows, depth)(row, k) == expected).all()


@pytest.mark.parametrize("span", [128, 64, 32])
@pytest.mark.parametrize("item_bytes", [1, 2, 4])
def test_a_swizzled_tile_is_the_canonical_operand_and_then_the_xor(span, item_bytes):
    depth = span // item_bytes
    row, k = numpy.meshgrid(numpy.arange(64), numpy.arange(depth), indexing="ij")
    tile = matrices.swizzled_tile(64, span, item_bytes=item_bytes)
    plain = matrices.operand(
        64, depth, major="K", swizzle=span, stride=8 * span, item_bytes=item_bytes
    )
    assert (tile.layout(row, k) == plain(row, k)).all()
    moved = swizzled(plain(row, k) * item_bytes, span)
    assert (tile(row, k) * item_bytes == moved).all()
    assert (tile.table == tile(row, k)).all()
    assert (tile.offsets == tile(numpy.arange(64 * depth))).all()
