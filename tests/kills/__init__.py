"""A worker process is killed at named points and at random; the judge counts what people saw."""

from __future__ import annotations

import os
from pathlib import Path


def environment(**settings: str) -> dict[str, str]:
    """The environment of a subprocess that imports `kills`."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), **settings}
