"""CUDA C++ to a cubin for sm_90a, by NVRTC, on any Linux machine: no GPU, no driver, no nvcc.

NVRTC is reached through CuPy's thin binding. The driver's own compiler is never asked, so
what a reader launches is what the recorded machine launched. Compiled kernels are kept in the
reader's cache folder under a key over everything that went in: the source, each header that it
includes, the options and the compiler. So is what nvdisasm makes of them.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType

from hopper.errors import CacheError, CompileError
from hopper.facts import LaunchFacts, entries, read_launch_facts, stated_facts, threads_directive
from hopper.paths import INCLUDE, KERNELS, cache_dir
from hopper.sass import Sass, disassemble, nvdisasm_version

# Raise it when the meaning of a cache entry changes.
FORMAT = 1
OPTIONS = (
    "--gpu-architecture=sm_90a",  # not sm_90: wgmma exists only with the a
    "--std=c++17",
    "-default-device",
    "--ptxas-options=-v",  # prints registers, spills and shared memory into the log
    "--no-cache",  # where a driver is, NVRTC would answer from its own cache, without a log
)
# What a block may use on sm_90 (CUDA C++ Programming Guide, compute capabilities).
SHARED_BYTES_A_BLOCK = 227 * 1024
REGISTERS_A_BLOCK = 65536

_INCLUDE_LINE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
# "ptxas info    : (C7519) warpgroup.arrive is injected in around line 136 by compiler …"
_ADVISORY = re.compile(r"\((C7\d{3})\)\s*(.*)")


@dataclass(frozen=True)
class Resources:
    """What ptxas gave one kernel: registers a thread, the rest in bytes (shared: a block's)."""

    registers: int
    spill_stores: int
    spill_loads: int
    static_shared_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class _Unit:
    """Everything that is compiled, and nothing else: the cache key is taken over it.

    Headers travel to NVRTC as text under the name that the source includes them by, so the
    bytes that were hashed are the bytes that are compiled.
    """

    name: str
    source: str
    headers: tuple[tuple[str, str], ...]
    options: tuple[str, ...]

    def key(self) -> str:
        whole = [FORMAT, nvrtc_version(), self.name, self.source, self.headers, self.options]
        return _sha256(json.dumps(whole).encode())


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled kernel: immutable, and cheap to make again from the cache.

    ``cubin_path`` is what ``cupy.RawModule(path=…)`` loads; ``cubin`` holds its bytes; ``log``
    is what the compiler printed, ptxas included; ``defines`` are the ``-D`` names.
    """

    kernel: str
    source_name: str
    defines: Mapping[str, int | str]
    ptx: str
    cubin: bytes
    log: str
    cubin_path: Path
    _unit: _Unit

    def __repr__(self) -> str:
        shown = "".join(f" -D{name}={value}" for name, value in self.defines.items())
        return f"<Program {self.kernel}{shown} {self.identity[:16]}>"

    @property
    def nvrtc(self) -> str:
        """The compiler's full version, as its PTX states it: '13.0.88'."""
        return _version_in(self.ptx)

    @cached_property
    def resources(self) -> Resources:
        """Registers, spills, stack and static shared memory, as ptxas reported them."""
        return read_resources(self.log, self.kernel)

    @cached_property
    def facts(self) -> LaunchFacts:
        """The launch facts the kernel states. Raises CompileError where it states none."""
        return read_launch_facts(self.ptx, self.kernel)

    @cached_property
    def overlaps(self) -> bool:
        """Whether a launch of it may begin before the last one has ended: it says when to wait."""
        return "griddepcontrol." in normalised(self.ptx)

    @cached_property
    def ptx_hash(self) -> str:
        """SHA-256 of the PTX as compiled without line information, comments left out."""
        unit = replace(self._unit, options=_without_lineinfo(self._unit.options))
        ptx = self.ptx if unit == self._unit else _compiled(unit).ptx
        return _sha256(normalised(ptx).encode())

    @cached_property
    def identity(self) -> str:
        """SHA-256 of what a measurement is a measurement of: PTX, launch facts, compiler.

        A comment, a name or an unused helper does not change it; whatever is compiled does.
        """
        whole = [self.ptx_hash, stated_facts(self.ptx), self.nvrtc]
        return _sha256(json.dumps(whole, sort_keys=True).encode())

    @cached_property
    def _sass(self) -> Sass:
        return _disassembled(self.cubin)

    def sass(self) -> Sass:
        """The machine code. Raises HopperError without nvdisasm."""
        return self._sass

    def require_clean(self) -> None:
        """Raise CompileError, all reasons in one message, unless the kernel may be launched."""
        broken = self._violations()
        if broken:
            listed = "\n".join(f"  - {line}" for line in broken)
            raise CompileError(f"{self!r} must not be launched:\n{listed}")

    def _violations(self) -> list[str]:
        used = self.resources
        found = [
            f"{code}, {len(lines)}×: {lines[0]}; ptxas changed what the source says; "
            f"correct the source until it has nothing to say"
            for code, lines in advisories(self.log).items()
        ]
        if used.spill_stores or used.spill_loads:
            found.append(
                f"spills {used.spill_stores} bytes of stores and {used.spill_loads} of loads at "
                f"{used.registers} registers a thread; accumulators must stay in registers; use a "
                f"smaller tile a warpgroup"
            )
        elif used.stack_bytes:
            found.append(
                f"a stack of {used.stack_bytes} bytes a thread; registers cannot be indexed by a "
                f"run-time value; unroll the loop or shrink the tile"
            )
        facts = self.facts if stated_facts(self.ptx) else None
        dynamic = facts.shared_bytes if facts else 0
        if used.static_shared_bytes + dynamic > SHARED_BYTES_A_BLOCK:
            found.append(
                f"{dynamic} dynamic + {used.static_shared_bytes} static bytes of shared memory; "
                f"a block has {SHARED_BYTES_A_BLOCK} (227 KB); use fewer stages or a smaller tile"
            )
        threads = facts.threads if facts else threads_directive(self.ptx, self.kernel)
        # Registers are handed out eight at a time.
        registers = -(-used.registers // 8) * 8 * (threads or 0)
        if registers > REGISTERS_A_BLOCK:
            found.append(
                f"{used.registers} registers × {threads} threads = {registers}; an SM has "
                f"{REGISTERS_A_BLOCK}; state the threads in __launch_bounds__ or use fewer"
            )
        return found


def compile_cuda(
    source: str | Path,
    kernel: str | None = None,
    *,
    defines: Mapping[str, int | str] = MappingProxyType({}),
    headers: Mapping[str, str] = MappingProxyType({}),
    lineinfo: bool = False,
) -> Program:
    """Compile CUDA C++ for sm_90a.

    ``source``: the text, or the Path of a file. ``#include "…"`` finds ``kernels/include``, and
    the file's own folder. ``kernel``: the entry to speak about; None where there is only one.
    ``defines``: macros. ``headers``: texts in place of those of the headers of these names.
    ``lineinfo``: source lines in the cubin, for a profiler.
    Raises CompileError with the compiler's log, and CacheError when the cache is not writable.
    """
    if isinstance(source, Path):
        name, text, folders = source.name, _read(source), (source.parent, INCLUDE)
    else:
        name, text, folders = "kernel.cu", source, (INCLUDE,)
    defines = {key: defines[key] for key in sorted(defines)}
    found = _headers(name, text, folders, headers)
    everything = "\n".join([text, *dict(found).values()])
    for macro in defines:
        if not re.search(rf"\b{re.escape(macro)}\b", everything):
            raise CompileError(
                f"-D{macro}={defines[macro]}: {name} never mentions {macro}, so it would change "
                f"nothing; check the spelling"
            )
    options = (*OPTIONS, *(["--generate-line-info"] if lineinfo else []))
    options += tuple(f"-D{macro}={value}" for macro, value in defines.items())
    unit = _Unit(name, text, found, options)
    done = _compiled(unit)
    return Program(
        kernel=_entry(done.ptx, kernel, name),
        source_name=name,
        defines=MappingProxyType(defines),
        ptx=done.ptx,
        cubin=done.cubin,
        log=done.log,
        cubin_path=done.cubin_path,
        _unit=unit,
    )


def compile_kernel(name: str, **defines: int | str) -> Program:
    """Compile ``kernels/<name>.cu``, whose entry is named like the file.

    ``compile_kernel("v1_wgmma", TILE_M=64)`` overrides a tile constant. Raises CompileError.
    """
    there = kernel_names()
    if name not in there:
        raise CompileError(f"{name}: there is no such kernel; there are {', '.join(there)}")
    return compile_cuda(KERNELS / f"{name}.cu", name, defines=defines)


def kernel_names() -> list[str]:
    """Every kernel of the book, by file name."""
    return sorted(path.stem for path in KERNELS.glob("*.cu"))


def normalised(ptx: str) -> str:
    """A PTX text without what is no code: comments, ``.file`` and ``.loc``, blank lines."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", ptx, flags=re.DOTALL)
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not re.match(r"\.(file|loc)\b", line))


def advisories(log: str) -> dict[str, list[str]]:
    """The C7xxx messages of a compiler log by code; a kernel to trust has none.

    A compiler that repairs a missing fence or wait says so here and nowhere else, and the
    hardware then gives right answers from wrong source.
    """
    found: dict[str, list[str]] = {}
    for code, message in _ADVISORY.findall(log):
        found.setdefault(code, []).append(message)
    return found


def read_resources(log: str, kernel: str) -> Resources:
    """The resources of ``kernel`` from a log of ``ptxas -v``. Raises CompileError without them."""
    _, found, section = log.partition(f"Compiling entry function '{kernel}'")
    section = section.partition("Compiling entry function")[0]
    used = re.search(r"Used (\d+) registers.*", section)
    frame = re.search(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", section
    )
    if not (found and used and frame):
        raise CompileError(
            f"the compiler's log does not state the resources of {kernel}; ptxas -v should print "
            f"them; the log was:\n{log}"
        )
    shared = re.search(r"(\d+) bytes smem", used[0])
    stack, stores, loads = (int(n) for n in frame.groups())
    return Resources(int(used[1]), stores, loads, int(shared[1]) if shared else 0, stack)


@cache
def nvrtc_version() -> str:
    """The full version of the NVRTC in use, '13.0.88'. Raises CompileError without NVRTC."""
    ptx, _, _ = _run_nvrtc("version.cu", 'extern "C" __global__ void version() {}', (), OPTIONS)
    return _version_in(ptx)


def _version_in(ptx: str) -> str:
    # The header comment of every PTX: "Cuda compilation tools, release 13.0, V13.0.88"
    return re.search(r"release [\d.]+, V([\d.]+)", ptx)[1]


def _without_lineinfo(options: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(option for option in options if option != "--generate-line-info")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(f"{path}: the source cannot be read ({error})") from error


def _headers(
    name: str, text: str, folders: tuple[Path, ...], given: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Name and text of every header reached by ``#include "…"``, sorted by name.

    A header that is not found is an error here: NVRTC would also look in the current folder,
    and the key would not know.
    """
    found: dict[str, str] = {}
    pending = [(name, text)]
    while pending:
        includer, body = pending.pop()
        for header in _INCLUDE_LINE.findall(body):
            if header in found:
                continue
            path = next((f / header for f in folders if (f / header).is_file()), None)
            if path is None:
                raise CompileError(
                    f'{includer} includes "{header}": it is not in '
                    f"{' or '.join(folder.name for folder in folders)}; a header lives in "
                    f"kernels/include or beside the file that is compiled"
                )
            found[header] = given[header] if header in given else _read(path)
            pending.append((header, found[header]))
    if unused := set(given) - set(found):
        raise CompileError(f"{name} does not include {min(unused)}: its text would change nothing")
    return tuple(sorted(found.items()))


def _entry(ptx: str, kernel: str | None, name: str) -> str:
    there = entries(ptx)
    if kernel is None and len(there) == 1:
        return there[0]
    if kernel in there:
        return kernel
    wanted = "one kernel" if kernel is None else f"a kernel {kernel}"
    raise CompileError(
        f"{name} has the kernels {', '.join(there) or '(none)'}: expected {wanted}; declare it "
        f'extern "C" __global__ and name it'
    )


@dataclass(frozen=True)
class _Compiled:
    ptx: str
    log: str
    cubin: bytes
    cubin_path: Path


def _compiled(unit: _Unit) -> _Compiled:
    """What NVRTC makes of the unit, from the cache where it is already there."""
    key = unit.key()
    base = cache_dir() / f"{Path(unit.name).stem}-{key[:32]}"
    cached = _load(base, key)
    if cached is None:
        _store(base, key, *_run_nvrtc(unit.name, unit.source, unit.headers, unit.options))
        cached = _load(base, key)
    if cached is None:
        raise CacheError(
            f"{base}.cubin: a kernel just written does not read back; is the disk full, or does "
            f"something else write there? Set HOPPER_CACHE to another folder"
        )
    return cached


def _paths(base: Path) -> tuple[Path, Path]:
    return base.with_name(base.name + ".json"), base.with_name(base.name + ".cubin")


def _seal(key: str, ptx: str, log: str, cubin: bytes) -> str:
    return _sha256(json.dumps([key, ptx, log, _sha256(cubin)]).encode())


def _load(base: Path, key: str) -> _Compiled | None:
    """The cache entry, or None when it is missing or is not what was written."""
    record, cubin_path = _paths(base)
    try:
        entry = json.loads(record.read_text())
        cubin = cubin_path.read_bytes()
        ptx, log = entry["ptx"], entry["log"]
        sound = entry["seal"] == _seal(key, ptx, log, cubin)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _Compiled(ptx, log, cubin, cubin_path) if sound else None


def _store(base: Path, key: str, ptx: str, log: str, cubin: bytes) -> None:
    record, cubin_path = _paths(base)
    entry = {"ptx": ptx, "log": log, "seal": _seal(key, ptx, log, cubin)}
    _write(cubin_path, cubin)
    _write(record, json.dumps(entry).encode())


def _disassembled(cubin: bytes) -> Sass:
    """The SASS of a cubin, from the cache where it is: nvdisasm takes a third of a second."""
    key = _sha256(json.dumps([FORMAT, nvdisasm_version(), _sha256(cubin)]).encode())
    path = cache_dir() / f"{key[:32]}.sass"
    try:
        seal, _, text = path.read_text().partition("\n")
    except (OSError, ValueError):
        seal = text = ""
    if seal == _sha256((key + text).encode()):
        return Sass(text)
    made = disassemble(cubin)
    _write(path, f"{_sha256((key + made.text).encode())}\n{made.text}".encode())
    return made


def _write(path: Path, data: bytes) -> None:
    """Write so that another process sees the old file or the whole new one."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise CacheError(
            f"{path}: a compiled kernel cannot be written ({error}); set HOPPER_CACHE to a folder "
            f"that you can write"
        ) from error


def _run_nvrtc(
    name: str, source: str, headers: tuple[tuple[str, str], ...], options: tuple[str, ...]
) -> tuple[str, str, bytes]:
    """PTX, log and cubin of one compilation. Raises CompileError with the log."""
    nvrtc = _import_nvrtc()
    texts = tuple(text.encode() for _, text in headers)
    names = tuple(header.encode() for header, _ in headers)
    program = nvrtc.createProgram(source, name, texts, names)
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError as error:
        raise CompileError(
            f"{name} does not compile for sm_90a: {error}\n{_log_of(nvrtc, program)}"
        ) from None
    else:
        # CuPy's getCUBIN leaves out the last byte, which is 0; nvdisasm misses it.
        cubin = nvrtc.getCUBIN(program) + b"\0"
        return nvrtc.getPTX(program).decode(), _log_of(nvrtc, program), cubin
    finally:
        nvrtc.destroyProgram(program)


def _log_of(nvrtc, program) -> str:
    log = nvrtc.getProgramLog(program).rstrip("\0")
    # The time differs from run to run, and says nothing about the kernel.
    return re.sub(r"^ptxas info\s+: Compile time = .*\n?", "", log, flags=re.MULTILINE).strip()


def _import_nvrtc():
    """CuPy's binding of NVRTC, imported here so that ``import hopper`` stays quick."""
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise CompileError(
            f"NVRTC cannot be loaded ({error}); kernels are compiled with it, no GPU needed; "
            f"pip install cupy-cuda13x nvidia-cuda-nvrtc==13.0.88"
        ) from error
    return nvrtc
