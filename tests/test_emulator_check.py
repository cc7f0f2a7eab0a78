"""The command that checks a kernel of one's own: what it prints, and what it refuses."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from hypothesis import given, strategies

from hopper.compile import compile_cuda
from hopper.emulator.__main__ import main
from hopper.emulator.launch_file import LaunchFileError, read_launch_file
from hopper.emulator.launch_values import DTYPES, FILLS, Expected, as_numbers, to_bfloat16
from hopper.emulator.ptx import parse
from hopper.emulator.source_lines import SourceLines
from hopper.paths import KERNELS, ROOT

EXAMPLES = ROOT / "examples/check"
KERNEL, LAUNCH = EXAMPLES / "two_stages.cu", EXAMPLES / "two_stages.toml"
BROKEN = ("--define", "GROUPS_IN_FLIGHT=1")


def check(capsys, kernel, launch, *options) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of one call, in this process."""
    status = main(["check", str(kernel), "--launch", str(launch), *options])
    told = capsys.readouterr()
    return status, told.out, told.err


def line_of(path: Path, text: str) -> int:
    """The number of the only line that holds a text."""
    (number,) = (n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)
    return number


def changed(folder: Path, *changes: tuple[str, str]) -> Path:
    """The example's kernel with texts replaced, in a folder of its own."""
    source = KERNEL.read_text()
    for old, new in changes:
        assert source.count(old) == 1, f"the example no longer says {old!r} once"
        source = source.replace(old, new)
    path = folder / "mine.cu"
    path.write_text(source)
    return path


# ---- kernels ------------------------------------------------------------------------------------


def test_the_example_is_clean_on_every_schedule(capsys):
    status, out, err = check(capsys, KERNEL, LAUNCH)
    assert (status, err) == (0, "")
    # One order without chance, two with, of two seeds each; each with shared memory moved.
    assert out.startswith("no hazards in 10 runs on 3 schedules (two_stages: 2 blocks of 128 ")


def test_the_broken_example_is_told_as_the_page_shows_it(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    status, out, _ = check(
        capsys, "examples/check/two_stages.cu", "examples/check/two_stages.toml", *BROKEN
    )
    assert status == 1
    for text in ("tma_load_2d(tile_a", "tma_load_2d(tile_b"):
        line = line_of(KERNEL, text)
        assert f"examples/check/two_stages.cu:{line}: error: operand-overwritten: " in out
    # Where an instruction stands in the PTX is the compiler's business.
    anywhere = re.compile(r"ptx: line \d+")
    shown = (EXAMPLES / "two_stages_broken.txt").read_text()
    assert anywhere.sub("", out) == anywhere.sub("", shown)


def test_the_commands_of_the_page_are_those_that_are_tested():
    page = (ROOT / "docs/emulator.md").read_text()
    command = "python -m hopper.emulator check examples/check/two_stages.cu"
    assert page.count(command) == 2
    assert " ".join(BROKEN) in page
    for file in EXAMPLES.iterdir():
        assert f"examples/check/{file.name}" in page


def test_a_subprocess_in_another_folder_says_the_same(tmp_path):
    command = [sys.executable, "-m", "hopper.emulator", "check", KERNEL, "--launch", LAUNCH]
    done = subprocess.run([*command, *BROKEN], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "")
    line = line_of(KERNEL, "tma_load_2d(tile_a")
    assert f"{KERNEL}:{line}: error: operand-overwritten: " in done.stdout
    assert f"inside: {KERNELS / 'include/tma.cuh'}:" in done.stdout
    assert f"called from: {KERNEL}:{line_of(KERNEL, 'load(step + STAGES)')}" in done.stdout
    assert done.stdout.rstrip().splitlines()[-1].startswith("2 errors in 10 runs on 3 schedules")


def test_json_says_what_the_text_says(capsys):
    status, out, _ = check(capsys, KERNEL, LAUNCH, "--json", *BROKEN)
    told = json.loads(out)
    assert status == told["exit_status"] == 1
    assert [found["kind"] for found in told["findings"]] == ["operand-overwritten"] * 2
    first = told["findings"][0]
    assert (first["file"], first["severity"]) == (str(KERNEL), "error")
    assert first["line"] == line_of(KERNEL, "tma_load_2d(tile_a")
    assert first["runs"] == told["runs"] and len(told["runs"]) == 10


def test_quiet_prints_a_line_a_finding_and_nothing_without(capsys):
    assert check(capsys, KERNEL, LAUNCH, "--quiet") == (0, "", "")
    status, out, _ = check(capsys, KERNEL, LAUNCH, "--quiet", *BROKEN)
    assert status == 1
    assert [": error: operand-overwritten: " in line for line in out.splitlines()] == [True] * 2


def test_seeds_and_schedules_are_those_asked_for(capsys):
    options = ("--json", "--seeds", "3", "--schedule", "fixed/eager", "--schedule", "random/lazy")
    told = json.loads(check(capsys, KERNEL, LAUNCH, *options)[1])
    wanted = [f"{name}{skew}" for name in ("fixed/eager",) for skew in ("", " skew 16")]
    for seed in range(3):
        wanted += [f"random/lazy seed {seed}{skew}" for skew in ("", " skew 16")]
    assert told["runs"] == wanted


@pytest.mark.parametrize(
    ("change", "kind", "where"),
    [
        (("2 * TILE_BYTES);\n    tma", "3 * TILE_BYTES);\n    tma"), "expect-tx", "arrive_expect"),
        (("c[down * n + along]", "c[down * n * 2 + along]"), "out of bounds", "c[down"),
        (("    wgmma_fence();\n", ""), "no-wgmma-fence", "wgmma_f32_f16_f16<TILE>::ss"),
        (("step / STAGES % 2);", "1 - step / STAGES % 2);"), "deadlock", "mbarrier_wait"),
    ],
    ids=["too many bytes", "past the end of c", "no fence", "wrong parity"],
)
def test_other_faults_of_the_kernel_are_told_at_their_line(capsys, tmp_path, change, kind, where):
    mine = changed(tmp_path, change)
    status, out, _ = check(capsys, mine, LAUNCH)
    assert status == 1
    heads = [line for line in out.splitlines() if ": error: " in line and kind in line]
    assert f"{mine}:{line_of(mine, where)}" in [head.split(": error: ")[0] for head in heads], out
    # Behind a run that was stopped no result is judged, and every error is the kernel's.
    assert all(head.startswith(f"{mine}:") for head in heads)


@pytest.mark.parametrize("loop", ["while (!*flag) ++looks;", "while (!*flag) {}"])
def test_a_kernel_that_spins_is_stopped(capsys, tmp_path, loop):
    source, launch = tmp_path / "spin.cu", tmp_path / "spin.toml"
    source.write_text(
        'extern "C" __global__ void spin(volatile int* flag) {\n'
        f"  int looks = 0;\n  {loop}\n  *flag = looks;\n}}\n"
    )
    launch.write_text(
        'grid = 1\nblock = 32\nstep_limit = 5000\narguments = [{ array = "flag" }]\n'
        'arrays.flag = { shape = [1], dtype = "int32", fill = "zeros" }\n'
    )
    status, out, _ = check(capsys, source, launch, "--schedule", "fixed/lazy")
    assert status == 1
    assert re.search(r"spin.cu:\d: error: never-ends: stopped after \d+ steps", out)
    assert "1 error in 1 run on 1 schedule (spin: 1 block of 32 threads)" in out


def test_a_wrong_result_names_the_element_and_what_was_expected(capsys, tmp_path):
    mine = changed(tmp_path, ("c[down * n + along] = d[i];", "c[down * n + along] = d[i ^ 1];"))
    status, out, _ = check(capsys, mine, LAUNCH, "--schedule", "fixed/lazy")
    assert status == 1
    assert re.search(r"two_stages.toml: error: wrong-result: c\[0, 0\] is .*a @ b\.T has", out)


def test_alignment_that_nothing_promises_is_a_warning(capsys, tmp_path):
    source, launch = tmp_path / "aligned.cu", tmp_path / "aligned.toml"
    source.write_text(
        'extern "C" __global__ void aligned(int4* out) {\n'
        "  extern __shared__ char raw[];\n"
        "  unsigned at = __cvta_generic_to_shared(raw);\n"
        '  asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");\n'
        "  if (at % 64) out[at % 64].x = 1;\n"
        "}\n"
    )
    launch.write_text(
        'grid = 1\nblock = 1\nshared_bytes = 64\narguments = [{ array = "out" }]\n'
        'arrays.out = { shape = [4], dtype = "int32", fill = "zeros" }\n'
    )
    status, out, _ = check(capsys, source, launch)
    assert status == 0
    assert re.search(r"aligned.cu:5: warning: .*argument 0 \(out\).*out of bounds", out)
    assert "16 bytes later" in out and "no hazards, 1 warning in 10 runs" in out
    (tmp_path / "aligned.toml").write_text("shared_skews = [16]\n" + launch.read_text())
    assert check(capsys, source, launch)[0] == 1


def test_a_result_that_depends_on_the_order_is_a_warning(capsys, tmp_path):
    source, launch = tmp_path / "order.cu", tmp_path / "order.toml"
    source.write_text(
        'extern "C" __global__ void order(int* next, int* who) {\n'
        "  if (threadIdx.x % 32 == 0) who[atomicAdd(next, 1)] = threadIdx.x;\n"
        "}\n"
    )
    launch.write_text(
        'grid = 1\nblock = 256\narguments = [{ array = "next" }, { array = "who" }]\n'
        'arrays.next = { shape = [1], dtype = "int32", fill = "zeros" }\n'
        'arrays.who = { shape = [8], dtype = "int32", fill = "zeros" }\n'
    )
    status, out, _ = check(capsys, source, launch)
    assert status == 0
    assert "order.toml: warning: result-varies: who is not what fixed/lazy left in it" in out
    assert "next is not" not in out


def test_what_the_compiler_repairs_is_a_warning_at_its_line(capsys, tmp_path):
    mine = changed(tmp_path, ("    wgmma_fence();\n", ""))
    out = check(capsys, mine, LAUNCH, "--schedule", "fixed/lazy")[1]
    assert f"{mine}:{line_of(mine, 'wgmma_f32_f16_f16<TILE>::ss')}: warning: C7519: " in out


def test_lines_that_no_run_executes_are_named(capsys, tmp_path):
    mine = changed(
        tmp_path,
        ("  wgmma_wait_group<0>();\n", "  wgmma_wait_group<0>();\n  if (k == 7)\n    c[0] = 9;\n"),
    )
    out = check(capsys, mine, LAUNCH, "--schedule", "fixed/lazy")[1]
    assert f"never executed with these arguments: mine.cu line {line_of(mine, 'c[0] = 9;')};" in out


def test_a_kernel_of_the_book(capsys, tmp_path):
    launch = tmp_path / "v1.toml"
    launch.write_text(
        """
        grid = [2, 2]
        block = "from the launch facts"
        shared_bytes = "from the launch facts"
        arguments = [
            { map = "a", box = [128, 64] }, { map = "b", box = [128, 64] }, { array = "c" },
            { int32 = 131 }, { int32 = 150 }, { int32 = 136 },
        ]
        expect = { array = "c", equals = "a @ b.T", tolerance = 0.02 }
        [arrays]
        a = { shape = [131, 136], dtype = "float16", fill = "normal" }
        b = { shape = [150, 136], dtype = "float16", fill = "normal", seed = 1 }
        c = { shape = [131, 150], dtype = "float16", fill = "nan" }
        """
    )
    status, out, err = check(capsys, KERNELS / "v1_wgmma.cu", launch, "--seeds", "1")
    assert (status, err) == (0, "")
    # No dynamic shared memory, so nothing to move.
    assert out.startswith("no hazards in 3 runs on 3 schedules (v1_wgmma: 4 blocks of 128 threads)")


def test_functions_inlined_into_inlined_functions_lead_back_to_the_kernels_own_line():
    path = KERNELS / "v1_wgmma.cu"
    program = compile_cuda(path, "v1_wgmma", lineinfo=True)
    lines = SourceLines(program.ptx, path)
    code = [x for x in parse(program.ptx, "v1_wgmma").code if x.source]
    places = {lines.split(x.line)[0].file for x in code}
    assert places == {str(path)}
    (convert, *_) = (x for x in code if x.opcode == "cvt.rn.f16x2.f32")
    place, inside, callers = lines.split(convert.line)
    assert "store_pair(c, m, n" in lines.text(place) and not callers
    assert [Path(inner.file).name for inner in inside] == ["half.cuh", "store_pair.cuh"]
    assert "kPack" in lines.text(inside[1])


# ---- what cannot be checked: exit status 2 ------------------------------------------------------


@pytest.mark.parametrize("missing", ["kernel", "launch file"])
def test_a_file_that_is_not_there(capsys, tmp_path, missing):
    nowhere = tmp_path / "nowhere"
    paths = (nowhere, LAUNCH) if missing == "kernel" else (KERNEL, nowhere)
    status, out, err = check(capsys, *paths)
    assert (status, out) == (2, "") and "nowhere" in err and "cannot be read" in err


def test_a_kernel_that_does_not_compile(capsys, tmp_path):
    mine = changed(tmp_path, ("float d[TILE / 2];", "float d[TILE / 2]"))
    status, out, err = check(capsys, mine, LAUNCH)
    assert (status, out) == (2, "")
    assert f"mine.cu({line_of(mine, '#pragma unroll 1') + 1}): error: expected a" in err
    status, out, err = check(capsys, mine, LAUNCH, "--json")
    assert status == json.loads(out)["exit_status"] == 2 and err == ""


def test_a_header_of_the_toolkit_is_not_there(capsys, tmp_path):
    mine = changed(tmp_path, ('#include "half.cuh"', "#include <cuda_fp16.h>"))
    status, _, err = check(capsys, mine, LAUNCH)
    assert status == 2 and "cuda_fp16.h" in err and "help: #include <…> finds nothing" in err


def test_an_instruction_that_is_not_emulated(capsys, tmp_path):
    source, launch = tmp_path / "power.cu", tmp_path / "power.toml"
    source.write_text(
        'extern "C" __global__ void power(float* out) {\n'
        '  asm volatile("ex2.approx.f32 %0, %0;" : "+f"(out[0]));\n}\n'
    )
    launch.write_text(
        'grid = 1\nblock = 1\narguments = [{ array = "out" }]\n'
        'arrays.out = { shape = [4], dtype = "float32", fill = "zeros" }\n'
    )
    status, _, err = check(capsys, source, launch)
    assert status == 2 and "power.cu:2: unsupported: " in err and "ex2.approx" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "COMMAND"),
        (("check",), "KERNEL.cu"),
        (("check", "k.cu"), "--launch"),
        (("check", "k.cu", "--launch", "l.toml", "--seeds", "0"), "write 1 or more"),
        (("check", "k.cu", "--launch", "l.toml", "--schedule", "slow"), "warps/copies"),
        (("check", "k.cu", "--launch", "l.toml", "--define", "3=4"), "write NAME=VALUE"),
        (("check", "k.cu", "--launch", "l.toml", "--json", "--quiet"), "not allowed with"),
    ],
)
def test_wrong_usage(capsys, arguments, told):
    assert main(list(arguments)) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"]])
def test_help(capsys, arguments):
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "check" in told
    assert "exit status" in told or arguments == ["--help"]


BAD = {
    "not TOML": ("grid = [1, 1", "not TOML"),
    "no grid": ("grid = [2, 1, 1]", "", "grid: missing"),
    "an unknown key": (
        "[expect]",
        "[expected]",
        "expected = {'array'.*unknown key; known are kern",
    ),
    "an unknown key of an array": ("seed = 1", "sead = 1", "arrays.a.sead = 1: unknown key"),
    "a key below a table": ("seed = 1", "block = 128", "arrays.a.block = 128.*move block above"),
    "a grid of four": ("[2, 1, 1]", "[2, 1, 1, 1]", "grid = .*one to three lengths"),
    "a grid of none": ("[2, 1, 1]", "[0, 1, 1]", "grid = 0: it is at least 1"),
    "a large grid": ("[2, 1, 1]", "[2, 70000, 1]", "grid=.*at most"),
    "a block in words": (
        '"from the launch facts"          #',
        '"128" #',
        "block = '128'.*only text",
    ),
    "another block": ('"from the launch facts"          #', "256 #", "256 threads, and two_stages"),
    "too much shared memory": ('"from the launch facts"   #', "300000 #", "shared_bytes=300000"),
    "shared memory in halves": (
        '"from the launch facts"   #',
        "0.5 #",
        "shared_bytes = 0.5.*whole",
    ),
    "another kernel": ('kernel = "two_stages"', 'kernel = "three"', "expected a kernel three"),
    "a kernel by number": ('kernel = "two_stages"', "kernel = 3", "kernel = 3: it is a name"),
    "an argument too few": ("    { int32 = 64 }, ", "", "4 arguments: two_stages takes 5"),
    "no arguments": ("arguments = [", "argument = [", "argument = .*unknown key"),
    "an argument that is a number": ("{ int32 = 64 }", "64", r"arguments\[3\] = 64: it is a table"),
    "an unknown type": ("{ int32 = 64 }", "{ int = 64 }", r"arguments\[3\] = .*types are int8"),
    "a type too small": ("{ int32 = 64 }", "{ int8 = 640 }", "int8 = 640: int8 holds .* to 127"),
    "a type of another size": ("{ int32 = 64 }", "{ int64 = 64 }", "argument 3: int64 has 8 bytes"),
    "a fraction": ("{ int32 = 64 }", "{ int32 = 0.5 }", "holds whole numbers"),
    "a number in words": ("{ int32 = 64 }", '{ int32 = "64" }', "without quotes"),
    "a number of two types": ("{ int32 = 64 }", "{ int32 = 1, int8 = 2 }", "one value of a type"),
    "a truth": ("{ int32 = 64 }", "{ int32 = true }", "true and false are bool"),
    "a float too large": ("{ int32 = 64 }", "{ float16 = 1e6 }", "float16 ends at 65504"),
    "an array of no name": (
        '{ array = "c" }',
        '{ array = "d" }',
        r"\[2\].array = 'd'.*are a, b, c",
    ),
    "a map of no array": ('map = "a"', 'map = "d"', r"arguments\[0\].map = 'd'"),
    "a map for a pointer": ('{ array = "c" }', '{ map = "c", box = [8, 32] }', "2 is a TensorMap"),
    "a map without a box": (", box = [64, 64] },       #", " }, #", r"arguments\[0\].box: missing"),
    "a box too wide": (
        "box = [64, 64] },       #",
        "box = [64, 128] }, #",
        "wider than the swizzle",
    ),
    "a box of one length": ("box = [64, 64] },       #", "box = [64] }, #", "one length for each"),
    "a swizzle of 100": ("[64, 64] },       #", "[64, 64], swizzle = 100 }, #", "swizzle=100"),
    "a map that fills with ones": (
        "[64, 64] },       #",
        '[64, 64], fill = "one" }, #',
        "fill='one'",
    ),
    "a map of other elements": (
        "[64, 64] },       #",
        '[64, 64], element = "x" }, #',
        "element='x'",
    ),
    "a map of element 3": ("[64, 64] },       #", "[64, 64], element = 3 }, #", "are words"),
    "no shape": ("shape = [128, 256]\n", "", "arrays.a.shape: missing"),
    "a shape in words": ("shape = [128, 256]", 'shape = "large"', "arrays.a.shape = 'large'"),
    "a shape of nothing": ("shape = [128, 256]", "shape = [128, 0]", "shape = 0: it is at least 1"),
    "an unknown dtype": ('"float32"', '"fp8"', "arrays.c: dtype = 'fp8': the dtypes are float16"),
    "an unknown fill": ('"nan" ', '"noise" ', "arrays.c: fill = 'noise': the fills are zeros"),
    "a NaN of integers": ('"float32"', '"int32"', "arrays.c: fill = 'nan': .*dtype is int32"),
    "a count too long": (
        '"nan" ',
        '"arange" ',
        "counts to 8191, and float16 holds whole numbers up to 2048",
        '"float32"',
        '"float16"',
    ),
    "a seed that draws nothing": ('"nan" ', '"nan"\nseed = 3 ', "arrays.c.seed = 3.*draws nothing"),
    "a negative seed": ("seed = 1", "seed = -1", "arrays.a.seed = -1: it is at least 0"),
    "a file that is not there": ('fill = "nan"', 'file = "c.npy"', "no array can be read from it"),
    "a file and a seed": ('fill = "nan"', 'file = "c.npy"\nseed = 1', "leave out one of the two"),
    "expected of no array": ('array = "c"\n', 'array = "e"\n', "expect.array = 'e': there is no"),
    "expected of nothing": ('equals = "a @ b.T"\n', "", "what it is compared with"),
    "expected by a call": ('"a @ b.T"', '"exit(a)"', "an array or a product of two"),
    "expected by an unknown": ('"a @ b.T"', '"a @ x.T"', "there is no array x, there are a, b, c"),
    "expected of another shape": ('"a @ b.T"', '"b @ a.T"', r"its shape is \[64, 128\]"),
    "no product": ('"a @ b.T"', '"a @ b"', r"shapes \[128, 256\] and \[64, 256\] do not multiply"),
    "a tolerance in words": ("tolerance = 0", 'tolerance = "small"', "tolerance = 'small'"),
    "a negative tolerance": ("tolerance = 0", "tolerance = -1", "it is not negative"),
    "an unknown schedule": (
        "grid =",
        'schedules = ["fast"]\ngrid =',
        "schedules: 'fast': a schedule",
    ),
    "schedules in words": ("grid =", 'schedules = "fixed/lazy"\ngrid =', "it is a list"),
    "no seeds": ("grid =", "seeds = 0\ngrid =", "seeds = 0: it is at least 1"),
    "a skew of 8": ("grid =", "shared_skews = [8]\ngrid =", "shared_skews: 8: .*multiple of 16"),
    "a macro that is nowhere": ("grid =", "defines = { NO = 1 }\ngrid =", "never mentions NO"),
    "a macro of a fraction": ("grid =", "defines = { NO = 1.5 }\ngrid =", "defines.NO = 1.5"),
    "a cluster of nine": ("grid =", "cluster = 9\ngrid =", "9 blocks; a cluster has at most 8"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_launch_file_is_refused_with_the_way_out(capsys, tmp_path, name):
    old, new, *rest = BAD[name]
    text = LAUNCH.read_text()
    if not rest:
        text, told = old, new
    else:
        told, *more = rest
        for before, after in [(old, new), *zip(more[::2], more[1::2], strict=True)]:
            assert text.count(before) >= 1, f"the example no longer says {before!r}"
            text = text.replace(before, after, 1)
    path = tmp_path / "bad.toml"
    path.write_text(text)
    status, out, err = check(capsys, KERNEL, path, "--schedule", "fixed/lazy")
    assert (status, out) == (2, ""), out
    assert re.search(told, err, re.DOTALL), err
    if not re.search("expected a kernel|never mentions", told):
        assert err.startswith(f"error: {path}: ")


# ---- what a launch file's arrays hold -----------------------------------------------------------


def launch_with(folder: Path, text: str):
    path = folder / "launch.toml"
    path.write_text("grid = 1\nblock = 1\narguments = []\n" + text)
    return read_launch_file(path)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fill", FILLS)
def test_fills_hold_what_their_names_say(tmp_path, dtype, fill):
    text = f'arrays.x = {{ shape = [10, 20], dtype = "{dtype}", fill = "{fill}" }}\n'
    if "int" in dtype and fill in ("nan", "normal", "uniform"):
        with pytest.raises(LaunchFileError, match="no whole numbers"):
            launch_with(tmp_path, text)
        return
    if dtype == "int8" and fill == "arange":
        with pytest.raises(LaunchFileError, match="counts to 199, and int8 .* up to 127"):
            launch_with(tmp_path, text)
        return
    array = launch_with(tmp_path, text).arrays["x"]
    assert array.shape == (10, 20)
    assert array.dtype == ("uint16" if dtype == "bfloat16" else dtype)
    values = as_numbers(array, dtype).reshape(-1)
    low = 0 if dtype.startswith("uint") else -3
    assert {
        "zeros": lambda: (values == 0).all(),
        "ones": lambda: (values == 1).all(),
        "nan": lambda: numpy.isnan(values).all(),
        "arange": lambda: (values == numpy.arange(200)).all(),
        "normal": lambda: abs(values.mean()) < 0.3 and 0.8 < values.std() < 1.2,
        "uniform": lambda: -1 <= values.min() < -0.9 and 0.9 < values.max() <= 1,
        "integers": lambda: set(values) == set(range(low, low + 7)),
    }[fill]()


def test_a_seed_gives_the_same_array_again_and_another_seed_another(tmp_path):
    text = 'arrays.{} = {{ shape = [50], dtype = "float32", fill = "normal", seed = {} }}\n'
    arrays = launch_with(
        tmp_path, text.format("a", 1) + text.format("b", 1) + text.format("c", 2)
    ).arrays
    assert (arrays["a"] == arrays["b"]).all() and (arrays["a"] != arrays["c"]).any()


def test_files_lie_beside_the_launch_file(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    wanted = numpy.arange(12, dtype="uint16").reshape(3, 4)
    numpy.save(tmp_path / "x.npy", wanted)
    text = 'arrays.x = { file = "x.npy" }\narrays.y = { file = "x.npy", dtype = "bfloat16" }\n'
    launch = launch_with(tmp_path, text + 'expect = { array = "x", file = "x.npy" }\n')
    assert (launch.arrays["x"] == wanted).all()
    assert launch.expected[0].difference(wanted) == ""
    assert "x[2, 3] is 0, and x.npy has 11 there; 1 of 12" in launch.expected[0].difference(
        numpy.where(wanted == 11, 0, wanted)
    )
    for wrong, told in (('dtype = "float16"', "holds uint16"), ("shape = [4, 3]", r"\[3, 4\]")):
        with pytest.raises(LaunchFileError, match=told):
            launch_with(tmp_path, f'arrays.x = {{ file = "x.npy", {wrong} }}\n')


def test_each_run_gets_new_arrays_and_maps_over_them(tmp_path):
    launch = read_launch_file(LAUNCH)
    (arrays, args), (others, _) = launch.fresh(), launch.fresh()
    assert args[0].array is arrays["a"] and args[2] is arrays["c"]
    arrays["c"][:] = 1
    assert numpy.isnan(others["c"]).all() and numpy.isnan(launch.arrays["c"]).all()


def test_a_map_over_bfloat16_takes_its_elements_for_that(tmp_path):
    path = tmp_path / "launch.toml"
    path.write_text(
        "grid = 1\nblock = 1\n"
        'arguments = [{ map = "x", box = [8, 16], fill = "nan", swizzle = 32 }]\n'
        'arrays.x = { shape = [8, 16], dtype = "bfloat16", fill = "ones" }\n'
    )
    (described,) = read_launch_file(path).fresh()[1]
    assert (described.element_type, described.fill, described.swizzle) == ("bfloat16", "nan", 32)
    assert (described.array == 0x3F80).all()


@pytest.mark.parametrize(
    ("equals", "value"),
    [
        ("a", [[0, 1, 2], [3, 4, 5]]),
        ("b.T", [[1, 1, 1], [1, 1, 1]]),
        ("a @ e", [[0, 1, 2], [3, 4, 5]]),
        (" a@e.T ", [[0, 1, 2], [3, 4, 5]]),
        ("b.T @ f", [[9, 12, 15], [9, 12, 15]]),
    ],
)
def test_products_are_what_they_say(tmp_path, equals, value):
    numpy.save(tmp_path / "e.npy", numpy.eye(3, dtype="float16"))
    numpy.save(tmp_path / "f.npy", numpy.arange(9, dtype="float16").reshape(3, 3))
    launch = launch_with(
        tmp_path,
        f"""
        expect = {{ array = "c", equals = "{equals}" }}
        [arrays]
        a = {{ shape = [2, 3], dtype = "float16", fill = "arange" }}
        b = {{ shape = [3, 2], dtype = "bfloat16", fill = "ones" }}
        c = {{ shape = [2, 3], dtype = "bfloat16", fill = "nan" }}
        e = {{ file = "e.npy" }}
        f = {{ file = "f.npy" }}
        """,
    )
    (expected,) = launch.expected
    assert as_numbers(expected.value, "bfloat16").tolist() == value


def test_a_difference_is_measured_against_the_tolerance():
    wanted = numpy.array([1.0, numpy.nan, numpy.inf, 2.0])
    expected = Expected("c", "a", wanted, "float64", 0.5)
    assert expected.difference(wanted + 0.5) == ""
    assert "c[3] is 2.75, and a has 2" in expected.difference(wanted + [0, 0, 0, 0.75])
    assert "1 of 4" in expected.difference(numpy.array([1, 0, numpy.inf, 2]))
    assert "1 of 4" in expected.difference(numpy.array([1, numpy.nan, -numpy.inf, 2]))
    assert "1 of 4" in expected.difference(numpy.array([numpy.nan, numpy.nan, numpy.inf, 2]))


@given(strategies.floats(width=32))
def test_bfloat16_is_the_nearest_of_its_neighbours(value):
    bits = int(to_bfloat16(numpy.array([value]))[0])
    back = float(as_numbers(numpy.array([bits], numpy.uint16), "bfloat16")[0])
    if numpy.isnan(value):
        assert numpy.isnan(back)
        return
    if numpy.isinf(back):
        assert abs(value) >= 2.0**127 * (2 - 2**-8)
        return
    for neighbour in (bits - 1, bits + 1):
        if neighbour & 0x7FFF < 0x7F80 and neighbour >> 15 == bits >> 15:
            other = float(as_numbers(numpy.array([neighbour], numpy.uint16), "bfloat16")[0])
            assert abs(back - value) <= abs(other - value)
            if abs(back - value) == abs(other - value):
                assert bits % 2 == 0
