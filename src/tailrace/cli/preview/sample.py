"""The turn that `tailrace preview demo` shows: timed events of all kinds that channels show in different ways.

An agent was asked why a backup was slow. It makes a plan, runs tools and a subagent, and gives an answer that is too
long for one message of Discord, with a table, code, lists, links and a picture.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import TYPE_CHECKING

from tailrace.events import (
    Event,
    Media,
    PlanItem,
    PlanUpdated,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnCompleted,
    TurnStarted,
    Usage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.cli.preview.recording import Turn

_TOKEN = re.compile(r"\s*\S{1,9}|\s+")
_PLAN = ("Read the log of last night", "Compare it with other nights", "Search the change history", "Say what to do")

_REASONING = (
    "The duration has quadrupled, so either there was more to copy or something was copied twice. The log knows."
)

_OPENING = (
    "I read the log and the numbers of the last nights, and let a *second agent* search what was changed meanwhile."
)

_ANSWER = """\
## Why the backup was slow

🐢 It took **4 h 12 min** instead of about 50 minutes. It was *not* the network: every file was read again, because \
the index that tells which files have changed was gone. Ruled out are ~~a slow network~~ and ~~a failing disk~~.

| at    | step     |       took |  usual |
|-------|----------|-----------:|-------:|
| 01:00 | snapshot |      2 min |  2 min |
| 01:02 | scan     | 3 h 20 min |  6 min |
| 04:22 | upload   |     48 min | 40 min |
| 05:10 | verify   |      2 min |  2 min |

### How that came

1. On Tuesday [the index was moved](https://example.com/ops/pull/4711) to `/tmp/backup-index`, so that the job needs \
no write access to its home.
2. On Wednesday the machine was restarted for a new kernel, and `/tmp` was emptied.
3. A job without an index begins with an empty one, and to an empty index *everything* is new.

> An index that cannot be found is created.
> Keep it on a disk that survives a restart.

That is what [the manual](https://example.com/backup/manual#index) says, and nobody had read it that far.

### What I suggest

Keep the index where the system keeps state, and let the job refuse to run without one:

```ini
# /etc/systemd/system/backup.service.d/index.conf
[Service]
StateDirectory=backup
Environment=BACKUP_INDEX=/var/lib/backup/index
ExecStartPre=/usr/local/bin/check-index
```

The check is short enough to show:

```python
#!/usr/bin/env python3
import os
import sys
import time
from pathlib import Path

OLDEST = 2 * 24 * 3600  # seconds; a job that missed two nights should be looked at

index = Path(os.environ["BACKUP_INDEX"])
if not index.exists():
    sys.exit(f"{index} is missing: restore it, or run backup --full on purpose")
age = time.time() - index.stat().st_mtime
if age > OLDEST:
    sys.exit(f"{index} is {age / 3600:.0f} hours old: the last runs have failed")
print(f"{index} is there, {age / 3600:.0f} hours old")
```

So far:

- [x] the cause is found
- [x] the index of Tuesday is restored from the snapshot
- [ ] the change above is merged
- [ ] somebody is told when a scan takes longer than 15 minutes

Nothing was lost: all 1,204,882 files are there, and the checksums agree. Here are the last seven nights:
"""

_CLOSING = "Shall I open the pull request? Merged before **01:00**, tonight's run is a usual one again. ✅"


def sample_turn() -> Turn:
    """The events of the built-in turn, each with its time in seconds since the first event."""
    paused, events = zip(*_script(), strict=True)
    return list(zip(accumulate(paused), events, strict=True))


def _script() -> Iterator[tuple[float, Event]]:
    """The events of the turn, each with the seconds that the agent needs before it."""
    yield 0.0, TurnStarted(runtime="demo")
    for token in _TOKEN.findall(_REASONING):
        yield 0.03, ReasoningDelta(text=token)
    yield 0.0, ReasoningEnd()
    yield from _spoken(_OPENING)
    yield 0.1, _plan(done=0)
    yield from _work()
    yield 0.3, _plan(done=3)
    yield from _spoken(_ANSWER)
    yield 0.2, Media(url="https://example.com/charts/backup-week.png", mime="image/png", caption="Minutes per night")
    yield 0.3, _plan(done=4)
    yield from _spoken(_CLOSING)
    yield 0.0, Usage(input_tokens=18_204, output_tokens=1_377, scope="turn")
    yield 0.1, TurnCompleted(stop_reason="end")


def _spoken(text: str) -> Iterator[tuple[float, Event]]:
    """The events for a text: one small piece after the other, as a model writes it."""
    for token in _TOKEN.findall(text):
        yield 0.022, TextDelta(text=token)


def _plan(*, done: int) -> PlanUpdated:
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(_PLAN)
    items = (PlanItem(title=title, status=status) for title, status in zip(_PLAN, states, strict=False))
    return PlanUpdated(items=tuple(items))


def _work() -> Iterator[tuple[float, Event]]:
    """The events of parallel tool calls (one fails and is retried), and of a subagent with its own tool."""
    yield 0.2, ToolStarted(id="log", name="read_file", arguments={"path": "/var/log/backup/nightly.log"})
    yield 0.1, ToolStarted(id="search", name="subagent", arguments={"query": "what changed around the backup job?"})
    yield 0.9, ToolFinished(id="log", result="01:02 index not found, creating it")
    yield 0.1, _plan(done=1)
    yield 0.2, ToolStarted(id="numbers", name="query_metrics", arguments={"query": "backup_seconds[7d]"})
    for token in _TOKEN.findall("I look through what was merged since Monday."):
        yield 0.04, TextDelta(text=token, parent_tool_id="search")
    yield 0.2, ToolStarted(id="grep", name="grep", arguments={"pattern": "BACKUP_INDEX"}, parent_tool_id="search")
    yield 0.8, ToolFinished(id="numbers", result="timeout", is_error=True)
    yield 0.4, ToolStarted(id="again", name="query_metrics", arguments={"query": "backup_seconds[7d]"})
    yield 0.6, ToolFinished(id="grep", result="ops/backup.env:3", parent_tool_id="search")
    yield 0.5, ToolProgress(id="again", elapsed_s=1.1, text="receiving")
    yield 0.6, ToolFinished(id="again", result=[2950, 3010, 2987, 3004, 15_120])
    yield 0.2, _plan(done=2)
    yield 0.9, ToolFinished(id="search", result="pull request 4711 moved the index to /tmp")
