"""The status page, made by the build: records, chapters and versions as they are.

`{status-table} kernels` lists what was recorded of every kernel and whether it is still true,
`live` the chapters that were executed on a Hopper GPU, `chapters` what this build executed,
`conformance` the cases that the emulator and a Hopper GPU both answered, `mutants` what it catches
of kernels that are broken on purpose and `survivors` what it rightly does not, `emulator` how long
it takes, and `versions` what it was built with. A kernel without a
record is listed as such: nothing is hidden.
"""

from collections import Counter
from collections.abc import Iterable
from html import escape
from importlib import metadata

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from extension.chapters import runs
from extension.freshness import note_computed
from extension.tables import table
from hopper.compile import kernel_names, nvrtc_version
from hopper.conformance import cases
from hopper.conformance.record import load as load_answers
from hopper.conformance.record import units_with_cases
from hopper.emulator.benchmark import load as load_benchmark
from hopper.emulator.mutation_record import Tried, equivalents, reason_for
from hopper.emulator.mutation_record import load as load_mutants
from hopper.emulator.mutation_record import state as mutants_state
from hopper.emulator.mutation_subjects import SUBJECTS
from hopper.errors import RecordError
from hopper.paths import ROOT
from hopper.records import NoRecording, configuration, freshness, load, size_of
from hopper.schema import Chapter, Entry, Provenance

# Distributions whose version decides what a page shows; of CuPy's two, one is installed.
PACKAGES = (
    "cupy-cuda12x",
    "cupy-cuda13x",
    "numpy",
    "matplotlib",
    "sphinx",
    "myst-nb",
    "sphinx-book-theme",
)
STATES = {
    "fresh": "fresh",
    "stale": "stale: the code changed since",
    "other compiler": "recorded with another NVRTC than this build's",
}


class ChapterStatus(nodes.General, nodes.Element):
    """Stands where the table of chapters goes until every chapter has been read."""


class StatusTable(SphinxDirective):
    """`status-table` with one argument, the name of the table."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table, or a placeholder for the one that needs all chapters."""
        note_computed(self.env, self.env.docname)
        makers = {
            "kernels": kernels,
            "live": live,
            "chapters": ChapterStatus,
            "conformance": conformance,
            "mutants": mutants,
            "survivors": survivors,
            "emulator": emulator,
            "versions": versions,
        }
        if self.arguments[0] not in makers:
            raise self.error(
                f"status-table {self.arguments[0]!r}: choose one of {', '.join(makers)}"
            )
        return [makers[self.arguments[0]]()]


def recorded_day(provenance: Provenance) -> nodes.Node:
    """The date of a recording, as an element to which the page's script adds its age."""
    date = provenance.date
    html = f'<time class="age" datetime="{escape(date)}">{escape(date[:10])}</time>'
    return nodes.raw("", html, format="html")


def describe(entry: Entry) -> str:
    """What an entry holds: its kind, problem, mode or name, and configuration."""
    parts = [entry.kind]
    problem = getattr(entry.data, "problem", None)
    if problem is not None:
        parts.append(size_of(problem))
    parts += [getattr(entry.data, name) for name in ("mode", "name") if hasattr(entry.data, name)]
    return " ".join([*parts, configuration(entry.identity.defines)])


def origin(entry: Entry) -> tuple[str, nodes.Node, str, str]:
    """GPU, date, commit and state of an entry: the last four cells of its row."""
    provenance = entry.provenance
    commit = provenance.commit[:10] + ("" if provenance.clean else ", changed tree")
    return provenance.gpu, recorded_day(provenance), commit, STATES[freshness(entry)]


def entries_of(kernel: str) -> tuple[tuple[Entry, ...], str]:
    """A kernel's recorded entries, and, where there are none, why."""
    try:
        return load(kernel).entries, ""
    except NoRecording:
        return (), "never recorded"
    except RecordError as error:
        return (), str(error).replace(f"{ROOT}/", "")


def kernels() -> nodes.table:
    """One row for each recorded entry of each kernel in kernels/, chapters apart."""
    rows, ids = [], []
    for name in kernel_names():
        found, why = entries_of(name)
        shown = [entry for entry in found if not isinstance(entry.data, Chapter)]
        ids.append(nodes.make_id(f"record-{name}"))
        ids += [""] * (len(shown) - 1)
        rows += [(nodes.literal("", name), describe(entry), *origin(entry)) for entry in shown]
        if not shown:
            rows.append(
                (nodes.literal("", name), "nothing", "–", "–", "–", why or "the record is empty")
            )
    return table(("Kernel", "Recorded", "GPU", "Date", "Commit", "State"), rows, ids)


def live() -> nodes.Node:
    """The chapters that were executed as notebooks on a Hopper GPU."""
    found = [
        entry
        for name in kernel_names()
        for entry in entries_of(name)[0]
        if isinstance(entry.data, Chapter)
    ]
    if not found:
        return nodes.paragraph("", "No chapter has been executed on a Hopper GPU yet.")
    rows = [(entry.data.slug, f"all {entry.data.cells}", *origin(entry)) for entry in found]
    return table(("Chapter", "Cells run", "GPU", "Date", "Commit", "State"), rows)


def conformance() -> nodes.Node:
    """A row a unit: its cases, and what the GPU answered. Whether a case changed since is left to
    ``make check-records``, which compiles them all.
    """
    rows = []
    for unit in units_with_cases():
        asked = {case.name for case in cases(unit)}
        try:
            recorded = load_answers(unit)
        except RecordError as error:
            why = str(error).replace(f"{ROOT}/", "")
            rows.append((nodes.literal("", unit), f"0 of {len(asked)}", "–", why, "–"))
            continue
        answered = asked & set(recorded.answers)
        values = sum(recorded.answers[name].elements for name in answered)
        rows.append(
            (
                nodes.literal("", unit),
                f"{len(answered)} of {len(asked)}",
                f"{values:,}",
                recorded.provenance.gpu,
                recorded_day(recorded.provenance),
            )
        )
    return table(("Unit", "Cases answered", "Values compared", "GPU", "Date"), rows)


def mutants() -> nodes.Node:
    """A row a kernel, one for all twins: its mutants, and what gave them away."""
    try:
        found = load_mutants()
    except RecordError as error:
        return nodes.paragraph("", str(error).replace(f"{ROOT}/", ""))
    tried = {one.subject: one for one in found.tried}
    groups: dict[str, list[str]] = {}
    for name in SUBJECTS:
        twin = name.startswith("twin of ")
        groups.setdefault("corrected twins of broken kernels" if twin else name, []).append(name)
    rows = []
    for shown, names in groups.items():
        states = sorted({mutants_state(SUBJECTS[name], found) for name in names} - {"fresh"})
        cells = mutant_cells([tried[name] for name in names if name in tried])
        rows.append((shown, *cells, "; ".join(states) or "fresh"))
    return table((*MUTANT_HEADS, "State"), rows)


MUTANT_HEADS = (
    "Kernel",
    "Mutants",
    "Rule broken",
    "Deadlock or no end",
    "Fault",
    "Wrong result",
    "Survive, with a reason",
    "without",
)


def mutant_cells(tried: list[Tried]) -> list[str]:
    """The numbers of a row of mutants, from their count to survivors without a reason."""
    counts = sum((one.counts for one in tried), Counter())
    known = equivalents()
    left = [(one.subject, row.mutant) for one in tried for row in one.survivors]
    explained = sum(bool(reason_for(subject, name, known)) for subject, name in left)
    numbers = (
        counts.total(),
        counts["hazard"] + counts["warning"],
        counts["deadlock"] + counts["step limit"],
        counts["fault"] + counts["refused"] + counts["crash"],
        counts["wrong"],
        explained,
        len(left) - explained,
    )
    return [f"{number:,}" for number in numbers]


def survivors() -> nodes.Node:
    """Why mutants survive: a row a reason."""
    try:
        found = load_mutants()
    except RecordError as error:
        return nodes.paragraph("", str(error).replace(f"{ROOT}/", ""))
    rows = []
    for one in equivalents():
        left = [
            (tried.subject, row.mutant)
            for tried in found.tried
            for row in tried.survivors
            if one.explains(tried.subject, row.mutant)
        ]
        kernels = ", ".join(dict.fromkeys(subject for subject, _ in left)) or "none now"
        changes = ", ".join(dict.fromkeys(name for _, name in left))
        rows.append((changes, kernels, one.reason))
    return table(("Change", "Kernels", "Why it does no harm"), rows)


def emulator() -> nodes.Node:
    """How long the emulator takes for a kernel at three sizes, as recorded."""
    try:
        found = load_benchmark()
    except RecordError as error:
        return nodes.paragraph("", str(error))
    rows = [
        (
            nodes.literal("", one.kernel),
            size_of(one.problem),
            f"{one.seconds:.3f} s",
            f"{one.first:.3f} s",
            f"{one.unwatched:.3f} s",
            f"{one.target:g} s",
            f"{one.instructions:,}",
        )
        for one in found.timings
    ]
    heads = ("Kernel", "Problem", "A launch", "The first", "Unwatched", "Goal", "Warp instructions")
    told = f"Measured on {found.machine}, {found.date[:10]}; the best of a few launches."
    return nodes.container("", nodes.paragraph("", told), table(heads, rows))


def installed(names: Iterable[str]) -> list[tuple[str, str]]:
    """Name and version of those packages that are installed."""
    present = {dist.metadata["Name"].lower(): dist.version for dist in metadata.distributions()}
    return [(name, present[name]) for name in names if name in present]


def versions() -> nodes.table:
    """The compiler and the packages that made this build."""
    return table(("Software", "Version"), [("NVRTC", nvrtc_version()), *installed(PACKAGES)])


def fill_chapters(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace the placeholder by the executions of all chapters."""
    for node in list(doctree.findall(ChapterStatus)):
        rows = []
        for name, run in sorted(runs(app.env).items()):
            uri = app.builder.get_relative_uri(docname, name)
            title = app.env.titles[name].astext()
            link = nodes.reference("", "", nodes.Text(title), refuri=uri, internal=True)
            rows.append((link, f"{run.executed} of {run.cells}", ", ".join(run.kernels)))
        node.replace_self(table(("Chapter", "Cells run", "Kernels"), rows))


def rewrite(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Write the pages with computed tables again whenever anything was read."""
    return sorted(env.book_computed_pages)


def setup(app: Sphinx) -> None:
    """Register the directive and complete its tables late."""
    app.add_node(ChapterStatus)
    app.add_directive("status-table", StatusTable)
    app.connect("doctree-resolved", fill_chapters)
    app.connect("env-updated", rewrite)
