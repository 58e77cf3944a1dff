"""Tests with the real SDKs and commands, which cannot all be installed together.

Each file names the packages that it needs. `make test-runtimes` makes an environment for each group of files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_lines import Place

from tailrace.testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the sessions of this test. Telemetry of the SDKs is off."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    return tmp_path / "tailrace" / "sessions"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A scripted model on this machine."""
    with ScriptedModel() as started:
        yield started


@pytest.fixture
def place(tmp_path: Path, model: ScriptedModel) -> Iterator[Place]:
    """The home of an agent's command. No process of it may be left after the test."""
    place = Place(tmp_path / "agent", model)
    yield place
    assert place.processes() == []
