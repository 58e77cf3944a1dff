"""The second tier: runtimes with the real SDKs, which cannot all be installed together.

Each file says which packages it needs beside tailrace and pytest; each is run in an environment of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for what sessions remember, and nothing that leaves the machine."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    return tmp_path / "tailrace" / "sessions"
