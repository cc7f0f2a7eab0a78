import json
import re
import subprocess
import sys

import pytest

import hopper.compile
from hopper.compile import (
    advisories,
    compile_cuda,
    compile_kernel,
    kernel_names,
    normalised,
    nvrtc_version,
    read_resources,
)
from hopper.errors import CacheError, CompileError, HopperError
from hopper.paths import INCLUDE, KERNELS
from hopper.sass import disassemble

COPY = """
#ifndef OFFSET
#define OFFSET 0
#endif
extern "C" __global__ void copy(const float* from, float* to) {
  to[threadIdx.x] = from[threadIdx.x + OFFSET];
}
"""


@pytest.fixture
def nvrtc_runs(monkeypatch):
    """Names of the sources that NVRTC really compiles during a test."""
    nvrtc_version()  # compiles too, once a process
    runs = []
    real = hopper.compile._run_nvrtc

    def counted(name, *rest):
        runs.append(name)
        return real(name, *rest)

    monkeypatch.setattr(hopper.compile, "_run_nvrtc", counted)
    return runs


# ---- what a Program says ------------------------------------------------------------------------


def test_a_source_text_becomes_a_program():
    program = compile_cuda(COPY)
    assert program.kernel == "copy"
    assert ".target sm_90a" in program.ptx
    assert program.cubin.startswith(b"\x7fELF")
    assert program.cubin_path.read_bytes() == program.cubin
    assert re.fullmatch(r"1[23]\.\d+\.\d+", program.nvrtc)
    assert program.nvrtc == nvrtc_version()
    assert 2 <= program.resources.registers <= 32
    assert program.resources.spill_stores == program.resources.static_shared_bytes == 0
    assert "Compile time" not in program.log
    program.require_clean()


def test_the_sass_is_counted_by_mnemonic_and_operand():
    sass = compile_cuda(COPY).sass()
    assert sass.count("LDG") == 1
    assert sass.count("STG") == 1
    assert sass.count("LDG", "R2") + sass.count("LDG", "R4") >= 1
    assert sass.count("LDG", "no such operand") == 0
    assert sum(sass.mnemonics.values()) == len(sass.instructions)


def test_a_guarded_instruction_counts_under_its_own_name():
    source = 'extern "C" __global__ void k(int* p, int n) { if (n > threadIdx.x) atomicAdd(p, n); }'
    names = compile_cuda(source).sass().mnemonics
    assert not [name for name in names if name.startswith("@")]
    assert [name for name in names if name.startswith("EXIT")]


def test_a_cubin_that_nvdisasm_rejects_is_an_error():
    with pytest.raises(HopperError, match="nvdisasm rejects a cubin of 9 bytes"):
        disassemble(b"no cubin.")


def test_missing_nvdisasm_says_what_to_install(monkeypatch):
    monkeypatch.setattr("hopper.sass.importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HopperError, match="pip install nvidia-cuda-nvdisasm"):
        disassemble(b"")


def test_defines_change_the_kernel_and_its_identity():
    plain, shifted = compile_cuda(COPY), compile_cuda(COPY, defines={"OFFSET": 3})
    assert "+12]" in shifted.ptx and "+12]" not in plain.ptx
    assert shifted.identity != plain.identity
    assert dict(shifted.defines) == {"OFFSET": 3}
    assert "OFFSET=3" in repr(shifted)


def test_a_program_cannot_be_changed():
    program = compile_cuda(COPY, defines={"OFFSET": 3})
    with pytest.raises(AttributeError):
        program.kernel = "other"
    with pytest.raises(TypeError):
        program.defines["OFFSET"] = 4


# ---- identity -----------------------------------------------------------------------------------


def test_identity_ignores_comments_line_information_and_unused_helpers():
    plain = compile_cuda(COPY)
    commented = compile_cuda(
        "// why\n\n" + COPY + "\nstatic __device__ int unused(int x) { return x + 1; }"
    )
    with_lines = compile_cuda(COPY, lineinfo=True)
    assert ".loc" in with_lines.ptx and ".loc" not in plain.ptx
    assert plain.identity == commented.identity == with_lines.identity
    assert re.fullmatch(r"[0-9a-f]{64}", plain.identity)


def test_identity_changes_with_the_launch_facts():
    fact = '#include "launch_facts.cuh"\nLAUNCH_FACT(stages, {});\n'
    one, two = (compile_cuda(fact.format(stages) + COPY) for stages in (1, 2))
    assert len({one.identity, two.identity, compile_cuda(COPY).identity}) == 3


def test_identity_changes_with_the_compiler():
    program = compile_cuda(COPY)
    other = hopper.compile.replace(
        program, ptx=program.ptx.replace(f"V{program.nvrtc}", "V13.9.99")
    )
    assert other.nvrtc == "13.9.99"
    assert other.ptx_hash == program.ptx_hash
    assert other.identity != program.identity


def test_normalised_ptx_keeps_the_code_and_nothing_else():
    text = '// head\n.version 9.0\n\n.file 1 "a.cu"\n\t.loc 1 2 3\n\tret; // done\n/* two\nlines */'
    assert normalised(text) == ".version 9.0\nret;"


# ---- entries and includes -----------------------------------------------------------------------


def test_several_kernels_need_a_name():
    two = COPY + COPY.replace("copy(", "again(").replace("#ifndef OFFSET", "#if 0")
    with pytest.raises(CompileError, match="has the kernels copy, again: expected one kernel"):
        compile_cuda(two)
    assert compile_cuda(two, "again").kernel == "again"
    with pytest.raises(CompileError, match="expected a kernel other"):
        compile_cuda(two, "other")


def test_no_kernel_at_all_is_an_error():
    with pytest.raises(CompileError, match=r"has the kernels \(none\)"):
        compile_cuda("int x;")


def test_a_kernel_file_may_include_what_lies_beside_it(tmp_path):
    (tmp_path / "mine.cuh").write_text("#define FOUR 4\n")
    source = tmp_path / "mine.cu"
    source.write_text('#include "mine.cuh"\n#include "half.cuh"\n' + COPY)
    assert compile_cuda(source, defines={"OFFSET": "FOUR"}).source_name == "mine.cu"


def test_a_header_in_the_current_folder_is_not_picked_up(tmp_path, monkeypatch):
    (tmp_path / "stray.cuh").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompileError, match='includes "stray.cuh": it is not in include'):
        compile_cuda('#include "stray.cuh"\n' + COPY)


def test_an_unreadable_source_is_an_error(tmp_path):
    with pytest.raises(CompileError, match="none.cu: the source cannot be read"):
        compile_cuda(tmp_path / "none.cu")


def test_a_define_that_nothing_mentions_is_refused():
    with pytest.raises(CompileError, match="-DOFSET=3: kernel.cu never mentions OFSET"):
        compile_cuda(COPY, defines={"OFSET": 3})


def test_an_error_in_the_source_comes_with_the_compiler_s_words():
    with pytest.raises(CompileError, match='kernel.cu(.|\n)*identifier "missing" is undefined'):
        compile_cuda('extern "C" __global__ void k() { missing(); }')


def test_an_unknown_kernel_name_lists_the_known_ones():
    assert "v1_wgmma" in kernel_names()
    with pytest.raises(CompileError, match="v9_nothing: there is no such kernel; .*v1_wgmma"):
        compile_kernel("v9_nothing")


# ---- the cache ----------------------------------------------------------------------------------


def test_a_second_compilation_comes_from_the_cache(fresh_cache, nvrtc_runs):
    first, second = compile_cuda(COPY), compile_cuda(COPY)
    assert nvrtc_runs == ["kernel.cu"]
    assert (first.ptx, first.cubin, first.log) == (second.ptx, second.cubin, second.log)
    compile_cuda(COPY, defines={"OFFSET": 1})
    compile_cuda(COPY + "\n")
    assert len(nvrtc_runs) == 3


def test_a_changed_header_is_noticed_however_deep(fresh_cache, nvrtc_runs, tmp_path):
    (tmp_path / "outer.cuh").write_text('#include "inner.cuh"\n')
    inner = tmp_path / "inner.cuh"
    source = tmp_path / "kernel.cu"
    source.write_text('#include "outer.cuh"\n' + COPY)
    inner.write_text("#define OFFSET 1\n")
    before = compile_cuda(source)
    inner.write_text("#define OFFSET 2\n")
    after = compile_cuda(source)
    assert len(nvrtc_runs) == 2
    assert "+4]" in before.ptx and "+8]" in after.ptx
    assert before.cubin_path != after.cubin_path


def test_another_compiler_does_not_reuse_the_entry(fresh_cache, nvrtc_runs, monkeypatch):
    compile_cuda(COPY)
    monkeypatch.setattr(hopper.compile, "nvrtc_version", lambda: "99.0.0")
    compile_cuda(COPY)
    assert len(nvrtc_runs) == 2


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "record", "exchange", "missing"])
def test_a_corrupt_entry_is_compiled_again(fresh_cache, nvrtc_runs, damage):
    first = compile_cuda(COPY)
    cubin, record = first.cubin_path, first.cubin_path.with_suffix(".json")
    if damage == "flip":
        cubin.write_bytes(first.cubin[:-9] + bytes([first.cubin[-9] ^ 1]) + first.cubin[-8:])
    elif damage == "truncate":
        cubin.write_bytes(first.cubin[:100])
    elif damage == "empty":
        record.write_text("")
    elif damage == "record":
        entry = json.loads(record.read_text())
        record.write_text(json.dumps(entry | {"log": entry["log"].replace("0 bytes", "9 bytes")}))
    elif damage == "exchange":
        other = compile_cuda(COPY, defines={"OFFSET": 1})
        nvrtc_runs.clear()
        nvrtc_runs.append("kernel.cu")
        cubin.write_bytes(other.cubin)
        record.write_bytes(other.cubin_path.with_suffix(".json").read_bytes())
    else:
        cubin.unlink()
    again = compile_cuda(COPY)
    assert len(nvrtc_runs) == 2
    assert again.cubin == first.cubin == cubin.read_bytes()
    assert again.log == first.log


def test_a_second_disassembly_comes_from_the_cache_unless_that_is_damaged(fresh_cache, monkeypatch):
    runs = []

    def counted(cubin: bytes):
        runs.append(cubin)
        return disassemble(cubin)

    monkeypatch.setattr(hopper.compile, "disassemble", counted)
    first, second = compile_cuda(COPY).sass(), compile_cuda(COPY).sass()
    assert len(runs) == 1 and first == second == disassemble(runs[0])
    compile_cuda(COPY, defines={"OFFSET": 1}).sass()
    assert len(runs) == 2
    (kept,) = (path for path in fresh_cache.glob("*.sass") if first.text in path.read_text())
    for damaged in (kept.read_text().replace("LDG", "LDS"), "", "\udcff"):
        kept.write_text(damaged, errors="surrogateescape")
        assert compile_cuda(COPY).sass() == first
    assert len(runs) == 5
    monkeypatch.setattr(hopper.compile, "nvdisasm_version", lambda: "99.0")
    compile_cuda(COPY).sass()
    assert len(runs) == 6


def test_an_unwritable_cache_names_the_folder_and_the_variable(tmp_path, monkeypatch):
    file = tmp_path / "a_file"
    file.write_text("")
    for folder in (file, file / "below"):
        monkeypatch.setenv("HOPPER_CACHE", str(folder))
        with pytest.raises(CacheError, match=f"{folder}: .*set HOPPER_CACHE"):
            compile_cuda(COPY)


def test_a_failed_write_is_a_cache_error_and_leaves_nothing(fresh_cache, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hopper.compile.os, "replace", full)
    with pytest.raises(CacheError, match="No space left on device.*HOPPER_CACHE"):
        compile_cuda(COPY)
    assert list(fresh_cache.iterdir()) == []


def test_the_cache_follows_xdg(tmp_path, monkeypatch):
    monkeypatch.delenv("HOPPER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compile_cuda(COPY).cubin_path.parent == tmp_path / "wgmma-book"


def test_missing_nvrtc_says_what_to_install(fresh_cache, monkeypatch):
    nvrtc_version.cache_clear()
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    with pytest.raises(CompileError, match="pip install cupy-cuda13x nvidia-cuda-nvrtc==13.0.88"):
        compile_cuda(COPY)


def test_importing_the_package_loads_neither_cupy_nor_matplotlib():
    code = "import sys, hopper; print(sorted({'cupy', 'matplotlib'} & sys.modules.keys()))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=KERNELS.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# ---- what must not be launched ------------------------------------------------------------------

SPILLS = """
extern "C" __global__ void __launch_bounds__(1024) k(float* p) {
  float x[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) x[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 128; ++i) p[i * 1024 + threadIdx.x] = x[127 - i];
}
"""
STACK = """
extern "C" __global__ void k(int* p, int n) {
  int x[64];
  for (int i = 0; i < 64; ++i) x[i] = 0;
  for (int i = 0; i < n; ++i) x[p[i] & 63] += i;
  for (int i = 0; i < n; ++i) p[i] = x[i & 63];
}
"""


def test_spills_are_refused():
    program = compile_cuda(SPILLS)
    assert program.resources.spill_stores > 0
    with pytest.raises(CompileError, match=r"must not be launched:\n(.|\n)*  - spills \d+ bytes"):
        program.require_clean()


def test_a_stack_is_refused():
    program = compile_cuda(STACK)
    assert program.resources.stack_bytes == 256
    with pytest.raises(CompileError, match="a stack of 256 bytes a thread"):
        program.require_clean()


def with_facts(shared_bytes: int, threads: int, bounds: str = "") -> str:
    stated = dict(tile_m=1, tile_n=1, tile_k=1, stages=1, cluster=1)
    stated |= dict(shared_bytes=shared_bytes, threads=threads)
    lines = "\n".join(f"LAUNCH_FACT({name}, {value});" for name, value in stated.items())
    kernel = f"""
extern "C" __global__ void {bounds} k(float* p) {{
  __shared__ float shared[256];  // 1024 static bytes
  shared[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = shared[255 - threadIdx.x];
}}"""
    return f'#include "launch_facts.cuh"\n{lines}\n{kernel}'


def test_shared_memory_is_static_and_dynamic_together():
    limit = 227 * 1024 - 1024
    fits = compile_cuda(with_facts(limit, 128))
    assert fits.resources.static_shared_bytes == 1024
    assert fits.facts.shared_bytes == limit
    fits.require_clean()
    with pytest.raises(CompileError, match=r"231425 dynamic \+ 1024 static .*has 232448"):
        compile_cuda(with_facts(limit + 1, 128)).require_clean()


def test_registers_of_all_threads_must_fit_and_all_reasons_are_named():
    log = "Compiling entry function 'k' for\n9 bytes stack frame, 8 bytes spill stores, "
    log += "4 bytes spill loads\nUsed 65 registers, used 1 barriers, 1024 bytes smem\n"
    log += "ptxas info : (C7510) serialized in function 'k'\nptxas info : (C7510) again\n"
    program = hopper.compile.replace(compile_cuda(with_facts(240000, 1024)), log=log)
    with pytest.raises(CompileError) as caught:
        program.require_clean()
    reasons = str(caught.value).split("\n  - ")[1:]
    assert [reason[:12] for reason in reasons] == [
        "C7510, 2×: s",
        "spills 8 byt",
        "240000 dynam",
        "65 registers",
    ]
    # 65 registers are handed out as 72.
    assert "65 registers × 1024 threads = 73728; an SM has 65536" in reasons[-1]


def test_facts_that_contradict_the_launch_bounds_are_refused():
    with pytest.raises(CompileError, match="threads = 128, its launch bounds say 64"):
        compile_cuda(with_facts(0, 128, "__launch_bounds__(64)")).require_clean()


def test_resources_of_one_kernel_among_several():
    log = compile_cuda(SPILLS + STACK.replace(" k(", " other("), "k").log
    assert read_resources(log, "other").stack_bytes == 256
    assert read_resources(log, "k").registers == 64
    with pytest.raises(CompileError, match="does not state the resources of third"):
        read_resources(log, "third")


def test_advisories_are_grouped_by_code():
    log = "ptxas info : (C7514) a\nother\nptxas info : (C7519) b\nptxas info : (C7514) c\n(C6000) d"
    assert advisories(log) == {"C7514": ["a", "c"], "C7519": ["b"]}
    assert advisories(compile_cuda(COPY).log) == {}


def test_headers_are_read_from_the_include_folder():
    assert (INCLUDE / "launch_facts.cuh").is_file()
    unit = compile_kernel("v1_wgmma")._unit
    assert "wgmma.cuh" in dict(unit.headers) and "wgmma_operands.cuh" in dict(unit.headers)
