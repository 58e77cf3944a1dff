"""The time of `import tailrace`, and the modules that it must not load."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from bench.rows import Row, Scale, duration

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_SECONDS = 0.150
SDKS = (
    *(
        "aiogram",
        "telegram",
        "slack_sdk",
        "discord",
        "nio",
        "asyncpg",
        "nats",
        "starlette",
        "uvicorn",
        "fastapi",
    ),
    *("aiohttp", "httpx", "openai", "agents", "anthropic", "pydantic", "langgraph", "langchain_core"),
)
_PROGRAM = """
import sys, time
start = time.perf_counter()
import tailrace
taken = time.perf_counter() - start
print(taken, *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def rows(scale: Scale) -> Iterator[Row]:
    """The time in new processes, and the modules that were loaded there."""
    runs = [_import() for _ in range(scale.processes)]
    best = min(taken for taken, _ in runs)
    limit = f"≤ {duration(MOST_SECONDS)}"
    yield Row("import tailrace", duration(best), "", "", limit, best <= MOST_SECONDS)
    found = sorted(set(SDKS) & runs[0][1])
    yield Row("platform SDKs it imports", ", ".join(found) or "none", "", "", "none", not found)


def _import() -> tuple[float, set[str]]:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)  # noqa: S603  our own program
    taken, *modules = done.stdout.split()
    return float(taken), set(modules)
