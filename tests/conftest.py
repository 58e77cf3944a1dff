"""How hypothesis runs here: without deadlines, and with the same examples every time; `EXPLORE=1` draws new ones."""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", parent=settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("explore" if os.environ.get("EXPLORE") else "same")


def pytest_collection_finish() -> None:
    """Look no more for garbage among the tests themselves: thousands of them were gone through with each collection."""
    gc.collect()
    gc.freeze()
