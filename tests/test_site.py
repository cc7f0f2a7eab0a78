"""The built book: it builds without a warning, every chapter ran, nothing on a page is missing."""

import filecmp
import json
import re
import shutil
import zipfile
from pathlib import Path

import nbformat
import pytest
from docutils import nodes
from site_building import CHAPTERS, PAGES, Site, book_of, build, build_book, small_book

from extension import downloads, freshness, pagecheck, quantities, status
from hopper import notebooks, records
from hopper.architecture import CONSTANTS, constant
from hopper.compile import kernel_names, nvrtc_version
from hopper.errors import HopperError
from hopper.paths import ROOT
from hopper.schema import Entry, Identity, Probe, Provenance

CELL = "\n```{code-cell} python\nprint(6 * 7)\n```\n"


# ---------------------------------------------------------------------------------------------
# The book


@pytest.mark.slow
def test_the_book_builds_without_a_warning(site):
    assert site.status == 0, site.log


@pytest.mark.parametrize("slug", CHAPTERS)
def test_chapter(site, slug):
    """Executed from top to bottom, each cell once, without an error."""
    path = site.folder / "downloads" / f"{slug}.ipynb"
    assert path.is_file(), site.log
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    failed = [
        re.sub(r"\x1b\[[\d;]*m", "", "\n".join(output["traceback"]))
        for cell in cells
        for output in cell["outputs"]
        if output["output_type"] == "error"
    ]
    assert not failed, failed[0]
    assert cells, f"chapters/{slug}.md has no code cell"
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))


@pytest.mark.hopper
@pytest.mark.parametrize("slug", CHAPTERS)
def test_chapter_runs_live(slug):
    outputs, cells, _ = notebooks.execute(slug)
    assert cells == len(notebooks.code_cells(slug))
    assert outputs


def test_every_page_of_the_book_is_built_and_no_other(site):
    built = {p.relative_to(site.folder).with_suffix("").as_posix() for p in html_pages(site.folder)}
    assert built == set(PAGES)


def test_pages_have_alternatives_working_links_and_nothing_from_elsewhere(site):
    assert pagecheck.check_site(site.folder) == []


def test_style_sheets_and_scripts_fetch_nothing(site):
    sheets = list((site.folder / "_static").rglob("*.css"))
    assert sheets
    fetched = re.compile(r"(?:url\(\s*[\"']?|@import\s+[\"'])(https?:)?//", re.IGNORECASE)
    assert [path.name for path in sheets if fetched.search(path.read_text())] == []


def test_formulas_are_set_by_the_mathjax_that_is_shipped(site):
    page = (site.folder / "docs/measuring.html").read_text()
    script = re.search(r'src="(\.\./_static/vendor/mathjax/[^"?]+)', page)
    assert script, "docs/measuring.md has formulas, and no script sets them"
    folder = (site.folder / "docs" / script[1]).resolve().parent
    assert list((folder / "output/chtml/fonts/woff-v2").glob("*.woff"))
    assert (folder / "LICENSE").is_file()


def test_no_page_or_download_holds_a_path_of_this_machine(site):
    paths = {str(ROOT), str(site.folder.parent), str(Path.home())} - {"/"}
    texts = [p for p in site.folder.rglob("*") if p.suffix in {".html", ".ipynb", ".js", ".md"}]
    found = [p.name for p in texts if any(path in p.read_text() for path in paths)]
    assert found == []


def test_two_builds_are_the_same_bytes(site, tmp_path):
    """The second one writes every page anew, and executes one chapter in three again."""
    for kept in ("doctrees", "jupyter_execute"):
        shutil.copytree(site.folder.parent / kept, tmp_path / kept)
    sample = set(CHAPTERS[::3])
    for page in set(PAGES) - {f"chapters/{slug}" for slug in set(CHAPTERS) - sample}:
        (tmp_path / "doctrees" / f"{page}.doctree").unlink(missing_ok=True)
    again = build_book(tmp_path)
    assert again.status == 0, again.log
    assert set(re.findall(r"chapters/(\w+)\S*: Executed notebook", again.log)) == sample
    assert different_files(site.folder, again.folder) == []


def test_status_page_names_kernels_versions_and_what_was_never_run(site):
    page = (site.folder / "docs/status.html").read_text()
    text = re.sub(r"<[^>]+>", " ", page)
    assert "was not run on an H100" in text
    for name in kernel_names():
        assert name in text
        assert f'id="record-{name.replace("_", "-")}"' in page
    for slug in CHAPTERS:
        assert f"../chapters/{slug}.html" in page
    for package in ("sphinx", "myst-nb", "numpy", "NVRTC"):
        assert re.search(rf"\b{package}\b\s+\d+\.\d+", text), package


def test_status_page_tells_every_recording_as_it_is(tmp_path, monkeypatch):
    """A recording of other code is stale; one of another compiler cannot be told."""
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    kernel = kernel_names()[0]
    provenance = Provenance(
        gpu="NVIDIA H200",
        sm_count=132,
        driver="580",
        nvrtc=nvrtc_version(),
        cupy="14",
        cublas="13",
        numpy="2",
        python="3.12",
        power_limit_watts=None,
        date="2026-01-31T12:00:00Z",
        commit="0123456789" * 4,
        clean=True,
    )
    entries = tuple(
        Entry(
            kernel, "probe", Identity("0" * 64, {}, nvrtc, {}), provenance, Probe(name, "why", {})
        )
        for name, nvrtc in (("old", nvrtc_version()), ("foreign", "1.0"))
    )
    records.write_record(
        records.Record(kernel, "NVIDIA H200", entries), records.record_path(kernel)
    )
    rows = [row.astext() for row in status.kernels().findall(nodes.row)]
    old, foreign = (next(row for row in rows if name in row) for name in ("old", "foreign"))
    for row in (old, foreign):
        assert "NVIDIA H200" in row
        assert "0123456789" in row
        assert 'datetime="2026-01-31T12:00:00Z"' in row
    assert "stale" in old
    assert "another NVRTC" in foreign
    assert len(rows) == 1 + len(entries) + len(kernel_names()) - 1


def test_status_page_says_that_a_kernel_was_never_recorded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOPPER_RESULTS", str(tmp_path))
    rows = [row.astext() for row in status.kernels().findall(nodes.row)][1:]
    assert len(rows) == len(kernel_names())
    assert all("never recorded" in row for row in rows)


def test_constants_link_to_their_rows(site):
    page = (site.folder / "docs/constants.html").read_text()
    for entry in CONSTANTS:
        assert f'id="constant-{entry.name.replace("_", "-")}"' in page


def html_pages(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*.html") if path.name != "genindex.html"]
    return [path for path in found if "_static" not in path.relative_to(folder).parts]


def different_files(one: Path, other: Path) -> list[str]:
    names = {p.relative_to(root) for root in (one, other) for p in root.rglob("*") if p.is_file()}
    # Sphinx's own note for the next build; it hashes the configuration and is not part of the site.
    names -= {Path(".buildinfo")}
    return sorted(
        str(name)
        for name in names
        if not (one / name).is_file()
        or not (other / name).is_file()
        or not filecmp.cmp(one / name, other / name, shallow=False)
    )


# ---------------------------------------------------------------------------------------------
# Downloads


@pytest.mark.parametrize("slug", CHAPTERS)
def test_chapter_links_to_its_downloads(site, slug):
    page = (site.folder / f"chapters/{slug}.html").read_text()
    assert f'href="../downloads/{slug}.ipynb"' in page
    if notebooks.kernels_named(notebooks.code_cells(slug)):
        assert f'href="../downloads/{slug}-kernels.zip"' in page


@pytest.mark.parametrize("slug", CHAPTERS)
def test_downloaded_notebook_is_valid_and_spells_out_numbers(site, slug):
    notebook = nbformat.read(site.folder / f"downloads/{slug}.ipynb", as_version=4)
    nbformat.validate(notebook)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    assert "{recorded}" not in prose
    assert "{constant}" not in prose
    assert all("execution" not in cell.metadata for cell in notebook.cells)


@pytest.mark.parametrize("slug", CHAPTERS)
def test_downloaded_kernels_bring_every_header_they_include(site, slug):
    path = site.folder / f"downloads/{slug}-kernels.zip"
    if not notebooks.kernels_named(notebooks.code_cells(slug)):
        assert not path.exists()
        return
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
        assert {entry.date_time for entry in archive.infolist()} == {downloads.ARCHIVE_DATE}
    assert any(name.endswith(".cu") for name in texts)
    for name, text in texts.items():
        assert text == (ROOT / name).read_text()
        for header in re.findall(r'^\s*#include "([^"]+)"', text, re.MULTILINE):
            assert f"kernels/include/{header}" in texts, f"{name} includes {header}"


def test_cleaning_a_notebook_keeps_what_ran_and_drops_what_differs():
    cell = {
        "cell_type": "code",
        "id": "3f9a",
        "execution_count": 1,
        "metadata": {"execution": {"iopub.execute_input": "2026-01-01"}, "tags": ["hide-input"]},
        "source": ["1 + 1"],
        "outputs": [],
    }
    text = {"cell_type": "markdown", "id": "77aa", "metadata": {}, "source": "an SM: {constant}"}
    text["source"] = "an SM does {constant}`flop_per_sm_cycle` a cycle"
    cleaned = downloads.clean_notebook({"metadata": {}, "cells": [cell, text]})
    assert cleaned["cells"][0] == cell | {"id": "cell-0", "metadata": {"tags": ["hide-input"]}}
    assert cleaned["cells"][1]["source"] == ["an SM does 4,096\N{NO-BREAK SPACE}FLOP a cycle"]


# ---------------------------------------------------------------------------------------------
# Small books that are wrong on purpose


# Name of a chapter -> its text, and what the build says of it.
WRONG = {
    "nothing_ran": ("# One\n\nOnly words.\n", "none of its 0 code cells ran"),
    "no_such_quantity": ("# One\n\n{recorded}`v1_wgmma nonsense`\n" + CELL, "no such quantity"),
    "no_such_kernel": ("# One\n\n{recorded}`v99 tflops`\n" + CELL, "there is no kernel v99"),
    "no_such_constant": ("# One\n\n{constant}`nonsense`\n" + CELL, "no constant of that name"),
    "image_from_elsewhere": (
        "# One\n\n![](https://example.org/a.png)\n" + CELL,
        "not part of the site",
    ),
    "link_to_nowhere": (
        "# One\n\n[gone](../index.html#nowhere)\n" + CELL,
        "no element of that id",
    ),
}


@pytest.fixture(scope="module")
def wrong_book(tmp_path_factory) -> Site:
    folder = tmp_path_factory.mktemp("wrong")
    chapters = {name: text for name, (text, _) in WRONG.items()} | {"sound": "# One\n" + CELL}
    return build(book_of(folder / "book", chapters), folder)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_page_fails_the_build_and_says_why(wrong_book, name):
    """A build fails at any warning (``test_a_failed_build_is_not_forgotten``)."""
    assert wrong_book.status != 0
    warnings = [line for line in wrong_book.log.splitlines() if "WARNING" in line]
    assert any(f"chapters/{name}" in line and WRONG[name][1] in line for line in warnings)
    assert not any("chapters/sound" in line for line in warnings)


def test_a_failing_cell_fails_the_build_and_says_why(tmp_path):
    chapter = "# One\n" + CELL.replace("print(6 * 7)", "1 / 0")
    made = build(small_book(tmp_path / "book", chapter), tmp_path)
    assert made.status != 0
    assert "ZeroDivisionError" in made.log


def test_a_kernel_that_does_not_exist_fails_the_build(tmp_path):
    made = build(small_book(tmp_path / "book", "# One\n" + CELL, kernels="v99"), tmp_path)
    assert made.status != 0
    assert "there is no kernels/v99.cu" in made.log


def test_a_failed_build_is_not_forgotten(tmp_path):
    book = small_book(tmp_path / "book", "# One\n\n{constant}`nonsense`\n" + CELL)
    assert build(book, tmp_path).status != 0
    assert build(book, tmp_path).status != 0


def test_a_build_survives_what_a_failed_one_left(tmp_path):
    """The theme of a failed build may leave its logo as a file called _static."""
    book = small_book(tmp_path / "book", "# One\n" + CELL, kernels="one")
    kernel = book / "kernels" / "one.cu"
    kernel.parent.mkdir()
    kernel.write_text("// first\n")
    left = tmp_path / "site" / "html" / "_static"
    left.parent.mkdir(parents=True)
    left.write_text("a logo")
    done = build(book, tmp_path / "site")
    assert done.status == 0, done.log
    assert (left / "pygments.css").is_file()


def test_a_second_build_executes_only_what_changed(tmp_path):
    book = small_book(tmp_path / "book", "# One\n" + CELL, kernels="one")
    kernel = book / "kernels" / "one.cu"
    kernel.parent.mkdir()
    kernel.write_text("// first\n")
    executed = "Executed notebook"
    first = build(book, tmp_path)
    assert first.status == 0, first.log
    assert executed in first.log
    assert executed not in build(book, tmp_path).log
    kernel.write_text("// second\n")
    changed = build(book, tmp_path)
    assert changed.status == 0, changed.log
    assert executed in changed.log
    with zipfile.ZipFile(tmp_path / "html/downloads/one-kernels.zip") as archive:
        assert archive.read("kernels/one.cu") == b"// second\n"


# ---------------------------------------------------------------------------------------------
# Parts of the extension


def test_digest_sees_contents_and_names_and_no_byte_code(tmp_path):
    source = tmp_path / "kernels" / "a.cu"
    source.parent.mkdir()
    source.write_text("one")
    first = freshness.digest(tmp_path)
    (source.parent / "__pycache__").mkdir()
    (source.parent / "__pycache__" / "a.pyc").write_text("noise")
    assert freshness.digest(tmp_path) == first
    source.write_text("two")
    second = freshness.digest(tmp_path)
    source.rename(source.with_name("b.cu"))
    third = freshness.digest(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "r.json").write_text("{}")
    assert len({first, second, third, freshness.digest(tmp_path)}) == 4


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (540.34, "TFLOPS", "540\N{NO-BREAK SPACE}TFLOPS"),
        (2.0366, "ms", "2.04\N{NO-BREAK SPACE}ms"),
        (0.5, "ms", "0.500\N{NO-BREAK SPACE}ms"),
        (73.26, "%", "73.3%"),
        (99.96, "%", "100.0%"),
        (103.47, "%", "103.5%"),
        (1234.5, "%", "1,234%"),
        (65536, "registers", "65,536\N{NO-BREAK SPACE}registers"),
        (1410.0, "MHz", "1,410\N{NO-BREAK SPACE}MHz"),
        (-1.5, "", "\N{MINUS SIGN}1.50"),
        (2.1e-4, "", "2.10\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}10⁻⁴"),
    ],
)
def test_quantities_are_shown_with_three_digits_and_their_unit(value, unit, shown):
    assert quantities.format_quantity(value, unit) == shown


def test_an_unknown_constant_names_those_that_exist():
    with pytest.raises(HopperError, match="known names: .*wgmma_m"):
        constant("wgmma_q")


def test_constants_agree_with_each_other():
    value = {entry.name: entry.value for entry in CONSTANTS}
    assert len(value) == len(CONSTANTS)
    assert value["warpgroup_threads"] == value["warpgroup_warps"] * value["warp_threads"]
    assert value["fp8_flop_per_sm_cycle"] == 2 * value["flop_per_sm_cycle"]
    assert value["shared_bytes_per_sm"] - value["shared_bytes_per_cta"] == 1024
    assert value["registers_per_sm"] / value["threads_per_sm"] == 32


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ('<img src="a.png">', "no alt text"),
        ('<img src="a.png" alt=" ">', "no alt text"),
        ('<img src="a.png" alt="a.png">', "its path for an alt text"),
        ("<svg></svg>", 'neither role="img"'),
        ('<svg role="img"></svg>', 'neither role="img"'),
        ('<a href="b.html">b</a>', "there is no b.html"),
        ('<a href="#nowhere">x</a>', "no element of that id"),
        ('<a href="../secret.txt">x</a>', "leaves the site"),
        ('<script src="https://cdn.example/x.js"></script>', "not part of the site"),
        ('<script src="//cdn.example/x.js"></script>', "not part of the site"),
        ('<link rel="stylesheet" href="http://cdn.example/x.css">', "not part of the site"),
        ('<link rel="preconnect" href="https://fonts.example">', "not part of the site"),
        ('<iframe src="https://video.example"></iframe>', "not part of the site"),
        ('<script type="module">1</script>', "a module script"),
    ],
)
def test_page_check_finds(tmp_path, body, complaint):
    (tmp_path / "secret.txt").write_text("outside")
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.png").write_bytes(b"")
    (site / "page.html").write_text(f"<html><body>{body}</body></html>")
    problems = pagecheck.check_site(site)
    assert len(problems) == 1
    assert problems[0].page == "page.html"
    assert complaint in problems[0].text


@pytest.mark.parametrize(
    "body",
    [
        '<img src="a.png" alt="a tile">',
        '<img src="a.png" alt="" aria-hidden="true">',
        '<svg role="img" aria-label="a tile"></svg>',
        '<svg aria-hidden="true"></svg>',
        '<a href="page.html#here">x</a><p id="here"></p>',
        '<a href="https://example.org">elsewhere is fine for a link</a>',
        '<img src="data:image/png;base64,AAAA" alt="a tile">',
    ],
)
def test_page_check_accepts(tmp_path, body):
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "page.html").write_text(f"<html><body>{body}</body></html>")
    assert pagecheck.check_site(tmp_path) == []
