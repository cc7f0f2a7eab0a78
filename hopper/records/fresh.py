"""Is a recording still of the kernel as it is now? The kernel is compiled again and compared."""

from collections.abc import Iterable

from hopper import notebooks
from hopper.compile import Program, compile_kernel, kernel_names, nvrtc_version
from hopper.errors import CompileError
from hopper.facts import stated_facts
from hopper.gemm import Problem
from hopper.mutants import Mutation, mutations
from hopper.records.store import AGAIN, GPU, NoRecording, find
from hopper.schema import Chapter, Entry, Identity, Mutants, Tuning


def identity_of(program: Program) -> Identity:
    """The identity of what a measurement of ``program`` measures."""
    return Identity(
        ptx=program.ptx_hash,
        facts=stated_facts(program.ptx),
        nvrtc=program.nvrtc,
        defines=dict(program.defines),
    )


def same_code(one: Identity, other: Identity) -> bool:
    """Whether two identities are the same machine code, whatever it was called by."""
    return (one.ptx, one.facts, one.nvrtc) == (other.ptx, other.facts, other.nvrtc)


def identity_now(kernel: str, defines: dict[str, int | str]) -> Identity | None:
    """What this configuration compiles to today; None when it does not compile.

    Raises CompileError where there is no compiler, and nothing is stale or fresh.
    """
    nvrtc_version()
    try:
        return identity_of(compile_kernel(kernel, **defines))
    except CompileError:
        return None


def freshness(entry: Entry) -> str:
    """'fresh', 'stale' or 'other compiler', which is when this NVRTC cannot tell.

    The kernel is compiled again with the recorded ``-D`` names and compared.
    """
    states = [_state(entry.kernel, identity) for identity in _identities(entry)]
    if isinstance(entry.data, Tuning):
        states += [
            "fresh" if identity_now(entry.kernel, row.defines) is None else "stale"
            for row in entry.data.rows
            if row.identity is None
        ]
    if isinstance(entry.data, Chapter):
        states += [_state(name, identity) for name, identity in entry.data.kernels.items()]
        states.append(_chapter_state(entry.data))
    if isinstance(entry.data, Mutants):
        states.append(_mutant_state(entry.kernel, entry.data))
    return next(state for state in ("stale", "other compiler", "fresh") if state in states)


def current(
    kind: str,
    kernel: str,
    *,
    gpu: str = GPU,
    problem: Problem | None = None,
    mode: str | None = None,
) -> Entry:
    """The first entry of a kind that is not stale. Raises NoRecording without one."""
    found = find(kind, kernel, gpu=gpu, problem=problem, mode=mode)
    for entry in found:
        if freshness(entry) != "stale":
            return entry
    why = f"{kernel} changed since its {kind} was recorded" if found else f"{kernel} has no {kind}"
    raise NoRecording(f"no recording of this variant on {gpu}: {why}; {AGAIN}")


def _identities(entry: Entry) -> list[Identity]:
    if isinstance(entry.data, Tuning):
        return [row.identity for row in entry.data.rows if row.identity is not None]
    return [entry.identity]


def _state(kernel: str, recorded: Identity) -> str:
    if kernel not in kernel_names():
        return "stale"
    if recorded.nvrtc != nvrtc_version():
        return "other compiler"
    now = identity_now(kernel, recorded.defines)
    return "fresh" if now is not None and same_code(now, recorded) else "stale"


def _chapter_state(run: Chapter) -> str:
    if run.slug not in notebooks.chapter_slugs():
        return "stale"
    cells = notebooks.code_cells(run.slug)
    return "fresh" if notebooks.code_sha256(cells) == run.code_sha256 else "stale"


def change_of(mutation: Mutation) -> str:
    """What a mutation changes, as a record keeps it: the old line, the new one, the tile."""
    changes = ((mutation.old, mutation.new), *mutation.also)
    lines = [line for old, new in changes for line in (f"- {old.strip()}", f"+ {new.strip()}")]
    lines += [f"-D{name}={value}" for name, value in mutation.defines.items()]
    return "\n".join(lines)


def _mutant_state(kernel: str, tried: Mutants) -> str:
    today = {mutation.name: change_of(mutation) for mutation in mutations(kernel)}
    return "fresh" if today.get(tried.name) == tried.change else "stale"


def replaced(old: Iterable[Entry], new: Iterable[Entry]) -> tuple[Entry, ...]:
    """Old and new entries as one, where a new one takes the place of its like."""
    new = list(new)
    keys = {entry.key for entry in new}
    kept = [entry for entry in old if entry.key not in keys]
    return tuple(sorted([*kept, *new], key=lambda entry: repr(entry.key)))


def merged(old: Iterable[Entry], new: Iterable[Entry]) -> tuple[Entry, ...]:
    """Like ``replaced``, with the stale ones among the old left out."""
    new = list(new)
    keys = {entry.key for entry in new}
    return replaced((e for e in old if e.key in keys or freshness(e) != "stale"), new)
