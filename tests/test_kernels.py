"""Each kernel of the book: what it compiles to, and, with a Hopper GPU, whether it is right."""

import re
import shutil
import subprocess
from dataclasses import dataclass

import pytest

from hopper.check import Comparison, check
from hopper.compile import Program, advisories, compile_cuda, compile_kernel, kernel_names
from hopper.errors import CompileError, ProblemError
from hopper.gemm import Problem, gemm
from hopper.layout.copying import COPIES
from hopper.paths import INCLUDE, KERNELS
from hopper.plans import PLANS

# Configurations that a page shows; {} is what the file itself states.
CONFIGURATIONS = {
    "bank_conflicts": [{}, {"ACCESS_BYTES": 4}, {"ACCESS_BYTES": 8}, {"LDMATRIX": 1}],
    "ceiling": [
        {"TILE_N": n, "A_FROM_REGISTERS": flag}
        for n in (8, 64, 72, 128, 136, 256)
        for flag in (0, 1)
    ],
    "chip": [{}, *({"CLUSTER": size} for size in (3, 8))],
    "fragment_map": [
        {},
        {"PACKED_SUMS": 1},
        {"TILE_N": 256},
        {"TILE_N": 256, "PACKED_SUMS": 1},
        {"TILE_N": 16, "A_FROM_REGISTERS": 1},
    ],
    "layout_copy": [{}, *(one.defines for one in COPIES.values())],
    "one_wgmma": [{}, *({"TILE_N": n} for n in (8, 40, 128, 256))],
    "protocol_loop": [{}, {"TILE_N": 8}, {"TILE_N": 96, "REPEAT": 16}],
    "rs_wgmma": [{}, {"TILE_N": 8}],
    "store_tile": [{"TILE_N": n, "WAY": way} for n in (64, 256) for way in (1, 2)],
    "descriptor_probe": [{"TEST_A": a, "MN_MAJOR": mn} for a in (0, 1) for mn in (0, 1)],
    "tma_copy": [{"SWIZZLE": span} for span in (0, 32, 64, 128)],
    "tma_multicast": [{}, {"CLUSTER_SCOPE": 0}, {"MULTICAST": 0}],
    "tma_reduce": [{"WAY": way} for way in (0, 1, 2)],
    "tma_ring": [
        {"STAGES": stages, "BOX_M": rows} for stages, rows in ((1, 16), (4, 64), (12, 128))
    ],
    "tma_swizzle": [{}],
    "wgmma_modes": [
        {"TILE_N": n, "A_MN": a, "B_MN": b} for n, a, b in ((64, 0, 0), (128, 1, 1), (256, 0, 1))
    ],
    "v0_mma_sync": [
        {},
        {"TILE_M": 64, "TILE_N": 64},
        {"TILE_M": 64, "TILE_N": 256},
        {"TILE_M": 96, "TILE_N": 128},
        {"TILE_M": 128, "TILE_N": 192},
        {"TILE_M": 256, "TILE_N": 64},
    ],
    "v1_wgmma": [
        {},
        {"TILE_M": 64, "TILE_N": 64},
        {"TILE_M": 64, "TILE_N": 128},
        {"TILE_M": 64, "TILE_N": 256},
        {"TILE_M": 128, "TILE_N": 64},
        {"TILE_M": 192, "TILE_N": 64},
    ],
    "v2_ring": [
        {},
        {"BF16": 1},
        {"STAGES": 1},
        {"STAGES": 7},
        {"TILE_M": 64, "TILE_N": 256, "STAGES": 3},
    ],
    "v3_specialized": [
        {},
        {"BF16": 1},
        {"STAGES": 1},
        {"STAGES": 6},
        {"TILE_M": 64, "TILE_N": 256, "STAGES": 2},
    ],
    "v4_two_consumers": [
        {},
        {"BF16": 1},
        {"STAGES": 1},
        {"RASTER": 0},
        {"RASTER": 1},
        {"TILE_M": 256, "TILE_N": 128},
        {"TILE_M": 256, "TILE_N": 192},
    ],
    "v5_in_flight": [
        {},
        {"BF16": 1},
        {"STAGES": 2},
        {"RASTER": 0},
        {"RASTER": 1},
        {"TILE_M": 256, "TILE_N": 128},
        {"TILE_M": 256, "TILE_N": 192},
    ],
    "v6_fp16_acc": [
        {},
        {"STAGES": 2},
        {"RASTER": 0},
        {"TILE_M": 128, "TILE_N": 256},
        {"TILE_M": 192, "TILE_N": 128},
        {"TILE_M": 256, "TILE_N": 64},
    ],
    "v7_persistent": [
        {},
        {"BF16": 1},
        {"TURN": 0},
        {"STAGES": 2},
        {"TILE_M": 128, "TILE_N": 192},
        {"TILE_M": 256, "TILE_N": 128},
        {"TILE_M": 256, "TILE_N": 192, "STAGES": 3},
    ],
    "v8_multicast": [
        {},
        {"BF16": 1},
        {"SHARE_A": 1},
        {"CLUSTER_SCOPE": 1},
        {"TILE_M": 256, "TILE_N": 128, "SHARE_A": 1},
        {"TILE_M": 256, "TILE_N": 192, "STAGES": 3, "SHARE_A": 1},
    ],
    "v9_stream_k": [
        {},
        {"BF16": 1},
        {"STREAM": 0},
        {"ALTERNATE": 0},
        {"TURN": 1},
        {"TILE_M": 128, "TILE_N": 256, "STAGES": 4, "SHARE_A": 0},
    ],
}
# Instructions without which a kernel is not what its chapter says.
EXPECTED = {
    "bank_conflicts": ["LDS", "STS", "CS2R"],
    "descriptor_probe": ["HGMMA", "FENCE", "STS"],
    "tma_copy": ["ELECT", "UTMALDG", "UTMASTG", "UTMACMDFLUSH", "SYNCS"],
    "tma_multicast": ["ELECT", "UTMALDG", "UCGABAR", "SYNCS", "LDS"],
    "tma_reduce": ["UTMALDG", "SYNCS"],
    "tma_ring": ["ELECT", "UTMALDG", "SYNCS", "LDS"],
    "tma_swizzle": ["UTMALDG", "SYNCS", "STS", "LDS"],
    "wgmma_modes": ["HGMMA", "FENCE", "STS", "CS2R"],
    "ceiling": ["HGMMA", "UTMALDG", "SYNCS", "CS2R"],
    "chip": ["ATOMG", "CS2R", "STG"],
    "fragment_map": ["HGMMA", "FENCE", "STS", "STG"],
    "layout_copy": ["LDG", "STG"],
    "one_wgmma": ["HGMMA", "FENCE", "STS", "STG"],
    "protocol_loop": ["HGMMA", "UTMALDG", "SYNCS", "FENCE", "STS"],
    "rs_wgmma": ["HGMMA", "FENCE", "I2F"],
    "store_tile": ["STSM", "LDS", "STG", "CS2R"],
    "v0_mma_sync": ["HMMA", "LDSM", "UTMALDG", "SYNCS"],
    "v1_wgmma": ["HGMMA", "UTMALDG", "SYNCS"],
    "v2_ring": ["HGMMA", "UTMALDG", "SYNCS", "BAR.SYNC"],
    "v3_specialized": ["HGMMA", "UTMALDG", "SYNCS", "ELECT"],
    "v4_two_consumers": ["HGMMA", "UTMALDG", "SYNCS", "ELECT", "USETMAXREG"],
    "v5_in_flight": ["HGMMA", "UTMALDG", "SYNCS", "ELECT", "USETMAXREG"],
    "v6_fp16_acc": [
        *("HGMMA", "UTMALDG", "SYNCS", "ELECT", "USETMAXREG"),
        *("STSM", "FENCE", "UTMASTG", "BAR.SYNC", "BAR.ARV"),
    ],
    "v7_persistent": ["HGMMA", "UTMALDG", "SYNCS", "ELECT", "USETMAXREG", "STSM", "UTMASTG"],
    "v8_multicast": ["HGMMA", "UTMALDG", "UCGABAR", "USETMAXREG", "STSM", "UTMASTG"],
    "v9_stream_k": ["HGMMA", "UTMALDG", "UBLKCP", "UCGABAR", "USETMAXREG", "STSM", "UTMASTG"],
}
WGMMA_DEPTH = 16  # of K, for 16-bit types
# Warpgroups that bring tiles and multiply nothing.
PRODUCERS = {"protocol_loop": 1} | dict.fromkeys(
    [kernel for kernel in CONFIGURATIONS if re.match(r"v[4-9]_", kernel)], 1
)

every_kernel = pytest.mark.parametrize("kernel", kernel_names())
every_configuration = pytest.mark.parametrize(
    ("kernel", "defines"),
    [(kernel, defines) for kernel in kernel_names() for defines in CONFIGURATIONS[kernel]],
    ids=str,
)
# Those of the ladder, which multiply matrices of any size; the others show one thing each.
GEMMS = [kernel for kernel in kernel_names() if PLANS[kernel].problems]
every_gemm = pytest.mark.parametrize("kernel", GEMMS)
every_gemm_configuration = pytest.mark.parametrize(
    ("kernel", "defines"),
    [(kernel, defines) for kernel in GEMMS for defines in CONFIGURATIONS[kernel]],
    ids=str,
)


# ---- what is compiled ---------------------------------------------------------------------------


@every_configuration
def test_a_published_configuration_compiles_clean(kernel, defines):
    program = compile_kernel(kernel, **defines)
    assert program.kernel == kernel
    assert advisories(program.log) == {}
    program.require_clean()
    assert program.resources.registers <= 255
    assert program.resources.spill_stores == program.resources.stack_bytes == 0
    for macro, value in defines.items():
        if macro.startswith("TILE"):
            assert getattr(program.facts, macro.lower()) == value


@every_configuration
def test_the_instructions_are_those_of_the_chapter(kernel, defines):
    program = compile_kernel(kernel, **defines)
    sass, facts = program.sass(), program.facts
    for mnemonic in EXPECTED[kernel]:
        assert sass.count(mnemonic), f"{kernel} has no {mnemonic}"
    assert sass.count("LDL") == sass.count("STL") == 0
    if "HGMMA" not in EXPECTED[kernel]:
        assert sass.count("HGMMA") == 0
        return
    # The last instruction of a group carries gsb0. A stage is one group; how often the compiler
    # unrolled the loop over stages is its own business.
    warpgroups = facts.threads // 128 - PRODUCERS.get(kernel, 0)
    a_stage = facts.tile_m // 64 // warpgroups * facts.tile_k // WGMMA_DEPTH
    a_stage *= defines.get("REPEAT", 1)
    groups = sass.count("HGMMA", "gsb0")
    assert groups >= 1
    if kernel == "v9_stream_k" and facts.b_box[0] == 64:  # it has tiles of two shapes
        wide, rest = (sass.count(f"HGMMA.64x{n}x16") for n in (192, 256))
        assert wide == 2 * rest > 0 and wide + rest == sass.count("HGMMA")
        return
    assert sass.count("HGMMA") == a_stage * groups


@every_kernel
def test_the_kernel_needs_nothing_but_its_own_headers(kernel):
    program = compile_kernel(kernel)
    assert "#include <" not in (KERNELS / f"{kernel}.cu").read_text()
    assert f".visible .entry {kernel}(" in program.ptx


# CI has no nvcc, and a test that is skipped there would count as one that passed; so this one
# exists only where it can run.
if shutil.which("nvcc"):

    @every_kernel
    def test_nvcc_compiles_the_file_as_it_is(kernel, tmp_path):
        command = ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-std=c++17"]
        command += [f"-I{INCLUDE}", "-Werror=all-warnings", "-cubin", "-o", tmp_path / "out.cubin"]
        done = subprocess.run(
            [*command, KERNELS / f"{kernel}.cu"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "C7" not in done.stderr


# ---- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left_out", "code"),
    [("    wgmma_fence();\n", "C7519"), ("    wgmma_wait_group<0>();\n", "C7517")],
)
def test_a_missing_fence_or_wait_is_repaired_by_ptxas_and_reported_here(left_out, code):
    source = (KERNELS / "v1_wgmma.cu").read_text()
    assert source.count(left_out) == 1
    broken = compile_cuda(source.replace(left_out, ""))
    assert set(advisories(broken.log)) == {code}
    with pytest.raises(CompileError, match=code):
        broken.require_clean()
    compile_cuda(source).require_clean()


def test_accumulators_touched_between_wgmmas_are_reported():
    source = (KERNELS / "v1_wgmma.cu").read_text()
    wait = "    wgmma_wait_group<0>();\n"
    early = source.replace(wait, "    d[0][0] += 1.0f;\n" + wait)
    found = advisories(compile_cuda(early).log)
    assert found and all(code.startswith("C75") for code in found)


SPILLING = """
#include "wgmma.cuh"
extern "C" __global__ void __launch_bounds__(128) cliff(float* c, unsigned long long a,
                                                        unsigned long long b, int steps) {
  float d[2][128];  // a 128×256 tile in one warpgroup: 256 accumulators a thread
  for (int step = 0; step < steps; ++step) {
    wgmma_fence();
    for (int i = 0; i < 2; ++i) wgmma_f32_f16_f16<256>::ss(d[i], a + i + step, b + step, step > 0);
    wgmma_commit_group();
    wgmma_wait_group<0>();
  }
  for (int i = 0; i < 256; ++i) c[i * 128 + threadIdx.x] = d[i / 128][i % 128];
}
"""


def test_a_tile_of_128_by_256_in_one_warpgroup_spills_and_is_refused():
    program = compile_cuda(SPILLING)
    assert program.resources.registers == 255
    with pytest.raises(CompileError) as caught:
        program.require_clean()
    assert re.search(
        r"spills \d+ bytes of stores and \d+ of loads at 255 registers", str(caught.value)
    )
    assert "use a smaller tile a warpgroup" in str(caught.value)


@pytest.mark.parametrize(
    ("defines", "rule"),
    [
        ({"TILE_M": 100}, "whole number of 64-row instructions"),
        ({"TILE_N": 100}, "a multiple of 8 up to 256"),
        ({"TILE_M": 128, "TILE_N": 256}, "48 KB"),
    ],
)
def test_a_tile_that_breaks_a_rule_of_v1_does_not_compile(defines, rule):
    with pytest.raises(CompileError, match=rule):
        compile_kernel("v1_wgmma", **defines)


# ---- the wgmma wrappers -------------------------------------------------------------------------

EVERY_N = range(8, 257, 8)
INTEGER_N = [8, 16, 24, *range(32, 257, 16)]


@dataclass(frozen=True)
class Form:
    """A wgmma of one combination of types; ``packed`` accumulators hold two f16 a register."""

    types: str  # as in PTX: accumulator, A, B
    k: int
    sizes: range | list[int]
    register: str = "float"
    packed: bool = False
    transposable: bool = False
    satfinite: bool = False

    @property
    def wrapper(self) -> str:
        return "wgmma_" + self.types.replace(".", "_") + "_satfinite" * self.satfinite

    @property
    def integer(self) -> bool:
        return self.register == "int"

    def registers(self, n: int) -> int:
        return n // 4 if self.packed else n // 2

    def modifiers(self, operand_a: str) -> list[int]:
        """What follows scale-d: signs of A and B, then transposition where there is any.

        Every value differs from its default, and neighbours differ from one another.
        """
        if self.integer:
            return []
        signs = [-1, 1]
        if not self.transposable:
            return signs
        return [*signs, 1, 0] if operand_a == "ss" else [*signs, 1]


FP8 = ["e4m3", "e5m2"]
INT8 = ["s8", "u8"]
FORMS = [
    Form("f32.f16.f16", 16, EVERY_N, transposable=True),
    Form("f16.f16.f16", 16, EVERY_N, "unsigned", packed=True, transposable=True),
    Form("f32.bf16.bf16", 16, EVERY_N, transposable=True),
    Form("f32.tf32.tf32", 8, EVERY_N),
    *(Form(f"f32.{a}.{b}", 32, EVERY_N) for a in FP8 for b in FP8),
    *(Form(f"f16.{a}.{b}", 32, EVERY_N, "unsigned", packed=True) for a in FP8 for b in FP8),
    *(
        Form(f"s32.{a}.{b}", 32, INTEGER_N, "int", satfinite=satfinite)
        for a in INT8
        for b in INT8
        for satfinite in (False, True)
    ),
]


def wrapper_kernels(form: Form) -> str:
    """A kernel for each N that issues the instruction with A in shared memory and in registers.

    Nothing is computed: what matters is which instruction a wrapper issues, and that ptxas
    accepts it.
    """
    source = ['#include "wgmma.cuh"']
    for n in form.sizes:
        calls = ""
        for operand, a in (("ss", "desc_a"), ("rs", "a")):
            arguments = ", ".join(str(value) for value in form.modifiers(operand))
            template = f"<{arguments}>" if arguments else ""
            calls += f"  {form.wrapper}<{n}>::{operand}{template}(d, {a}, desc_b, false);\n"
        source.append(
            f'extern "C" __global__ void n{n}({form.register}* out, const unsigned* in,\n'
            f"    unsigned long long desc_a, unsigned long long desc_b) {{\n"
            f"  const unsigned a[4] = {{in[0], in[1], in[2], in[3]}};\n"
            f"  {form.register} d[{form.registers(n)}];\n"
            f"{calls}  wgmma_commit_group(); wgmma_wait_group<0>(); *out = d[0]; }}\n"
        )
    return "\n".join(source)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.wrapper)
def test_every_wrapper_issues_exactly_its_instruction(form):
    ptx = compile_cuda(wrapper_kernels(form), "n8").ptx
    issued = re.findall(r"wgmma\.mma_async\S* [^;]*;", ptx)
    expected = []
    for n in form.sizes:
        for operand in ("ss", "rs"):
            opcode = f"wgmma.mma_async.sync.aligned.m64n{n}k{form.k}.{form.types}"
            opcode += ".satfinite" * form.satfinite
            modifiers = "".join(f", {value}" for value in form.modifiers(operand))
            a_registers = 4 if operand == "rs" else 0
            expected.append((opcode, form.registers(n), a_registers, f"p{modifiers};"))
    assert [described(line) for line in issued] == expected


def described(line: str) -> tuple[str, int, int, str]:
    """Opcode, distinct D registers, distinct A registers (0: a descriptor), what follows B."""
    opcode, rest = line.split(" ", 1)
    d, rest = re.fullmatch(r"\{([^}]*)\}, (.*)", rest).groups()
    a, rest = re.fullmatch(r"(\{[^}]*\}|%rd\d+), (.*)", rest).groups()
    _, after_b = re.fullmatch(r"(%rd\d+), (.*)", rest).groups()
    a_registers = len(set(re.findall(r"%\w+", a))) if a.startswith("{") else 0
    return opcode, len(set(re.findall(r"%\w+", d))), a_registers, after_b


def test_an_n_that_the_instruction_does_not_have_is_refused_by_the_compiler():
    source = '#include "wgmma.cuh"\nextern "C" __global__ void k() {{ {}::ss({}, 0, 0, true); }}'
    for call, d in (("wgmma_f32_f16_f16<12>", "float"), ("wgmma_s32_s8_s8<40>", "int")):
        with pytest.raises(CompileError, match="incomplete type"):
            compile_cuda(source.format(call, f"*({d}(*)[20])nullptr"))


# ---- with a Hopper GPU --------------------------------------------------------------------------

SHAPES = [
    (1, 1, 8),
    (64, 128, 64),
    (128, 128, 8),
    (127, 129, 72),
    (129, 127, 1000),
    (257, 1, 64),
    (1, 333, 136),
    (1000, 1001, 1016),
    (2048, 2048, 2048),
    (4099, 2051, 264),
]


def taken(program: Program, m: int, n: int, k: int) -> tuple[int, int, int]:
    """The nearest sizes that a kernel takes: N is a multiple of 8 where TMA stores C."""
    return (m, -(-n // 8) * 8 if program.facts.c_box else n, k)


def checked(program: Program, c, a, b, peer=None) -> Comparison:
    """C compared as the kernel's arithmetic asks."""
    return check(c, a, b, peer=peer, fp16_sums=bool(program.facts.fp16_sums))


@pytest.mark.hopper
@every_gemm_configuration
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_kernel_agrees_with_cublas_and_fp64(gpu, kernel, defines, shape):
    import cupy

    program = compile_kernel(kernel, **defines)
    shape = taken(program, *shape)
    a, b = (gpu.array(matrix) for matrix in Problem(*shape, program.facts.dtype).inputs())
    c = gemm(program, a, b)
    found = checked(program, c, a, b, peer=cupy.matmul(a, b.T))
    assert found.ok and "against fp64" in found.compared and "against the peer" in found.compared


@pytest.mark.hopper
@every_gemm
@pytest.mark.parametrize("distribution", ["uniform", "integers", "zeros"])
def test_other_inputs_come_out_right_too(gpu, kernel, distribution):
    program = compile_kernel(kernel)
    problem = Problem(*taken(program, 515, 389, 776), distribution=distribution, seed=1)
    a, b = (gpu.array(matrix) for matrix in problem.inputs())
    c = gemm(program, a, b)
    found = checked(program, c, a, b)
    if distribution == "integers":
        assert found.max_error == 0  # whole numbers below 2048 are exact in fp16


@pytest.mark.hopper
@every_gemm
def test_nothing_is_written_outside_c(gpu, kernel):
    import cupy

    program = compile_kernel(kernel)
    m, n, k = taken(program, 129, 131, 72)
    a, b = (gpu.array(matrix) for matrix in Problem(m, n, k).inputs())
    guard = 4096
    around = cupy.full(guard + m * n + guard, 7, cupy.float16)
    c = around[guard : guard + m * n].reshape(m, n)
    gemm(program, a, b, c)
    assert checked(program, c, a, b).ok
    assert (around[:guard] == 7).all() and (around[guard + m * n :] == 7).all()


@pytest.mark.hopper
@every_gemm
def test_aliasing_is_refused_and_a_shared_input_is_not(gpu, kernel):
    program = compile_kernel(kernel)
    a, _ = (gpu.array(matrix) for matrix in Problem(128, 128, 128).inputs())
    with pytest.raises(ProblemError, match="C shares memory with A"):
        gemm(program, a, a, a)
    assert checked(program, gemm(program, a, a), a, a).ok
