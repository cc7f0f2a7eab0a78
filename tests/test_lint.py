"""The prose lint finds typed-in measurements and lets honest numbers pass."""

from pathlib import Path

import pytest

from hopper.lint_prose import lint, main, pages


def texts(page: str) -> list[str]:
    return [finding.text for finding in lint(page)]


@pytest.mark.parametrize(
    ("prose", "found"),
    [
        ("It reaches 540 TFLOPS.", "540 TFLOPS"),
        ("It reaches 541.5 TFLOP/s.", "541.5 TFLOP/s"),
        ("DRAM gives 4.8 TB/s at best.", "4.8 TB/s"),
        ("A launch takes 2.04 ms here.", "2.04 ms"),
        ("A launch takes 2.04ms here.", "2.04ms"),
        ("It waits 3 µs.", "3 µs"),
        ("It waits 3 us.", "3 us"),
        ("Between 500 and 700 ns pass.", "500 and 700 ns"),
        ("The clock holds 1.55 GHz.", "1.55 GHz"),
        ("The clock holds 1,550 MHz.", "1,550 MHz"),
        ("The limit is 700 W.", "700 W"),
        ("That is 73% of cuBLAS.", "73%"),
        ("That is 73 percent of it.", "73 percent"),
        ("That is 0.73 of cuBLAS.", "0.73 of cuBLAS"),
        ("It is 1.3x faster.", "1.3x"),
        ("It is 1.3× faster.", "1.3×"),
        ("A speedup of 1.3×.", "1.3×"),
        ("It is 3 times as fast.", "3 times as fast"),
        ("Tensor pipe: **67 %**", "67 %"),
        ("- first\n- second takes 9 ms", "9 ms"),
        ("| v1 | 540 TFLOPS |\n|---|---|", "540 TFLOPS"),
        (":::{note}\nIt takes 9 ms.\n:::", "9 ms"),
        ("```{admonition} Only 9 ms\nText.\n```", "9 ms"),
        ("[It takes 9 ms](x.md)", "9 ms"),
    ],
)
def test_typed_in_measurement_is_found(prose, found):
    assert texts(prose) == [found]


@pytest.mark.parametrize(
    "prose",
    [
        "A tile of 64×128 fp16 is 16 KiB, a warpgroup has 128 threads.",
        "A block tile is 64 × N, the matrices are 8192×8192×8192.",
        "An SM does 4096 FLOP a cycle.",
        "It reaches {recorded}`v1_wgmma tflops` at {recorded}`v1_wgmma ms`.",
        "It reaches 540 TFLOPS {cite:p}`tilus`.",
        "They report 540 TFLOPS and\n2.04 ms on an H100 {cite:t}`tilus`.",
        "| published | 540 TFLOPS | {cite:p}`tilus` |",
        "Run it for `9 ms`, or ``9 ms``.",
        "```\ntook 9 ms\n```",
        "```{code-block} text\ntook 9 ms\n```",
        "~~~text\ntook 9 ms\n~~~",
        "<!-- 540 TFLOPS -->\nText.",
        "% 540 TFLOPS\nText.",
        "---\ntitle: 540 TFLOPS\n---\nText.",
        "$t = 9 ms$ by definition.",
        "See [the page](https://example.org/9 ms).".replace(" ms", "%20ms"),
        "Fifteen minutes, or 60 seconds.",
        "CUDA 13.0 on sm_90a, Python 3.11–3.13.",
        "The swizzle spans 128 bytes; a box is at most 256.",
    ],
)
def test_honest_prose_passes(prose):
    assert texts(prose) == []


def test_citation_reaches_no_further_than_its_paragraph_row_or_item():
    assert texts("It is 5 ms {cite:p}`x`.\n\nIt is 6 ms.") == ["6 ms"]
    assert texts("- 5 ms {cite:p}`x`\n- 6 ms") == ["6 ms"]
    assert texts("| 5 ms | {cite:p}`x` |\n| 6 ms | ours |") == ["6 ms"]


def test_finding_names_file_line_and_way_out():
    (finding,) = lint("# Title\n\nFirst line\nand then 9 ms.\n", "docs/a.md")
    assert (finding.path, finding.line) == ("docs/a.md", 4)
    assert "{recorded}" in finding.way_out and "{cite:p}" in finding.way_out


def cell(code: str) -> str:
    return f"---\nkernelspec: x\n---\n\n```{{code-cell}} python3\n{code}\n```\n"


@pytest.mark.parametrize(
    "code",
    [
        "tflops = [410.0, 541.0]",
        "cublas_ms = (1.5, 1.6)",
        "speedup = np.array([1.0, 1.3])",
        "data = {'tflops': [1, 2]}",
        "draw(tflops=[1, 2])",
        "results = {'v0': 300, 'v1': 540}",
        "plots.bars([('v0', 300), ('v1', 540)], title='t', alt='a')",
        "tflops(m, published={'v1': 540, 'cuBLAS': 738})",
    ],
)
def test_results_typed_into_a_cell_are_found(code):
    assert [finding.line for finding in lint(cell(code))] == [6]


@pytest.mark.parametrize(
    "code",
    [
        "tiles = [64, 128, 256]",
        "tflops = [m.tflops for m in measured]",
        "tflops = 2 * m * n * k / ms / 1e9",
        "plots.bars([(m.kernel, m.tflops) for m in measured], title='t', alt='a')",
        "# source: the ladder's own page\npublished_tflops = {'v0': 300, 'v1': 540}",
        ":tags: [hide-input]\n\nx = 1",
        "%time x = 1\n!nvidia-smi",
        "shape = (8192, 8192)",
    ],
)
def test_other_cells_pass(code):
    assert lint(cell(code)) == []


def test_path_of_one_machine_is_found_in_prose_and_code():
    page = "Look in /home/me/book.\n\n```bash\nls /tmp/x\n```\n\nSee docs/tmp/x and ~/work/y.\n"
    assert [(f.line, f.text) for f in lint(page)] == [(1, "/home/me"), (4, "/tmp/x")]


def test_exit_status(tmp_path, capsys):
    page = tmp_path / "a.md"
    page.write_text("Takes 9 ms.\n")
    assert main([str(page)]) == 1
    assert "a.md:1: 9 ms" in capsys.readouterr().out
    page.write_text("Takes a while.\n")
    assert main([str(page)]) == 0


def test_the_lint_reads_every_page_of_the_book():
    names = {Path(page).name for page in pages()}
    assert {"index.md", "README.md", "v1_wgmma.md", "setup.md"} <= names


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_page_of_the_book_passes(page):
    assert [str(f) for f in lint(page.read_text(encoding="utf-8"), page.name)] == []
