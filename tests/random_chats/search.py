"""Searches many random scenes: `make search-chats`.

    make search-chats [CHATS="--scenes 100000 --seed 7"]

Prints what is wrong with a scene, and the command that repeats it. Exits with 1 if a scene broke a law.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from random_chats.judge import judge
from random_chats.play import Played, play
from random_chats.scenes import scene

_REPORT_EVERY = 1_000


def report(played: Played, problems: list[str]) -> str:
    """Everything about a scene that breaks a law."""
    given = played.scene
    lines = [f"seed {given.seed}: busy={given.busy} queue={given.max_queue_size} {given.limits}"]
    lines += [f"    {pause_s:7.3f} s, then {action}" for pause_s, action in given.actions]
    for chat, said in played.said.items():
        lines.append(f"chat {chat}:")
        for each in said:
            turn = played.turns.get(each.message.turn_id)
            lines.append(
                f"    {each.message.command or each.message.text!r} {each.message.turn_id}: {turn and turn.state}"
            )
        lines += [
            f"    {row.id} {row.state}: {row.operation!r:.300} {row.error}"
            for row in played.rows
            if row.operation.target.chat == chat
        ]
        lines += [
            f"    reads at {message.at:.2f}: {message.text[:300]!r}{' deleted' * message.deleted}"
            for message in played.platform.history(chat)
        ]
    lines += [str(run)[:300] for run in played.runs]
    return "\n".join([*lines, *problems])


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make search-chats")
    parser.add_argument("--scenes", type=int, default=20_000, help="how many scenes")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first scene; the others follow")
    options = parser.parse_args()
    totals, broken = Counter[str](), 0
    for seed in range(options.seed, options.seed + options.scenes):
        played = play(scene(seed))
        totals.update(turn.state.value for turn in played.turns.values())
        totals["process ends"] += played.ends
        if problems := judge(played):
            print(report(played, problems) if not broken else f"seed {seed}: {problems[0][:300]}", flush=True)
            broken += 1
        if (seed - options.seed + 1) % _REPORT_EVERY == 0:
            print(f"{seed - options.seed + 1} scenes", flush=True)
    print(f"{options.scenes} scenes, {broken} broken; {dict(totals)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
