"""Pytest plugin for machines without a GPU: only a test marked `hopper` may be skipped.

`.ci/run` loads it with `-p tests.no_skips`; a skip of any other test, or of a whole module, then
fails the run, because a page that nobody tested must not pass for a tested one.
"""

import pytest

_skipped: list[tuple[str, str]] = []


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    marks = getattr(report, "keywords", ())  # a skipped module has none, and no excuse
    if report.skipped and not hasattr(report, "wasxfail") and "hopper" not in marks:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        _skipped.append((report.nodeid, str(reason)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error: object) -> None:
    """From a worker of xdist, which tells of skipped tests itself, but not of skipped modules."""
    seen = {nodeid for nodeid, _ in _skipped}
    told = node.workeroutput.get("skipped", []) if hasattr(node, "workeroutput") else []
    _skipped.extend((nodeid, reason) for nodeid, reason in told if nodeid not in seen)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["skipped"] = _skipped
    if _skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _skipped:
        terminalreporter.section("skipped without needing a Hopper GPU", red=True)
        for nodeid, reason in _skipped:
            terminalreporter.write_line(f"{nodeid}: {reason}")
