"""The second tier: runtimes with the real SDKs, which cannot all be installed together.

Each file says which packages it needs beside tailrace and pytest; each is run in an environment of its own.
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
    """A home of its own for what sessions remember, and nothing that leaves the machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    return tmp_path / "tailrace" / "sessions"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model on this machine that says what its script says."""
    with ScriptedModel() as started:
        yield started


@pytest.fixture
def place(tmp_path: Path, model: ScriptedModel) -> Iterator[Place]:
    """Where an agent's command line lives and works; when the test is over nothing of it may be left running."""
    place = Place(tmp_path / "agent", model)
    yield place
    assert place.processes() == []
