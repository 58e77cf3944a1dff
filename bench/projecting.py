"""The cost of the projector: one delta, a long live answer, and many turns at once.

The competitors convert the whole text so far again at each edit; the table shows their cost beside ours.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench import texts
from bench.rows import Row, Scale, at_least, at_most, best_of, best_of_each, duration
from tailrace.capabilities import TELEGRAM
from tailrace.delivery.dry_run import dry_run
from tailrace.events import Event, TextDelta, TurnCompleted, TurnStarted
from tailrace.operations import Delivered, Edit, Receipt, Target
from tailrace.projector import Idle, Projector, WaitUntil

if TYPE_CHECKING:
    from collections.abc import Iterator

DELTA = 4
PIECES_PER_S = 50.0
TARGET = Target(channel="telegram", chat="1")
CHAT = Path(__file__).parent.parent / ".venv" / "bench-node" / "node_modules" / "chat"
_AGAIN = Path(__file__).with_name("chat_renderer.mjs")


def rows(scale: Scale) -> Iterator[Row]:
    """One delta, one answer and its double, the competitors at the same edits, and many turns at once."""
    yield from _deltas(scale)
    yield from _answers(scale)
    yield _memory(scale)


def _grown(size: int) -> Projector:
    """A live projector with an answer of `size` characters, of which a message is shown."""
    projector = Projector(TARGET, TELEGRAM)
    projector.feed(TurnStarted(turn_id="t"), 0.0)
    now = 0.0
    text = texts.mixed(size)[:size]
    for at in range(0, size, DELTA):
        now += 1 / PIECES_PER_S
        projector.feed(TextDelta(text=text[at : at + DELTA]), now)
        _perform(projector, now)
    _perform(projector, now + 10.0)  # now everything is shown, and the projector waits for the agent
    return projector


def _perform(projector: Projector, now: float) -> None:
    while not isinstance(step := projector.next(now), WaitUntil | Idle):
        projector.receipt(step, Delivered(Receipt(message_id="1")), now)


def _feed(projector: Projector, deltas: list[TextDelta]) -> None:
    feed = projector.feed
    for delta in deltas:
        feed(delta, 0.0)


def _append(given: list[str]) -> None:
    kept: list[str] = []
    for text in given:
        kept.append(text)  # noqa: PERF402  the loop that is compared


def _deltas(scale: Scale) -> Iterator[Row]:
    count = max(scale.deltas // 10, 1)
    deltas = [TextDelta(text="word")] * count
    given = [delta.text for delta in deltas]
    short, long = _grown(min(1_000, scale.text)), _grown(scale.text)
    few, many, bare = best_of_each(
        scale.repeats, [partial(_feed, short, deltas), partial(_feed, long, deltas), partial(_append, given)]
    )
    yield at_least(f"a live projector, {count:,} deltas, against list.append", many, bare, 0.10)
    yield at_most(f"a delta behind {scale.text:,} characters, against one behind 1,000", many, few, 1.3)


def _turn(text: str) -> list[tuple[float, Event]]:
    pieces = [TextDelta(text=text[at : at + DELTA]) for at in range(0, len(text), DELTA)]
    timed: list[tuple[float, Event]] = [(nth / PIECES_PER_S, piece) for nth, piece in enumerate(pieces, start=1)]
    return [(0.0, TurnStarted(turn_id="t")), *timed, (timed[-1][0], TurnCompleted())]


def _shown(text: str) -> list[str]:
    """Show a text live on Telegram. Returns the text so far at each edit."""
    moments = dry_run(_turn(text), TARGET, TELEGRAM)
    edits = [moment.at for moment in moments if isinstance(moment.operation, Edit)]
    return [text[: int(at * PIECES_PER_S) * DELTA] for at in edits]


def _answers(scale: Scale) -> Iterator[Row]:
    text = texts.mixed(2 * scale.text)
    half = text[: scale.text]
    once, twice = best_of_each(min(scale.repeats, 3), [partial(_shown, half), partial(_shown, text)])
    yield at_most(f"live on Telegram, {len(text):,} characters against half", twice, once, 2.2)
    edits = _shown(half)
    name = f"for each of {len(edits)} edits, all that came so far"
    if importlib.util.find_spec("telegramify_markdown"):
        convert = importlib.import_module("telegramify_markdown").convert
        sample = edits[:: max(len(edits) // 12, 1)]
        mean = sum(best_of(1, convert, said) for said in sample) / max(len(sample), 1)
        yield _beside(f"telegramify_markdown.convert {name} (from {len(sample)} of them)", once, mean * len(edits))
    if CHAT.exists() and (node := shutil.which("node")):
        work = json.dumps(
            {"chat": str(CHAT / "dist" / "index.js"), "text": half, "edits": [len(said) for said in edits]}
        )
        ran = subprocess.run([node, str(_AGAIN)], input=work, capture_output=True, text=True, check=True)  # noqa: S603
        yield _beside(f"npm chat StreamingMarkdownRenderer {name}", once, json.loads(ran.stdout)["seconds"])


def _beside(name: str, ours: float, theirs: float) -> Row:
    return Row(name, duration(ours), duration(theirs), f"1 / {theirs / ours:,.1f}")


def _memory(scale: Scale) -> Row:
    """The memory of a turn that waits for its agent, without the text itself."""
    turns = scale.turns * 10
    text = texts.mixed(1_000)[:1_000]
    _grown(1_000)  # loads what all turns share
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    held = [_grown(1_000) for _ in range(turns)]
    gc.collect()
    each = (tracemalloc.get_traced_memory()[0] - before) / len(held) - sys.getsizeof(text)
    tracemalloc.stop()
    return Row(
        f"{turns:,} live projectors: memory of each beyond its text",
        f"{each:,.0f} B",
        target="≤ 4,096 B",
        met=each <= 4096,
    )
