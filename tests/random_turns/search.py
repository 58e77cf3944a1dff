"""Plays many random scenes and judges each: `make search-turns`.

    make search-turns [TURNS="--turns 100000 --seed 0 --presentation live --channel slack"]
    make search-turns TURNS="--turns 1 --seed 4711"

The seed of a scene decides everything in it. Exits with 1 if a law was broken, with a report of the first such run and
the command that repeats it.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import TYPE_CHECKING

from random_turns.judge import judge
from random_turns.random_run import play
from random_turns.scenes import PRESENTATIONS
from tailrace.capabilities import CHANNELS
from tailrace.deliveries import State

if TYPE_CHECKING:
    from random_turns.random_run import RandomRun

COLUMNS = (
    "turns",
    "begun_again",
    "deliveries",
    "refused",
    "unknown",
    "doubled",
    "deleted",
    "cancelled",
    "taken_over",
    "late",
    "broken",
)
_REPORT_EVERY = 1000
_LONGEST_LINE = 400


def counts_of(run: RandomRun) -> Counter[str]:
    """What happened in a run, by the names of `COLUMNS`."""
    states = Counter(row.state for row in run.rows)
    return Counter(
        turns=len(run.scene.turns),
        begun_again=sum(run.begun.values()) - len(run.begun),
        deliveries=len(run.rows),
        refused=states[State.FAILED] + states[State.DEAD],
        unknown=states[State.UNKNOWN],
        doubled=sum(row.may_be_double for row in run.rows),
        deleted=len(run.platform.deleted),
        cancelled=len(run.cancelled_at),
        taken_over=run.takeovers,
        late=len(run.late_keys | run.late_messages),
    )


def report(run: RandomRun, breaches: list[str]) -> str:
    """Everything about a run that breaks a law, and the command that repeats it."""
    scene = run.scene
    lines = [str(value)[:_LONGEST_LINE] for value in (scene.capabilities, scene.settings, scene.trouble)]
    for script in scene.turns:
        turn = run.turns.get(script.turn_id)
        lines.append(f"{script.turn_id} in {script.target}: {turn and turn.state}")
        lines += [f"    {pause_s:7.2f} s, then {event}" for pause_s, event in script.events]
    lines.append("deliveries:")
    for row in sorted(run.rows, key=lambda row: row.position):
        lines.append(f"    {row.position} {row.id} {row.state}: {row.operation} {row.error}"[:_LONGEST_LINE])
    lines.append("messages:")
    for message in run.platform.history():
        flags = " deleted" * message.deleted + " streaming" * message.streaming
        lines.append(f"    {message.chat}/{message.message_id}{flags}: {message.media} {message.text!r}")
    options = f"--turns 1 --seed {scene.seed} --presentation {scene.presentation} --channel {scene.channel}"
    return "\n".join([*lines, *breaches, f'again with: make search-turns TURNS="{options}"'])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make search-turns")
    parser.add_argument("--turns", type=int, default=100_000, help="how many turns")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first scene; the others follow")
    parser.add_argument("--presentation", choices=PRESENTATIONS, help="only this one")
    parser.add_argument("--channel", choices=list(CHANNELS), help="only this one")
    options = parser.parse_args()
    totals = {presentation: Counter[str]() for presentation in PRESENTATIONS}
    seed, turns = options.seed, 0
    while turns < options.turns:
        run = play(seed, options.presentation, options.channel)
        total = totals[run.scene.presentation]
        total.update(counts_of(run))
        if breaches := judge(run):
            is_first = not any(counts["broken"] for counts in totals.values())
            in_short = f"seed {seed}: {breaches[0].strip().splitlines()[-1]}"
            print(report(run, breaches) if is_first else in_short, flush=True)
            total["broken"] += 1
        if turns // _REPORT_EVERY < (turns := turns + len(run.scene.turns)) // _REPORT_EVERY:
            print(f"{turns} turns", flush=True)
        seed += 1
    print(f"{'':12}" + "".join(f"{name:>12}" for name in COLUMNS))
    for presentation, counts in totals.items():
        print(f"{presentation:12}" + "".join(f"{counts[name]:12}" for name in COLUMNS))
    return 1 if any(counts["broken"] for counts in totals.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
