"""Quotations: the right lines with the file's numbers, legible everywhere, errors that help."""

import re
from types import SimpleNamespace

import pytest

import hopper
from hopper import show
from hopper.emulator.hazard_kernels import HAZARD_KERNELS
from hopper.errors import HopperError
from hopper.mutants import mutations
from hopper.records import NoRecording

FILE = """\
// v0 · a header
// that differs
#include "a.cuh"

// [load]
    if (leader) {
      load();
#pragma unroll

      // [inner]
      arrive();
      // [/inner]
    }
// [/load]
int x = a < b && c;
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A folder of two kernels in the place of kernels/."""
    monkeypatch.setattr(show, "KERNELS", tmp_path)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "a.cuh").write_text("// [one]\nint one;\n// [/one]\n")
    (tmp_path / "v0.cu").write_text(FILE)
    (tmp_path / "v1.cu").write_text(
        FILE.replace("a header", "another header").replace("load();", "load_async();") + "int y;\n"
    )
    return tmp_path


@pytest.fixture(scope="module")
def program():
    return hopper.compile_kernel("v1_wgmma")


def test_region_is_dedented_and_keeps_the_files_line_numbers(kernels):
    code = show.region("v0", "load")
    assert str(code) == "if (leader) {\n  load();\n#pragma unroll\n\n  arrive();\n}"
    assert [line.number for line in code.lines] == [6, 7, 8, 9, 11, 13]
    assert str(show.region("v0.cu", "inner")) == "arrive();"
    assert str(show.region("include/a.cuh", "one")) == "int one;"


def test_whole_leaves_markers_out_and_folds(kernels):
    code = show.whole("v0")
    assert "// [" not in str(code) and str(code).startswith("// v0")
    assert code.title.endswith(f", {len(FILE.splitlines()) - 4} lines"), "four of them are markers"
    page = code._repr_html_()
    assert page.index("<details>") < page.index("<summary>") < page.index("<pre")


def test_diff_is_marked_by_sign_and_says_how_much(kernels):
    code = show.diff("v0", "v1")
    assert (code.added, code.removed) == (2, 1)
    marked = [str(line) for line in str(code).splitlines() if line[:1] in "+-"]
    assert marked == ["-  " + "    load();", "+  " + "    load_async();", "+int y;"]
    assert "header" not in str(code)
    page = code._repr_html_()
    assert '<span class="wb-del">-' in page and '<span class="wb-add">+' in page
    removed = next(line for line in code.lines if line.mark == "-")
    assert removed.number == 7


def test_diff_of_a_kernel_with_itself(kernels):
    assert str(show.diff("v0", "v0")) == "the code is the same"


def test_html_holds_the_code_and_nothing_but_the_code(kernels):
    page = show.region("v0", "load")._repr_html_()
    (pre,) = re.findall(r"<pre[^>]*>(.*)</pre>", page, re.DOTALL)
    pre = re.sub(r'<span class="linenos"[^>]*>[^<]*</span>', "", pre)
    text = re.sub(r"<[^>]+>", "", pre)
    assert text.rstrip("\n") == str(show.region("v0", "load"))
    assert "a &lt; b &amp;&amp; c" in show.whole("v0")._repr_html_().replace(
        '<span class="w"> </span>', " "
    ).replace('<span class="o">', "").replace('<span class="n">', "").replace("</span>", "")


def test_a_keyboard_can_scroll_and_a_reader_hears_what_it_is(kernels):
    page = show.region("v0", "load")._repr_html_()
    assert '<pre tabindex="0" role="group" aria-label="kernels/v0.cu, lines 6–13">' in page
    assert 'class="highlight"' in page and '<span class="linenos" aria-hidden="true">' in page
    assert 'class="k">if' in page


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: show.region("v9", "load"), r"'v9': no such file.*include/a.cuh, v0.cu, v1.cu"),
        (lambda: show.region("v0", "lod"), r"no region 'lod'; its regions: load, inner"),
        (lambda: show.whole("../v0"), "no such file"),
    ],
)
def test_unknown_names_list_what_exists(kernels, call, message):
    with pytest.raises(HopperError, match=message):
        call()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("// [a]\nx\n", r"v2.cu:1 opens region 'a', which nothing closes"),
        ("x\n// [/a]\n", r"v2.cu:2 closes region 'a', which is not open"),
        ("// [a]\n// [/a]\n// [a]\n// [/a]\n", r"v2.cu:3 opens region 'a' again"),
    ],
)
def test_broken_markers_are_refused(kernels, text, message):
    (kernels / "v2.cu").write_text(text)
    with pytest.raises(HopperError, match=message):
        show.region("v2", "a")


def test_every_region_of_every_kernel_can_be_shown():
    seen = 0
    for path in show.KERNELS.rglob("*.cu*"):
        name = path.relative_to(show.KERNELS).as_posix()
        for region in re.findall(r"^\s*// \[([a-z0-9_-]+)\]$", path.read_text(), re.MULTILINE):
            assert str(show.region(name, region)).strip()
            seen += 1
    assert seen >= 5


def test_ptx_shows_the_instructions_by_name_with_short_operands(program):
    code = show.ptx(program, "wgmma", limit=99)
    names = {line.text.split()[0].split(".")[1] for line in code.lines}
    assert names == {"fence", "mma_async", "commit_group", "wait_group"}
    products = [line.text for line in code.lines if "mma_async" in line.text]
    n = program.facts.tile_n
    assert all(f"… {n // 2} values …" in text and len(text) < 140 for text in products)
    numbered = program.ptx.splitlines()
    for line in code.lines:
        assert line.text.split()[0] in numbered[line.number - 1]


def test_ptx_falls_back_to_whole_lines_and_limits(program):
    assert len(show.ptx(program, "fact_").lines) == 7
    short = show.ptx(program, "wgmma", context=1, limit=2)
    assert short.lines[-1].mark == "gap" and "more" in short.lines[-1].text
    with pytest.raises(HopperError, match="no line matches 'ldmatrix'"):
        show.ptx(program, "ldmatrix")


def test_operand_lists_of_four_or_fewer_stay():
    assert show.shorten_operands("mma {%r1, %r2}, %p;") == "mma {%r1, %r2}, %p;"
    assert show.shorten_operands("x {%f1,%f2,%f3,%f4,%f5};") == "x {%f1, … 5 values …, %f5};"


def test_sass_and_counts_agree(program):
    shown = show.sass(program, "HGMMA", limit=999)
    table = {row[0]: int(row[1]) for row in show.counts(program).rows}
    assert table["HGMMA"] == len(shown.lines) == program.sass().count("HGMMA") > 0
    assert table["UTMALDG"] == 2 and "HMMA" not in table and "LDL" not in table
    assert show.counts(program, ["HMMA"]).rows[0][:2] == ("HMMA", "0")
    assert "F2FP" not in table and "packed" in show.counts(program, ["F2FP"]).rows[0][2]
    assert "registers a thread, nothing spilled" in str(show.counts(program))
    assert '<th scope="col">' in show.counts(program)._repr_html_()


def test_mutants_without_a_recording_still_tell_what_the_compiler_says(monkeypatch):
    def nothing(kind, kernel):
        raise NoRecording("none")

    monkeypatch.setattr(show, "find", nothing)
    table = show.mutants("v1_wgmma")
    told = {row[0].splitlines()[0]: row[1:] for row in table.rows}
    assert told["no wgmma.fence"] == ("C7519", "no-wgmma-fence", "not recorded")
    assert told["phase never flips"][0] == "nothing"
    assert told["phase never flips"][1].startswith("copy-not-arrived")
    assert told["phase never flips"][2] == "not recorded"
    assert len(told) == len(mutations("v1_wgmma"))
    assert "<br>" in table._repr_html_() and "\n" not in str(table).splitlines()[2]


def test_mutants_add_up_the_recorded_launches(monkeypatch):
    first = mutations("v1_wgmma")[0]
    trial = SimpleNamespace(runs=20, right=15, wrong=5, hung=0, failed=0)
    entry = SimpleNamespace(
        data=SimpleNamespace(name=first.name, change=show.change_of(first), trials=(trial, trial)),
        provenance=SimpleNamespace(label="NVIDIA H200, 2030-01-02, recorded"),
    )
    monkeypatch.setattr(show, "find", lambda kind, kernel: [entry])
    monkeypatch.setattr(show, "freshness", lambda entry: "fresh")
    table = show.mutants("v1_wgmma")
    assert table.rows[0][3] == "30 right, 10 wrong of 40"
    assert table.title.endswith("NVIDIA H200, 2030-01-02, recorded")
    monkeypatch.setattr(show, "freshness", lambda entry: "stale")
    assert show.mutants("v1_wgmma").rows[0][3] == "recorded before the kernel changed"


def test_a_kernel_without_mutations_is_refused():
    with pytest.raises(HopperError, match="'v9' has no mutations"):
        show.mutants("v9")


def test_a_difference_can_be_folded():
    shown = show.diff("v0_mma_sync", "v1_wgmma", folded=True)
    page = shown._repr_html_()
    assert f"<summary>{shown.title}</summary>" in page
    assert "<details>" not in show.diff("v0_mma_sync", "v1_wgmma")._repr_html_()


def test_broken_rules_list_every_hazard_kernel_without_a_recording_too(monkeypatch, tmp_path):
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    table = show.broken_rules()
    assert [row[0] for row in table.rows] == [kernel.name for kernel in HAZARD_KERNELS]
    assert {row[3] for row in table.rows} == {"not recorded"}
    assert "no recording" in table.title
