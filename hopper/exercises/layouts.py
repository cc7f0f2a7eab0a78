"""Exercises of the chapter ``layouts``: read one aloud, write one, compose two, design a copy."""

import numpy

from hopper.backends import backend
from hopper.errors import CompileError, ProblemError
from hopper.layout import Layout, SwizzledLayout, composition, matrices, parse
from hopper.layout.copying import TILE, Copy, copy

#: What is read aloud: wgmma's accumulator for N = 64, counted down the columns.
READ = matrices.accumulator(64)
_COLUMN = matrices.ROWS  # from a column to the next, in that count
_READING = {
    "lanes_in_a_row": "how many lanes share a row of eight columns",
    "columns_to_the_next_lane": "columns from a lane to the next",
    "rows_a_warp_steps": "rows from a warp to the next",
    "neighbours": "columns side by side that a thread holds",
    "rows_to_the_other_half": "rows from a thread's first pair to its second",
    "columns_to_the_next_four": "columns from a thread's first four values to the next four",
}
#: Where READ says each: (mode, part of it).
_PARTS = dict(zip(_READING, ((0, 0), (0, 0), (0, 2), (1, 0), (1, 1), (1, 2)), strict=True))
_ORDINALS = ("first", "second", "third")


def read_aloud(
    lanes_in_a_row: int | None = None,
    columns_to_the_next_lane: int | None = None,
    rows_a_warp_steps: int | None = None,
    neighbours: int | None = None,
    rows_to_the_other_half: int | None = None,
    columns_to_the_next_four: int | None = None,
) -> None:
    """Check six numbers of READ, each said in rows and columns of the 64 × 64 matrix."""
    (threads, _), (values, steps) = _modes(READ)
    thread_steps = READ[0].stride
    right = {
        "lanes_in_a_row": threads[0],
        "columns_to_the_next_lane": thread_steps[0] // _COLUMN,
        "rows_a_warp_steps": thread_steps[2],
        "neighbours": values[0],
        "rows_to_the_other_half": steps[1],
        "columns_to_the_next_four": steps[2] // _COLUMN,
    }
    given = dict(
        zip(
            right,
            (
                lanes_in_a_row,
                columns_to_the_next_lane,
                rows_a_warp_steps,
                neighbours,
                rows_to_the_other_half,
                columns_to_the_next_four,
            ),
            strict=True,
        )
    )
    for name, answer in given.items():
        if answer is None:
            print(f"{name}: not answered yet ({_READING[name]})")
        elif answer == right[name]:
            print(f"{name}: {answer} is right")
        elif answer == right[name] * _COLUMN:
            print(f"{name}: not yet: {answer} is the stride; a column is {_COLUMN} of it")
        else:
            mode, part = _PARTS[name]
            looked = READ[mode][part]
            print(
                f"{name}: not yet, {_READING[name]}: look at the {_ORDINALS[part]} part of mode "
                f"{mode}, {looked}"
            )


def _modes(layout: Layout) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(mode.shape, mode.stride) for mode in layout]  # type: ignore[misc]


#: What is written down: the tile of one_wgmma's exercise, 64 rows, 64 fp16 deep.
WRITTEN = matrices.core_matrices(64, 64)
_WRITTEN_SLIPS = {
    "((8,8),(8,8)):((8,64),(1,512))": "you stacked core matrices along the rows; here they lie "
    "side by side along K",
    "(64,64):(64,1)": "that is row-major, without core matrices",
    "(64,64):(1,64)": "that is column-major, without core matrices",
}


def core_matrix_layout(text: str | None) -> None:
    """Check a layout (row, k) -> element of a 64 × 64 tile in core matrices, as text."""
    layout = _read(text)
    if layout is None:
        return
    if [mode.size for mode in layout] != [64, 64]:
        sizes = " × ".join(str(mode.size) for mode in layout)
        print(f"not yet: {layout} has {sizes} coordinates; two modes of 64 each are wanted")
        return
    if not _same(layout, WRITTEN, "row {}, k {}", _WRITTEN_SLIPS):
        return
    print(f"right: {layout} is where one_wgmma stores all {layout.size} elements")


#: What is composed by hand.
LEFT, RIGHT = parse("(8,4):(4,1)"), parse("(4,4):(4,1)")
_COMPOSED_SLIPS = {
    "(4,4):(16,4)": "after two steps the first mode of A is used up; the next goes into 4:1",
}


def compose_by_hand(text: str | None) -> None:
    """Check the composition LEFT ∘ RIGHT, as text: any layout that is the same function."""
    layout = _read(text)
    if layout is None:
        return
    both = composition(LEFT, RIGHT)
    sizes = [[mode.size for mode in one] for one in (layout, both)]
    if sizes[0] != sizes[1]:
        print(f"not yet: its modes have sizes {sizes[0]}; those of {RIGHT} are {sizes[1]}")
        return
    if not _same(layout, both, "coordinate ({},{})", _COMPOSED_SLIPS):
        return
    how = "" if layout == both else f" (composition writes {both})"
    print(f"right: {layout} takes each coordinate where {LEFT} ∘ {RIGHT} does{how}")


#: Of the copy to design.
DESIGN_THREADS, DESIGN_VECTOR = 128, 2
_DESIGN_COLUMNS = 4 * TILE


def copy_layout(text: str | None) -> None:
    """Check a thread-value layout for ``layout_copy``: 128 threads, two values an instruction.

    It must give each element of the 64 × 64 tile to one thread and value, and no sector may be
    touched by two instructions. One that passes copies a matrix, on a GPU or in the emulator.
    """
    layout = _read(text)
    if layout is None:
        return
    try:
        way = Copy(layout, DESIGN_VECTOR)
    except ProblemError as error:
        print(f"not yet: {error}")
        return
    if layout[0].size != DESIGN_THREADS:
        print(f"not yet: {layout[0].size} threads; {DESIGN_THREADS} are wanted")
        return
    if layout.cosize > TILE * TILE:
        print(f"not yet: it reaches place {layout.cosize - 1}, the tile ends at {TILE * TILE - 1}")
        return
    owners = numpy.bincount(layout.offsets, minlength=TILE * TILE)
    for place in numpy.flatnonzero(owners != 1)[:1]:
        column, row = divmod(int(place), TILE)
        pairs = f"{owners[place]} pairs of thread and value"
        print(f"not yet: row {row}, column {column} belongs to {pairs}")
        return
    try:
        waste = way.waste(_DESIGN_COLUMNS)
        program = way.compile()
    except (ProblemError, CompileError) as error:
        print(f"not yet: {error}")
        return
    if waste > 1:
        print(f"not yet: its instructions ask for {waste:g} times the sectors that the tile has")
        return
    here = backend()
    matrix = numpy.arange(2 * TILE * _DESIGN_COLUMNS, dtype="int32").reshape(2 * TILE, -1)
    out = here.array(numpy.full_like(matrix, -1))
    copy(here, program, here.array(matrix), out)
    wrong = int((here.numpy(out) != matrix).sum())
    sectors = int(way.sectors(_DESIGN_COLUMNS).max())
    print(f"right: {sectors} sectors an instruction, none of them twice")
    print(f"run on {here.gpu}: {wrong} of {matrix.size} elements differ from the input")


# ---- what they share ----------------------------------------------------------------------------


def _read(text: str | None) -> Layout | None:
    """The layout of an answer; None, with a line printed, where there is none to look at."""
    if text is None:
        print("not answered yet: write a layout as text, '(4,(2,8)):(1,(64,8))'")
        return None
    try:
        found = parse(text)
    except ProblemError as error:
        print(f"not yet: {error}")
        return None
    if isinstance(found, SwizzledLayout) or found.rank != 2:
        print(f"not yet: {found} should be a plain layout of two modes")
        return None
    return found


def _same(layout: Layout, right: Layout, named: str, slips: dict[str, str]) -> bool:
    """Whether two layouts of two modes are one function; the first difference is printed.

    ``slips``: what to say of answers that are the same function as one of these.
    """
    rows = layout[0].size
    different = numpy.flatnonzero(layout.offsets != right.offsets)
    if len(different):
        at = int(different[0])
        place = named.format(at % rows, at // rows)
        print(f"not yet: {place} goes to {layout(at)}; it belongs at {right(at)}")
    for slip, said in slips.items():
        if numpy.array_equal(layout.offsets, parse(slip).offsets):
            print(said)
    return not len(different)
