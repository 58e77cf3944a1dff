"""How Hypothesis runs here: no deadlines, and the same examples in every run.

`EXPLORE=1` draws new examples. `SEARCH=1` draws many more (see `example_counts.examples`): `make search` sets it.
Examples that do not change with the code need the strategies of `stable_strategies`.
"""

from __future__ import annotations

import gc
import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["token_canary"]
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", parent=settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("explore" if os.environ.get("EXPLORE") else "same")

# pytest-xdist sets these in its workers. Commands that the tests start would take them for the size of their terminal.
for variable in ("COLUMNS", "LINES"):
    os.environ.pop(variable, None)


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection: with thousands of them each collection took seconds."""
    gc.collect()
    gc.freeze()
