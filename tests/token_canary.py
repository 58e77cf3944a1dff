"""The token of the bot appears nowhere: after each test of a platform, all that it wrote and showed is searched for it.

`tests/conftest.py` loads this as a plugin of pytest. It applies to the test files with telegram or slack in their name.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

CANARY = "CANARY_of-the-token_that-nobody-may_see"
"""The secret part of the token in these tests."""
shown_pages: list[tuple[str, str]] = []
"""What the simulators of a test showed in the end: the name of each page, and its content."""


def _applies(item: pytest.Item) -> bool:
    return "telegram" in item.path.name or "slack" in item.path.name


@pytest.fixture(autouse=True)
def _everything_is_logged(request: pytest.FixtureRequest) -> None:
    """Keep every log record of such a test, of all levels."""
    if _applies(request.node):
        request.getfixturevalue("caplog").set_level(logging.DEBUG)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that let the token be seen: in its output, its logs, its files or the pages of its simulators."""
    report = yield
    if call.when == "call" and _applies(item):
        found = _places(report, getattr(item, "funcargs", {}).get("tmp_path"))
        shown_pages.clear()
        if found and report.passed:
            report.outcome = "failed"
            report.longrepr = f"the token of the bot is in {', '.join(found)}"
    return report


def _places(report: pytest.TestReport, folder: Path | None) -> list[str]:
    """Where the token is."""
    found = [name for name, content in report.sections if CANARY in content]
    found += [f"the {name} of a simulator" for name, shown in shown_pages if CANARY in shown]
    files = [] if folder is None else [path for path in folder.rglob("*") if path.is_file()]
    return found + [f"the file {path.name}" for path in files if CANARY.encode() in path.read_bytes()]
