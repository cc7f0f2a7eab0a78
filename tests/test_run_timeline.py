"""The timeline of an emulated run: what it says is what the trace says, and what the rules say."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from functools import cache
from itertools import pairwise

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopper import figures
from hopper.compile import compile_cuda, compile_kernel
from hopper.conformance import cases, emulate
from hopper.emulator import Emulator
from hopper.emulator.trace import Event, Trace
from hopper.errors import ProblemError
from hopper.figures import palette
from hopper.figures.run_drawing import KINDS, places
from hopper.figures.run_model import run_model
from hopper.figures.run_names import plain_name, shorten, warps_in_words
from hopper.figures.run_parts import Moment, RunModel, Span, packed
from hopper.gemm import Problem, plan
from hopper.paths import KERNELS

TINY = Problem(128, 128, 192)  # three steps along K
BREAKS = {
    "no wait_group": "    wgmma_wait_group<0>();\n",
    "no mbarrier wait": "    mbarrier_wait_parity(&loaded, phase);\n",
}


@cache
def ran(kernel: str = "v1_wgmma", leave_out: str = "", problem: Problem = TINY, **how):
    """A run of a kernel, or of one that lacks a line, and its program."""
    text = (KERNELS / f"{kernel}.cu").read_text()
    assert text.count(leave_out) == 1 or not leave_out
    source = text.replace(leave_out, "") if leave_out else KERNELS / f"{kernel}.cu"
    program = compile_cuda(source, kernel, lineinfo=True)
    a, b = problem.inputs()
    c = numpy.full((problem.m, problem.n), numpy.nan, "float16")
    sound = plan(compile_kernel(kernel), a, b, c)  # a plan refuses what is unclean
    emulator = Emulator(**({"on_hazard": "collect"} | how))
    run = emulator.launch(program.ptx, kernel, sound.grid, sound.block, args=sound.args)
    return run, program


def model(*args, blocks=(0,), steps=None, warps=None, names=None, **how) -> RunModel:
    run, program = ran(*args, **how)
    return run_model(run, program, blocks=blocks, steps=steps, warps=warps, names=names)


def drawn(*args, **how) -> figures.run_timeline:
    return figures.run_timeline(*ran(*args, **how), title="A run", alt="TMA, then the tensor core.")


def spans(lanes, *kinds) -> list[Span]:
    return sorted(
        (span for lane in lanes for span in lane.spans if not kinds or span.kind in kinds),
        key=lambda span: span.begin,
    )


def step_of(found: RunModel, moment: int) -> int:
    return found.moments[moment].step


# ---- what the trace says


@pytest.mark.parametrize("kernel", ["v1_wgmma", "v0_mma_sync"])
@pytest.mark.parametrize("how", [{}, {"schedule": "random", "tma": "random", "seed": 1}], ids=str)
def test_load_and_compute_take_turns(kernel, how):
    found = model(kernel, **how)
    copies, products = spans(found.of("tma")), spans(found.of("tensor"))
    for copy in copies:
        assert not [p for p in products if p.begin < copy.end and copy.begin < p.end]
    kinds = [span.kind for span in sorted(copies + products, key=lambda span: span.begin)]
    changes = [after for before, after in pairwise(["", *kinds]) if after != before]
    assert changes == ["copy", "product"] * 3


def test_a_copy_lasts_from_its_issue_to_its_landing():
    run, _ = ran()
    found = model()
    issued = [event.step for event in run.trace.of("tma.issue")]
    landed = [event.step for event in run.trace.of("tma.complete")]
    copies = spans(found.of("tma"))
    assert [step_of(found, copy.begin) for copy in copies] == issued
    assert sorted(step_of(found, copy.end) for copy in copies) == landed
    assert [copy.texts[0] for copy in copies] == ["→ tile_a", "→ tile_b"] * 3
    assert "box at (0, 64)" in copies[2].words
    assert all(copy.begin < copy.end for copy in copies), "also where no step was taken"


def test_an_eager_copy_is_seen_too():
    found = model(tma="eager")
    copies = spans(found.of("tma"))
    assert len(copies) == 6
    assert all(step_of(found, copy.begin) == step_of(found, copy.end) for copy in copies)
    assert all(copy.end - copy.begin == 1 for copy in copies)


def test_a_group_lasts_from_its_first_wgmma_to_the_wait_that_retires_it():
    run, _ = ran()
    found = model()
    groups = spans(found.of("tensor"))
    waits = [event.step for event in run.trace.of("wgmma.wait")]
    issues = [event.step for event in run.trace.of("wgmma.issue")]
    assert [step_of(found, group.begin) for group in groups] == issues[::8]
    assert [step_of(found, group.end) for group in groups] == waits
    assert all("8 × m64n128k16" in group.words for group in groups)


def test_mma_sync_is_one_span_for_each_run_of_instructions():
    found = model("v0_mma_sync")
    products = spans(found.of("tensor"))
    assert len(products) == 3 * 4  # steps along K, 16 deep ones in each
    assert {product.words for product in products} == {"32 instructions of mma.sync, warp by warp"}
    assert "32 times" in next(m for m in found.of("warps")[0].marks if m.letter == "m").words


def test_a_tile_is_written_full_read_and_full_again():
    (tile_a, tile_b) = model().of("memory")
    assert (tile_a.label, tile_b.label) == ("tile_a", "tile_b")
    for tile in (tile_a, tile_b):
        assert [span.kind for span in tile.spans] == ["copy", "holds", "read", "holds"] * 3
        assert all(before.end == after.begin for before, after in pairwise(tile.spans))


def test_ldmatrix_reads_tiles_and_mma_sync_does_not():
    found = model("v0_mma_sync")
    reads = spans(found.of("memory")[:1], "read")
    products = {span.begin for span in spans(found.of("tensor"))}
    assert len(reads) == 12 and {span.words for span in reads} == {"ldmatrix reads it"}
    assert not products & {span.begin for span in reads}


def test_phases_of_the_mbarrier():
    run, _ = ran()
    (loaded,) = model().of("mbarrier")
    counting = [span for span in loaded.spans if span.kind == "counts"]
    assert loaded.label == "loaded"
    assert [span.texts[0] for span in counting] == [
        f"phase {n}, parity {n % 2}" for n in range(len(run.trace.of("mbarrier.phase")))
    ]
    said = [words for _, words in loaded.states]
    assert said[:4] == [
        "phase 0 (parity 0): 1 of 1 arrivals and 0 bytes are missing",
        "phase 0 (parity 0): 0 of 1 arrivals and 32,768 bytes are missing",
        "phase 0 (parity 0): 0 of 1 arrivals and 16,384 bytes are missing",
        "phase 1 (parity 1): 1 of 1 arrivals and 0 bytes are missing",
    ]


def test_warps_wait_until_their_phase_is_complete():
    found = model()
    (warps,) = found.of("warps")
    (loaded,) = found.of("mbarrier")
    waits = [span for span in warps.spans if span.kind == "wait"]
    complete = [span.end for span in loaded.spans if span.kind == "counts"]
    assert warps.label == "warps 0–3" and len(waits) == 3
    assert [span.end for span in waits] == complete
    assert {span.texts[0] for span in waits} == {"waits: loaded"}
    assert "".join(mark.letter for mark in warps.marks) == "iaTTfwwwwwwwwcr" + "aTTfwwwwwwwwcr" * 2


def test_warps_that_go_apart_have_a_lane_each_and_roles_name_theirs():
    how = {"schedule": "random", "tma": "random", "seed": 3}
    assert [lane.label for lane in model(**how).of("warps")] == [f"warp {w}" for w in range(4)]
    roles = model(**how, warps={"asks TMA": [0], "others": [1, 2, 3]}).of("warps")
    assert [lane.label for lane in roles] == ["asks TMA", "others"]
    said = {words for moment in model(**how).moments for words in moment.words}
    assert {"Warp 1 waits for a block barrier.", "Warps 0–3 go on."} <= said
    assert "T" in {mark.letter for mark in roles[0].marks}
    assert "T" not in {mark.letter for mark in roles[1].marks}


def test_every_element_lies_within_the_moments_and_lanes_do_not_overlap_themselves():
    for args in (("v1_wgmma",), ("v0_mma_sync",), *(("v1_wgmma", b) for b in BREAKS.values())):
        found = model(*args)
        last = len(found.moments) - 1
        for lane in found.lanes:
            assert all(0 <= s.begin < s.end <= last and s.kind in KINDS for s in lane.spans)
            assert all(before.end <= after.begin for before, after in pairwise(lane.spans))
            assert all(0 <= mark.moment < last for mark in lane.marks)
        assert [m.step for m in found.moments] == sorted(m.step for m in found.moments)


# ---- where it comes from


def test_sources_are_lines_of_the_kernel_not_of_its_helpers():
    lines = (KERNELS / "v1_wgmma.cu").read_text().splitlines()
    found = model()
    sources = [s.source for lane in found.lanes for s in (*lane.spans, *lane.marks) if s.source]
    assert len(sources) > 40
    for source in sources:
        number = int(re.match(r"v1_wgmma\.cu:(\d+): ", source)[1])
        assert source.split(": ", 1)[1][:20] in lines[number - 1]
    assert "tma_load_2d(tile_a" in spans(found.of("tma"))[0].source


def test_without_line_information_the_ptx_is_named():
    program = compile_kernel("v1_wgmma")
    a, b = TINY.inputs()
    launch = plan(program, a, b, numpy.zeros((128, 128), "float16"))
    found = run_model(launch.run(), program)
    source = spans(found.of("tma"))[0].source
    assert re.match(r"PTX line \d+: cp\.async\.bulk\.tensor", source)


def test_names_given_come_first():
    found = model(names={1024: "A, stage 0", 33792: "full"})
    assert [lane.label for lane in found.of("memory")] == ["A, stage 0", "tile_b"]
    assert found.of("mbarrier")[0].label == "full"


def test_spelling():
    assert plain_name("_ZZ8v1_wgmmaE6tile_a") == "tile_a"
    assert plain_name("dynamic") == "dynamic"
    assert warps_in_words([2]) == "Warp 2" and warps_in_words([1, 2, 3]) == "Warps 1–3"
    assert warps_in_words([0, 2]) == "Warps 0, 2"
    assert shorten("abcdef", 4) == "abc…" and shorten("abcd", 4) == "abcd"


# ---- broken rules


def test_a_sound_kernel_has_no_mark():
    for kernel in ("v1_wgmma", "v0_mma_sync"):
        found = model(kernel)
        assert found.broken == () and not spans(found.lanes, "clash", "pending")
        assert "✗" not in drawn(kernel)._repr_html_().split("<script>")[0]


def test_without_wait_group_tiles_are_written_while_they_are_read():
    run, _ = ran("v1_wgmma", BREAKS["no wait_group"])
    found = model("v1_wgmma", BREAKS["no wait_group"])
    first, second = found.broken[:2]
    clashes = spans(found.of("memory"), "clash")
    assert first.kind == second.kind == "operand-overwritten"
    assert [first.moment, second.moment] == [clash.begin for clash in clashes[:2]]
    assert "tma_load_2d(tile_a" in first.source and "tma_load_2d(tile_b" in second.source
    assert "✗ Rule broken, operand-overwritten" in found.moments[first.moment].words[-1]
    groups = spans(found.of("tensor"))
    assert {group.kind for group in groups} == {"pending"} and len(groups) == 3
    assert {group.end for group in groups} == {len(found.moments) - 1}
    assert len(found.of("tensor")) == 3, "all three are under way at once"
    assert sum(one.more + 1 for one in found.broken) == len(run.hazards)
    assert Counter(one.kind for one in found.broken).keys() == {one.kind for one in run.hazards}


def test_without_the_mbarrier_wait_tiles_are_read_while_they_are_written():
    run, _ = ran("v1_wgmma", BREAKS["no mbarrier wait"])
    found = model("v1_wgmma", BREAKS["no mbarrier wait"])
    first, *_, last = found.broken
    assert first.kind == "copy-not-arrived" and "wgmma_f32_f16_f16" in first.source
    assert first.moment == spans(found.of("tensor"))[0].begin
    assert first.moment in {clash.begin for clash in spans(found.of("memory"), "clash")}
    assert not run.completed and last.moment == len(found.moments) - 1
    assert "The run stops here." in found.moments[-1].words
    assert all("never lands" in copy.words for copy in spans(found.of("tma")))
    assert not [span for lane in found.of("warps") for span in lane.spans if span.kind == "wait"]


# ---- what is shown of it


def test_a_window_of_steps():
    whole, part = model(), model(steps=(110, 200))
    assert part.moments[0].step == 115 and part.moments[-1].step == 200
    assert len(spans(part.of("tensor"))) == 1 and len(spans(part.of("tma"))) == 2
    assert part.of("memory")[0].spans[0].kind == "holds"
    assert part.of("mbarrier")[0].states[0][0] == 0
    kept = {moment.words for moment in part.moments[:-1]}
    assert kept <= {moment.words for moment in whole.moments}


def test_a_rule_broken_outside_the_window_is_not_marked_in_it():
    lacking = BREAKS["no wait_group"]
    whole = model("v1_wgmma", lacking)
    assert model("v1_wgmma", lacking, steps=(0, 100)).broken == ()
    later = model("v1_wgmma", lacking, steps=(120, 330)).broken
    assert [one.kind for one in later] == [one.kind for one in whole.broken[1:4]]
    assert "tma_load_2d(tile_b" in later[0].source


def test_blocks():
    problem = Problem(256, 128, 128)
    both = model("v1_wgmma", problem=problem, blocks=(0, 1))
    second = model("v1_wgmma", problem=problem, blocks=(1,))
    assert {lane.label.split(" ")[0] for lane in both.lanes} == {"block"}
    assert len(both.lanes) == 2 * len(second.lanes)
    for lane in second.lanes:
        twin = next(other for other in both.lanes if other.label == f"block 1 {lane.label}")
        assert [span.kind for span in twin.spans] == [span.kind for span in lane.spans]
    box = spans(second.of("tma"))[0].words
    assert "box at (128, 0)" in box
    said = " ".join(words for moment in both.moments for words in moment.words)
    assert "Block 1: Warp 0 asks TMA" in said and "Warps 0–7" not in said


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"blocks": (7,)}, "nothing in the trace"),
        ({"steps": (5, 5)}, "first step before its last"),
        ({"steps": (0, 3)}, "nothing in the trace"),
    ],
)
def test_what_cannot_be_shown_is_refused(asked, message, monkeypatch):
    with pytest.raises(ProblemError, match=message):
        model(**asked)
    monkeypatch.setattr("hopper.figures.run_model.MOMENTS", 30)
    with pytest.raises(ProblemError, match="52 moments; a timeline shows 30 at most"):
        model()
    assert model(steps=(0, 110)), "a window is the way out"
    for words in ({"title": " ", "alt": "a"}, {"title": "a", "alt": ""}):
        with pytest.raises(ProblemError, match="in words"):
            figures.run_timeline(*ran(), **words)


@pytest.mark.parametrize("name", ["tma.store.2d.swizzle128.uint16", "tma.multicast"])
def test_stores_and_multicasts_have_lanes(name):
    case = next(
        case for case in cases("tma") if case.name.startswith(name[4:]) or name in case.name
    )
    _, run = emulate(case, Emulator(on_hazard="collect"))
    found = run_model(run, case.compile())
    assert spans(found.of("tma")) and found.of("memory")
    if "store" in name:
        assert spans(found.of("tma"))[0].texts[0].startswith("←")
        assert "TMA reads it" in {span.words for span in spans(found.of("memory"))}


def test_the_model_is_plain_data():
    found = model()
    read = json.loads(json.dumps(found.as_json()))
    assert read["kernel"] == "v1_wgmma" and len(read["lanes"]) == len(found.lanes)
    assert read["lanes"][1]["spans"][0]["source"] == found.lanes[1].spans[0].source


# ---- the drawing


@pytest.fixture(
    params=[("v1_wgmma", ""), ("v1_wgmma", BREAKS["no wait_group"])], ids=["v1", "broken"]
)
def drawing(request):
    return drawn(*request.param)


def test_the_drawing_is_well_formed_and_has_all_elements(drawing):
    root = ElementTree.fromstring(drawing.svg)
    assert root.get("role") == "img" and root.get("aria-label") == drawing.alt
    items = [g for g in root.iter() if "wb-run-item" in (g.get("class") or "")]
    found = drawing.model
    marks = sum(len({mark.moment for mark in lane.marks}) for lane in found.lanes)
    assert len(items) == len(spans(found.lanes)) + marks + len(found.broken)
    assert all(item.get("aria-label") for item in items)


def test_text_has_its_size_and_everything_lies_on_the_sheet(drawing):
    figure = drawing.figure
    for element in ElementTree.fromstring(drawing.svg).iter():
        if element.tag.endswith("rect"):
            x, y = float(element.get("x", 0)), float(element.get("y", 0))
            assert 0 <= x and x + float(element.get("width")) <= figure.width + 1
            assert 0 <= y and y + float(element.get("height")) <= figure.height
    sizes = [float(size) for size in re.findall(r"font-size:([\d.]+)px", drawing.svg)]
    assert min(sizes) >= 12


def test_colours_are_those_of_the_palette(drawing):
    text = drawing.svg
    for name in palette.COLOURS:
        text = text.replace(palette.colour(name), "")
    assert not re.search(r"#[0-9a-f]{6}", text)


def test_no_two_kinds_differ_by_colour_alone_where_a_lane_has_both():
    together = [("run", "wait"), ("copy", "holds", "read", "clash"), ("idle", "counts")]
    for kinds in [*together, ("product", "pending")]:
        looks = [KINDS[kind][2:] for kind in kinds]
        assert len(set(looks)) == len(looks), kinds


def test_the_output_is_whole_and_the_same_again(drawing):
    page = drawing._repr_html_()
    assert page == drawing._repr_html_()
    assert (
        page.count("</script>") == 2
        and "src=" not in page
        and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    )
    data = json.loads(re.search(r'class="wb-run-data">(.*?)</script>', page, re.S)[1])
    assert len(data["places"]) == len(data["moments"]) == len(drawing.model.moments)
    assert all(changes[0][0] == 0 for _, changes in data["lanes"])
    for moment in drawing.model.moments:
        assert str(moment.step) in repr(drawing)


def test_the_steps_stand_in_words_without_a_script(drawing):
    page = drawing._repr_html_()
    assert page.count("<tr>") == len(drawing.model.moments) + 1
    assert "The emulator knows no time" in page
    for one in drawing.model.broken:
        assert f"<strong>{one.kind}</strong>" in page


@given(st.lists(st.integers(0, 400), min_size=1, max_size=60))
def test_moments_lie_in_order_and_no_two_are_close(gaps):
    steps = numpy.cumsum(gaps).tolist()
    x = places(tuple(Moment(step, ()) for step in steps))
    assert all(20 <= after - before <= 50 for before, after in pairwise(x))


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=30))
def test_rows_are_as_few_as_lie_side_by_side(drawn_spans):
    every = [Span(begin, begin + length, "copy", (), "") for begin, length in drawn_spans]
    rows = packed(every)
    assert sorted(map(id, every)) == sorted(id(span) for row in rows for span in row)
    assert all(before.end <= after.begin for row in rows for before, after in pairwise(row))
    most = max((sum(s.begin <= at < s.end for s in every) for at in range(40)), default=0)
    assert len(rows) == most


def test_what_goes_on_is_one_event_until_something_else_happens():
    trace = Trace()
    first = Event(3, "mma", 0, 0, 7, {"warps": [0], "times": 1, "until": 3, "reads": set()})
    assert not trace.again("mma", [0], 3, ())
    trace.add(first)
    assert trace.again("mma", [0], 9, (128,)) and not trace.again("mma", [1], 10, ())
    assert first.detail == {"warps": [0], "times": 2, "until": 9, "reads": {128}}
    trace.add(Event(11, "wgmma.fence", 0, 0, 8, {}))
    assert not trace.again("mma", [0], 12, ())
    assert len(trace) == 2
