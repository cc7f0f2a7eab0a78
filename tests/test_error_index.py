"""The error index is complete and true: every message is provoked and compared with its text.

The minimal kernels below are what each message of the compiler needs, and no more.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy
import pytest
from cupy.cuda import runtime

import hopper.compile
from extension.error_index import ABOUT, Message, mentions, messages, pattern, plain
from hopper.backends import Device, Look, refusal
from hopper.bench import recorded
from hopper.compile import advisories, compile_cuda, compile_kernel
from hopper.conformance import emulate
from hopper.emulator import Emulator
from hopper.emulator.__main__ import main
from hopper.emulator.hazard_kernels import HAZARD_KERNELS
from hopper.emulator.hazard_trials import Trials, trials_path
from hopper.emulator.hazards import KINDS
from hopper.errors import HopperError
from hopper.paths import ROOT, cache_dir
from hopper.records.sealed import read_sealed

_STORE = "for (int i = 0; i < 64; i++) out[threadIdx.x * 64 + i] = d[i];"
_ZERO = '_Pragma("unroll") for (int i = 0; i < 64; i++) d[i] = 0;'
_FIRST = "wgmma_f32_f16_f16<128>::ss(d, a, b, false);"
_NEXT = "wgmma_f32_f16_f16<128>::ss(d, a, b, true);"
_CLOSE = "wgmma_commit_group(); wgmma_wait_group<0>();"


def _kernel(body: str, bounds: str = "128", before: str = "") -> str:
    return (
        f'#include "wgmma.cuh"\n{before}\nextern "C" __global__ __launch_bounds__({bounds})\n'
        "void kernel(float* out, unsigned long long a, unsigned long long b, int n) {\n"
        f"{body}\n}}\n"
    )


def _ptx(instruction: str) -> str:
    registers = ".reg .b32 r<8>; .reg .b64 l<4>; .reg .f32 f<64>; .reg .pred p;"
    return (
        'extern "C" __global__ __launch_bounds__(256, 1) void kernel() '
        f'{{ asm volatile("{{{registers}\\n{instruction}\\n}}"); }}'
    )


def _wgmma(shape: str, types: str, registers: str, rest: str) -> str:
    return _ptx(f"wgmma.mma_async.sync.aligned.{shape}.{types} {{{registers}}}, l0, l1, p{rest};")


_SPILLING = _kernel(
    "float d[128], e[128]; for (int i = 0; i < 128; i++) d[i] = e[i] = 0;"
    "for (int j = 0; j < n; j++) { wgmma_fence();"
    " wgmma_f32_f16_f16<256>::ss(d, a + j, b, true);"
    f" wgmma_f32_f16_f16<256>::ss(e, a + j + 512, b, true); {_CLOSE} }}"
    "for (int i = 0; i < 128; i++) { out[threadIdx.x * 256 + i] = d[i];"
    " out[threadIdx.x * 256 + 128 + i] = e[i]; }"
)
#: What ptxas repairs or slows, by code.
REPAIRED = {
    "C7508": _kernel('asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); *out = 1;', "256"),
    "C7509": _kernel(
        f"float d[64]; out[0] = rec(n); wgmma_fence(); {_FIRST} {_CLOSE} {_STORE}",
        before="__device__ __noinline__ int rec(int n) "
        "{ return n < 2 ? 1 : rec(n - 1) + rec(n - 2); }",
    ),
    "C7510": _kernel(
        f"float d[64]; multiply(d, a, b); {_CLOSE} {_STORE}",
        before="__device__ __noinline__ void multiply(float (&d)[64], unsigned long long a, "
        f"unsigned long long b) {{ wgmma_fence(); {_FIRST} }}",
    ),
    "C7511": _SPILLING,
    "C7513": _kernel(
        f"float d[64]; unsigned A[4] = {{1, 2, 3, 4}}; {_ZERO} wgmma_fence();"
        " for (int j = 0; j < n; j++) { wgmma_f32_f16_f16<128>::rs(d, A, b, true);"
        f" for (int i = 0; i < 4; i++) A[i] = A[i] * 3 + 1; }} {_CLOSE} {_STORE}"
    ),
    "C7514": _kernel(
        f"float d[64]; wgmma_fence(); {_FIRST} out[0] = d[3]; {_NEXT} {_CLOSE} {_STORE}"
    ),
    "C7515": _kernel(
        f"float d[64]; {_ZERO} wgmma_fence(); for (int j = 0; j < n; j++) {{ {_NEXT}"
        f" if (j & 1) wgmma_wait_group<0>(); }} {_CLOSE} {_STORE}"
    ),
    "C7517": _kernel(f"float d[64]; wgmma_fence(); {_FIRST} wgmma_commit_group(); {_STORE}"),
    "C7518": _kernel(
        "float d[64]; if (threadIdx.x >= 128) { out[0] = 1; return; }"
        f" wgmma_fence(); {_FIRST} wgmma_commit_group(); {_STORE}",
        "256",
    ),
    "C7519": _kernel(
        f"float d[64]; for (int i = 0; i < 64; i++) d[i] = out[i]; {_NEXT} {_CLOSE} {_STORE}"
    ),
    "C7520": _kernel(
        "float d[64]; for (int i = 0; i < 64; i++) d[i] = out[i];"
        f" if (out[threadIdx.x] > 0) {{ {_NEXT} wgmma_commit_group(); }} {_STORE}"
    ),
}
_FOUR = "f0, f1, f2, f3"
#: What does not compile.
REFUSED = {
    "C7602": _kernel(
        "float d[128]; for (int i = 0; i < 128; i++) d[i] = 0; wgmma_fence();"
        " for (int j = 0; j < n; j++) { wgmma_f32_f16_f16<256>::ss(d, a + j, b, true);"
        f" {_CLOSE} }}"
        " for (int i = 0; i < 128; i++) out[threadIdx.x * 128 + i] = d[i];",
        "512",
    ),
    "C7406": _ptx("setmaxnreg.dec.sync.aligned.u32 240;").replace("(256, 1)", "(1024, 1)"),
    "setmaxnreg: multiple of 8": _ptx("setmaxnreg.dec.sync.aligned.u32 100;"),
    "setmaxnreg: range": _ptx("setmaxnreg.inc.sync.aligned.u32 264;"),
    "Illegal matrix shape": _wgmma("m64n40k32", "s32.s8.s8", "r0, r1, r2, r3", ""),
    "Unknown modifier": _wgmma("m64n12k16", "f32.f16.f16", _FOUR, ", 1, 1, 0, 0"),
    "Unexpected instruction types": _wgmma("m64n8k16", "f16.bf16.bf16", "r0, r1", ", 1, 1, 0, 0"),
    "Arguments mismatch": _wgmma("m64n8k8", "f32.tf32.tf32", _FOUR, ", 1, 1, 0, 0"),
    "Argument vector size mismatch": _wgmma("m64n16k16", "f32.f16.f16", _FOUR, ", 1, 1, 0, 0"),
    "expected to be -1 or 1": _wgmma("m64n8k16", "f32.f16.f16", _FOUR, ", 0, 1, 0, 0"),
    "uses too much shared data": 'extern "C" __global__ void kernel(int* o) {'
    " __shared__ int s[60000]; s[threadIdx.x] = 1; __syncthreads(); o[0] = s[o[1]]; }",
    "could not open source file": '#include <cuda_fp16.h>\nextern "C" __global__ void kernel() {}',
    "__grid_constant__": "struct M { int a[4]; };\n"
    'extern "C" __global__ void kernel(__grid_constant__ M m, int* o) { o[0] = m.a[0]; }',
    "incomplete type wgmma": _kernel("float d[10]; wgmma_f32_f16_f16<20>::ss(d, a, b, true);"),
}


def _said(act: Callable[[], object]) -> str:
    with pytest.raises(HopperError) as found:
        act()
    return str(found.value)


def _launch(source: str, block: int = 1, **how) -> str:
    program = compile_cuda(source, "kernel")
    return _said(lambda: Emulator().launch(program.ptx, "kernel", 1, block, **how))


_NOTHING = 'extern "C" __global__ __launch_bounds__(128) void kernel() {}'


def _facts(**others: int) -> str:
    stated = dict(tile_m=1, tile_n=1, tile_k=1, stages=1, cluster=1, threads=128) | others
    return "".join(f"LAUNCH_FACT({name}, {value});\n" for name, value in stated.items())


#: What the package says, and how to make it say it.
PROVOKED: dict[str, Callable[[pytest.MonkeyPatch, Path], str]] = {
    "not supported on .target": lambda patch, folder: _said(
        lambda: hopper.compile._run_nvrtc(
            "kernel.cu", _ptx("wgmma.fence.sync.aligned;"), (), ("--gpu-architecture=sm_90",)
        )
    ),
    "must not be launched": lambda patch, folder: _said(
        compile_cuda(_SPILLING, "kernel").require_clean
    ),
    "ptxas changed what the source says": lambda patch, folder: _said(
        compile_cuda(REPAIRED["C7519"], "kernel").require_clean
    ),
    "spills": lambda patch, folder: _said(compile_cuda(_SPILLING, "kernel").require_clean),
    "a stack of bytes a thread": lambda patch, folder: _said(
        compile_cuda(
            'extern "C" __global__ void kernel(int* o, int n) { int s[64] = {};'
            " for (int i = 0; i < n; i++) s[o[i] & 63] += i;"
            " for (int i = 0; i < n; i++) o[i] = s[i & 63]; }",
            "kernel",
        ).require_clean
    ),
    "dynamic + static bytes of shared memory": lambda patch, folder: _said(
        compile_cuda(
            '#include "launch_facts.cuh"\n' + _facts(shared_bytes=262144) + _NOTHING,
            "kernel",
        ).require_clean
    ),
    "never mentions": lambda patch, folder: _said(lambda: compile_kernel("v1_wgmma", TILES_M=64)),
    "there is no such kernel": lambda patch, folder: _said(lambda: compile_kernel("v9")),
    "a multiple of 16, which TMA requires": lambda patch, folder: _said(
        lambda: hopper.Problem(128, 128, 100)
    ),
    "both are stored with K last": lambda patch, folder: _said(
        lambda: hopper.gemm(compile_kernel("v1_wgmma"), _halves(128, 64), _halves(32, 128))
    ),
    "WRONG: compared": lambda patch, folder: _said(
        lambda: hopper.check(_halves(64, 64), *hopper.Problem(64, 64, 64).inputs())
    ),
    "no recording of this variant": lambda patch, folder: _said(
        lambda: recorded("v1_wgmma", hopper.Problem(72, 72, 72))
    ),
    "altered since it was recorded": lambda patch, folder: _altered(folder),
    "There is no NVIDIA driver here": lambda patch, folder: refusal(Look(13)),
    "is compute capability": lambda patch, folder: refusal(
        Look(13, (13, 0), devices=(Device("NVIDIA L4", (8, 9)),))
    ),
    "is a MIG slice": lambda patch, folder: refusal(
        Look(13, (13, 0), devices=(Device("NVIDIA H100 80GB HBM3 MIG 1g.10gb", (9, 0)),))
    ),
    "The NVIDIA driver supports CUDA": lambda patch, folder: refusal(Look(13, (12, 4))),
    "NVRTC cannot be loaded": lambda patch, folder: _without_nvrtc(patch),
    "the cache of compiled kernels must be a folder that you can write": lambda patch, folder: (
        _without_cache(patch, folder)
    ),
    "LaunchError": lambda patch, folder: _launch(_NOTHING, 256),
    "PtxError": lambda patch, folder: "\n".join(
        _said(lambda text=text: Emulator().launch(text, "kernel", 1, 1))
        for text in (
            ".version 9.0\n.target sm_80\n",
            compile_cuda("__global__ void kernel(float*) {}").ptx,
        )
    ),
    "Unsupported": lambda patch, folder: _launch(
        _ptx("tensormap.replace.tile.global_address.global.b1024.b64 [l0], l1;")
    ),
    "wrong-result": lambda patch, folder: _checked(
        folder, "out[threadIdx.x] = 1;", "[expect]\narray = 'out'\nequals = 'out'"
    ),
    "result-varies": lambda patch, folder: _checked(
        folder, "for (int i = 0; i < 128; i++) out[i] = threadIdx.x / 32;"
    ),
}


def _halves(*shape: int) -> numpy.ndarray:
    return numpy.zeros(shape, numpy.float16)


def _altered(folder: Path) -> str:
    path = folder / "trials.json"
    path.write_text(trials_path().read_text().replace('"cells": 1,', '"cells": 2,', 1))
    return _said(lambda: read_sealed(path, Trials))


def _without_nvrtc(patch: pytest.MonkeyPatch) -> str:
    patch.setitem(sys.modules, "cupy.cuda", None)
    return _said(hopper.compile._import_nvrtc)


def _without_cache(patch: pytest.MonkeyPatch, folder: Path) -> str:
    (folder / "file").write_text("")
    patch.setenv("HOPPER_CACHE", str(folder / "file"))
    return _said(cache_dir)


def _checked(folder: Path, body: str, expect: str = "") -> str:
    """What the check command prints of a kernel of 128 threads that writes 128 integers."""
    kernel, launch = folder / "mine.cu", folder / "mine.toml"
    kernel.write_text(f'extern "C" __global__ void mine(int* out) {{ {body} }}\n')
    launch.write_text(
        "grid = 1\nblock = 128\narguments = [{ array = 'out' }]\n"
        f"[arrays.out]\nshape = [128]\ndtype = 'int32'\nfill = 'zeros'\n{expect}\n"
    )
    with redirect_stdout(StringIO()) as out:
        main(["check", str(kernel), "--launch", str(launch)])
    return out.getvalue()


def _hazards(kind: str) -> str:
    """All that the emulator says of the kernels that break a rule."""
    told = []
    for kernel in HAZARD_KERNELS:
        if kernel.kind == kind:
            for step_limit in (20_000, 3) if kind == "never-ends" else (20_000,):
                emulator = Emulator(on_hazard="collect", step_limit=step_limit)
                _, run = emulate(kernel.case(False), emulator)
                told += [found.message for found in run.hazards if found.kind == kind]
    return "\n".join(told)


def _provoked(message: Message, patch: pytest.MonkeyPatch, folder: Path) -> str:
    match message.section:
        case "repairs" if message.name == "C7512":
            return compile_kernel("v1_wgmma", TILE_M=128, TILE_N=232).log
        case "repairs":
            return compile_cuda(REPAIRED[message.name], "kernel").log
        case "compiler" if message.name in REFUSED:
            return _said(lambda: compile_cuda(REFUSED[message.name], "kernel"))
        case "driver":
            return f"{message.name}\n{runtime.CUDARuntimeError(message.code)}"
        case "make":
            return (ROOT / "scripts/venv.sh").read_text()
        case "rules":
            return _hazards(message.name)
    return PROVOKED[message.name](patch, folder)


@pytest.mark.parametrize("message", messages(), ids=lambda message: message.name)
def test_a_message_is_printed_as_the_index_shows_it(message, monkeypatch, tmp_path):
    said = _provoked(message, monkeypatch, tmp_path)
    for text in message.texts:
        assert pattern(text).search(said), f"{plain(text)}\n--- was said:\n{said}"


_WRITTEN = f"float d[64]; wgmma_fence(); {_FIRST} {_CLOSE} {_STORE}"
_HALF = "if (threadIdx.x >= 128) { out[0] = 1; return; } "
_FAR = "__device__ __noinline__ float far(float x) { return x * x + 1; }"


@pytest.mark.parametrize(
    ("body", "bounds", "before"),
    [
        # The way out of C7520 and of C7518 is enough, in a branch as well.
        (_HALF + _WRITTEN, "256", ""),
        # C7510 comes of no call of a function that is not inlined as such.
        ("out[0] = far(out[1]); " + _WRITTEN, "128", _FAR),
        (_WRITTEN + " out[0] = far(out[1]);", "128", _FAR),
    ],
)
def test_what_the_ways_out_allow_is_clean(body, bounds, before):
    program = compile_cuda(_kernel(body, bounds, before), "kernel")
    assert advisories(program.log) == {}
    assert not before or any("CALL" in line for line in program.sass().instructions)


@pytest.mark.parametrize("code", REPAIRED)
def test_a_minimal_kernel_provokes_its_own_message(code):
    assert code in advisories(compile_cuda(REPAIRED[code], "kernel").log)


def test_what_varies_may_vary_and_nothing_else():
    found = pattern("line {50} of {kernel}: wrong")
    assert plain("line {50} of {kernel}: wrong") == "line 50 of kernel: wrong"
    assert found.search("ptxas: line 7\n of mine: wrong")
    assert not found.search("line 7 of mine: right")
    assert not found.search("line 7 in mine: wrong")


# ---- complete -----------------------------------------------------------------------------------


def _texts(*globs: str) -> str:
    return "\n".join(
        path.read_text(encoding="utf-8", errors="ignore")
        for glob in globs
        for path in ROOT.glob(glob)
        if path.is_file() and ".ipynb_checkpoints" not in path.parts
    )


PAGES = ("chapters/*.md", "docs/*.md", "README.md", "index.md")
CODE = ("kernels/**/*.cu*", "hopper/**/*.py", "hopper/**/*.toml", "examples/**/*.*")
NAMES = {message.name for message in messages()}


def test_every_code_of_the_compiler_that_the_book_mentions_is_there():
    built = ("_build/html/**/*.html", "_build/page/**/*.html")
    mentioned = set(re.findall(r"\bC7\d{3}\b", _texts(*PAGES, *CODE, "results/**/*.json", *built)))
    assert {"C7517", "C7519", "C7512", "C7508"} <= mentioned
    assert mentioned - {"C7000"} <= NAMES


def test_every_rule_of_the_emulator_is_there():
    assert [one.name for one in messages() if one.section == "rules"] == list(KINDS)


def test_every_error_of_the_driver_that_the_book_mentions_is_there():
    mentioned = set(re.findall(r"\bCUDA_ERROR_\w+", _texts(*PAGES, *CODE)))
    assert "CUDA_ERROR_ILLEGAL_INSTRUCTION" in mentioned
    assert mentioned <= NAMES


def test_what_the_setup_page_helps_with_is_there():
    table = (ROOT / "docs/setup.md").read_text().partition("## When something does not work")[2]
    seen = re.findall(r"^\| (?!You see)([^|]+?) \|", table, re.MULTILINE)
    assert len(seen) > 8
    known = " ".join(plain(text) for message in messages() for text in message.texts)
    # A page's traceback is any error; a kernel that never ends prints none.
    others = {"a page fails with a traceback", "The CUDA kernels never finish"}
    for words in set(seen) - others:
        assert pattern(re.sub(r"\d+\.\d+", "{1}", words)).search(known), words


def test_errors_that_the_emulators_page_lists_are_there():
    table = (ROOT / "docs/emulator.md").read_text().partition("## When something is wrong")[2]
    listed = set(re.findall(r"^\| `(\w+)` \|", table.partition("\n## ")[0], re.MULTILINE))
    # These are the rules themselves, by kind.
    assert listed - {"Fault", "Deadlock", "StepLimit", "HazardError"} <= NAMES
    assert {"fault", "deadlock", "never-ends"} <= NAMES


def test_names_and_anchors_differ_and_pages_exist():
    assert len(NAMES) == len(messages()) == len({message.anchor for message in messages()})
    pages = {name for message in messages() for name in message.see}
    pages |= {name for names in ABOUT.values() for name in names}
    for name in pages:
        assert (ROOT / f"{name}.md").is_file(), name
    sections = re.findall(r"```\{error-index\} ([\w-]+)", (ROOT / "docs/errors.md").read_text())
    assert sections == list(dict.fromkeys(message.section for message in messages()))


def test_a_cause_and_a_way_out_stand_beside_every_message():
    for message in messages():
        has = bool(message.cause) and bool(message.help)
        assert has != (message.section == "rules"), message.name


def test_a_page_that_names_a_message_is_found():
    by_name = {message.name: message for message in messages()}
    assert mentions(by_name["C7519"], "The compiler says C7519, twice.")
    assert not mentions(by_name["C7519"], "C75190")
    assert mentions(by_name["fault"], "It is a `fault` then.")
    assert not mentions(by_name["fault"], "It is nobody's fault.")


# ---- built --------------------------------------------------------------------------------------


def test_the_search_leads_to_a_message_and_pages_link_to_it(tmp_path):
    pages = "docs/errors.md,docs/reference_tma.md"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "--quiet", "--fail-on-warning"]
        + ["-D", f"include_patterns={pages}", "-D", "root_doc=docs/errors"]
        + ["-D", "suppress_warnings=toc,myst,bibtex,ref", ROOT, tmp_path],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "docs/errors.html").read_text()
    for message in messages():
        assert page.count(f'id="{message.anchor}"') == 1, message.name
    index = (tmp_path / "searchindex.js").read_text()
    assert all(f'"{message.name}"' in index for message in messages() if "." not in message.name)
    linked = (tmp_path / "docs/reference_tma.html").read_text()
    assert 'href="errors.html#message-expect-tx"' in linked
