"""PTX is read as it is written: names, scopes, numbers, variables, lines."""

import numpy
import pytest

from hopper.compile import compile_kernel, kernel_names
from hopper.emulator.errors import PtxError, Unsupported
from hopper.emulator.instructions import rule_of
from hopper.emulator.ptx import (
    Address,
    Immediate,
    Label,
    Not,
    Pair,
    Register,
    Sink,
    Symbol,
    Vector,
    parse,
)
from hopper.emulator.types import bits_type, is_type, numpy_type, width

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, *, header: str = "", module: str = "", parameters: str = ""):
    """A module with one kernel ``k``, parsed."""
    return parse(f"{HEAD}{module}\n.visible .entry k({parameters}) {header}\n{{\n{body}\n}}\n", "k")


def only(operand: str, declared: str = ".reg .b32 %r<4>; .reg .pred p;"):
    """How one operand is read."""
    (found,) = kernel(f"{declared}\nmov.b32 {operand};").code
    return found.operands[0]


def test_an_instruction_keeps_its_text_its_line_and_its_parts():
    body = "// a comment\n.reg .b32 %r<3>;\n.reg .pred p;\n@!p  add.cc.s32 \t%r1, %r2, -7;\nret;"
    first, second = kernel(body).code
    assert (first.opcode, first.parts) == ("add.cc.s32", ("add", "cc", "s32"))
    assert (first.guard.register.name, first.guard.negated) == ("p", True)
    assert [type(x) for x in first.operands] == [Register, Register, Immediate]
    assert first.operands[2].value == -7
    assert (first.line, second.line, second.index) == (10, 11, 1)
    assert first.has("cc") and not second.has("cc")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("12", 12),
        ("-1", -1),
        ("0x7fU", 0x7F),
        ("0b101", 5),
        ("017", 15),
        ("0f3F800000", 0x3F800000),
        ("0d3FF0000000000000", 0x3FF0000000000000),
        ("-0f3F800000", 0xBF800000),
        ("1.5", 0x3FF8000000000000),
    ],
)
def test_constants(word, value):
    assert only(word).value == value


def test_the_kinds_of_operands():
    assert only("_") == Sink()
    assert only("%tid.x") == Symbol("%tid.x")
    assert isinstance(only("!p"), Not) and only("!p").operand.name == "p"
    assert isinstance(only("%r1|p"), Pair) and only("%r1|p").second.name == "p"
    assert [x.name for x in only("{%r1, %r2}").items] == ["%r1", "%r2"]
    assert only("[%r1+-8]").offset == -8
    assert only("[%r1+0x10]").offset == 16
    assert only("[table+4]") == Address(Symbol("table"), 4)
    tensor = only("[%r1, {%r2, 5}]")
    assert tensor.base.name == "%r1"
    assert isinstance(tensor.coordinates, Vector)
    assert tensor.coordinates.items[1] == Immediate(5)


def test_braces_have_names_of_their_own():
    body = """
    .reg .pred p;
    { .reg .pred p; AGAIN: @p bra AGAIN; }
    { .reg .pred p; AGAIN: @p bra AGAIN; @!p bra OUT; }
    OUT: @p ret;
    """
    one, two, out, last = kernel(body).code
    assert len({x.guard.register.row for x in (one, two, last)}) == 3
    assert out.guard.register is two.guard.register
    assert one.operands[0] == Label("AGAIN", 0)
    assert two.operands[0] == Label("AGAIN", 1)
    assert out.operands[0] == Label("OUT", 3)


def test_registers_get_rows_by_width_and_only_where_they_are_used():
    found = kernel(".reg .b32 %r<1000>; .reg .f32 %f<9>; .reg .b64 %d; mov.b32 %r7, %f2;")
    assert found.rows == {32: 2}
    assert {x.row for x in found.code[0].operands} == {0, 1}


def test_variables_with_their_space_size_and_values():
    module = """
    .global .align 4 .b8 table[8] = {1, 0, 0, 128, 255};
    .const .align 4 .u32 fact = 64;
    .extern .shared .align 1024 .b8 dynamic[];
    .shared .align 8 .u64 outside;
    """
    found = kernel(".local .align 16 .b8 depot[32];\n.shared .f32 tile[2][4];\nret;", module=module)
    by_name = {v.name: v for v in found.variables}
    assert by_name["table"].initial == bytes([1, 0, 0, 128, 255])
    assert (by_name["table"].bytes, by_name["table"].space) == (8, "global")
    assert by_name["fact"].initial == (64).to_bytes(4, "little")
    assert (by_name["dynamic"].bytes, by_name["dynamic"].align) == (None, 1024)
    assert (by_name["depot"].space, by_name["depot"].bytes) == ("local", 32)
    assert (by_name["tile"].bytes, by_name["tile"].align) == (32, 4)
    assert "outside" in by_name


def test_another_functions_variables_stay_out():
    other = ".visible .entry other() { .shared .b8 theirs[4]; ret; }"
    found = kernel(".shared .b8 mine[4]; ret;", module=other)
    assert [v.name for v in found.variables] == ["mine"]


def test_parameters_lie_at_their_alignment():
    words = ".param .u32 a, .param .align 64 .b8 map[128], .param .u64 .ptr .global .align 16 p"
    found = kernel("ret;", parameters=words)
    assert [(p.name, p.offset, p.bytes) for p in found.parameters] == [
        ("a", 0, 4),
        ("map", 64, 128),
        ("p", 192, 8),
    ]
    assert found.parameter_bytes == 200


def test_directives():
    header = ".reqntid 128, 2\n.minnctapersm 1\n.maxnreg 168\n.explicitcluster\n"
    found = kernel("ret;", header=header + ".reqnctapercluster 2, 1, 1\n")
    assert (found.max_threads, found.exact_threads) == (256, True)
    assert (found.min_blocks, found.max_registers) == (1, 168)
    assert (found.cluster, found.explicit_cluster) == ((2, 1, 1), True)


def test_line_information_names_the_source_and_where_it_was_inlined():
    body = (
        ".loc 1 12 3\nret;\n.loc 2 7 1, function_name $L__info, inlined_at 1 30 5\nret;\n"
        ".loc 1 0 3\nret;"
    )
    text = f'{HEAD}.visible .entry k()\n{{\n{body}\n}}\n.file 1 "dir/k.cu"\n.file 2 "x/h.cuh"\n'
    plain, inlined, nowhere = parse(text, "k").code
    assert plain.source.outermost is plain.source
    assert str(plain.source) == "k.cu:12"
    assert (str(inlined.source), str(inlined.source.inlined_at)) == ("h.cuh:7", "k.cu:30")
    assert nowhere.source is None


def test_inlined_in_what_was_inlined_leads_to_the_kernels_own_line():
    body = (
        ".loc 2 12 5, function_name $L__a, inlined_at 1 30 5\nret;\n"
        ".loc 3 9 3, function_name $L__b, inlined_at 2 12 5\nret;"
    )
    text = f"{HEAD}.visible .entry k()\n{{\n{body}\n}}\n" + "".join(
        f'.file {n} "{name}"\n' for n, name in enumerate(("k.cu", "a.cuh", "b.cuh"), 1)
    )
    deep = parse(text, "k").code[1].source
    assert [str(deep), str(deep.inlined_at), str(deep.outermost)] == [
        "b.cuh:9",
        "a.cuh:12",
        "k.cu:30",
    ]


def test_what_cannot_be_read_is_an_error_that_says_where():
    with pytest.raises(PtxError, match=r"no kernel 'gemm' .* has k; C\+\+ mangles"):
        parse(f"{HEAD}.entry k() {{ ret; }}", "gemm")
    with pytest.raises(PtxError, match="PTX for sm_90: .* sm_90a"):
        parse(f"{HEAD}.entry k() {{ ret; }}".replace("sm_90a", "sm_90"), "k")
    with pytest.raises(PtxError, match="no .target"):
        parse("hello", "k")
    with pytest.raises(PtxError, match="PTX line 7: .*constant of unknown form: 3abc"):
        kernel("mov.b32 3abc;")
    with pytest.raises(PtxError, match="guard is not a declared predicate"):
        kernel("@q ret;")


def test_an_unknown_instruction_is_named_with_its_line():
    (x,) = kernel(".reg .b32 %r<2>;\nfrobnicate.b32 %r0, %r1;").code
    with pytest.raises(Unsupported, match=r"PTX line 8: frobnicate.*never guesses"):
        rule_of(x)


@pytest.mark.parametrize("name", kernel_names())
def test_every_kernel_of_the_book_is_read_whole(name):
    program = compile_kernel(name)
    found = parse(program.ptx, name)
    statements = sum(
        line.strip().endswith(";") and not line.strip().startswith((".", "//"))
        for line in program.ptx.split(".entry")[1].splitlines()
    )
    assert len(found.code) == statements
    assert found.max_threads == program.facts.threads
    assert parse(program.ptx, name) is found


def test_types_as_numpy_reads_them():
    assert numpy_type("s32") == numpy.int32
    assert numpy_type("f16") == numpy.float16
    assert numpy_type("bf16") == numpy.uint16
    assert numpy_type("e4m3x2") == numpy.uint16
    assert bits_type("f64") == numpy.uint64
    assert (width("pred"), width("b8"), width("f16x2")) == (1, 8, 32)
    assert is_type("tf32") and not is_type("wide")
    for unknown in ("f8", "b128", "x32"):
        with pytest.raises(Unsupported, match=f"type .{unknown}"):
            numpy_type(unknown)
