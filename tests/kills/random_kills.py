"""Kills workers at any moment while they serve many conversations, and sees that nothing is lost and nothing grows.

    make kills KILLS="--random 200 --seed 7"

Each worker is killed after a while that the seed draws, and the next one goes on, with some more questions each time.
In the end one runs to its end, and people must be able to read what they were to read; the ledger's folder must hold
what it held at the beginning, and a worker must hold open as many files as the first one did.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec

from kills.judge import Verdict
from kills.start import KILLED
from kills.worker import Report

if TYPE_CHECKING:
    from pathlib import Path

    from kills.trial import Bench

_SHORTEST_S, _LONGEST_S = 0.01, 0.2
_MORE_AFTER_A_KILL, _MORE_AFTER_AN_END = 4, 60
_LONGEST_LOG = 20 * 1024 * 1024
_AT_REST = {"ledger.db", "ledger.db.lock", "ledger.db.mark"}
_AT_WORK = _AT_REST | {"ledger.db-wal", "ledger.db-shm"}


class Course(msgspec.Struct, kw_only=True):
    """How it went: workers that were started and killed, questions asked, and how long the write-ahead log became."""

    kind: str
    seed: int
    runs: int = 0
    kills: int = 0
    questions: int = 0
    longest_log: int = 0
    verdict: Verdict


def kill_at_random(bench: Bench, restarts: int, seed: int) -> Course:
    """Kill so many workers one after the other; what people read in the end, and what was left behind."""
    chance = random.Random(seed)
    bench.clear()
    first = _ended(bench, "load:0")
    questions = _MORE_AFTER_AN_END
    course = Course(kind=bench.kind, seed=seed, verdict=bench.judge("load:0"))
    while course.kills < restarts:
        code = bench.run(questions=f"load:{questions}", kill_after_s=chance.uniform(_SHORTEST_S, _LONGEST_S))
        course.runs += 1
        course.kills += code == KILLED
        if code not in {KILLED, 0}:
            course.verdict.violations.append(f"worker {course.runs} ended with {code}")
            return course
        _look(bench.ledger.parent, course)
        questions += _MORE_AFTER_A_KILL if code == KILLED else _MORE_AFTER_AN_END
    _ended(bench, f"load:{questions}")
    course.runs += 1
    course.questions = questions
    course.verdict = bench.judge(f"load:{questions}")
    last = _ended(bench, "load:0", "--prune")
    left = _names(bench.ledger.parent)
    if left != _AT_REST:
        course.verdict.violations.append(f"the folder holds {sorted(left)}")
    if last != first:
        course.verdict.violations.append(f"the first worker left {first}, the last one {last}")
    return course


def _ended(bench: Bench, questions: str, *more: str) -> Report | str:
    """What a worker tells that runs to its end."""
    path = bench.ledger.parent.with_name("report")
    code = bench.run(questions=questions, more=(*more, "--report", str(path)))
    return msgspec.json.decode(path.read_bytes(), type=Report) if code == 0 else f"the exit code {code}"


def _look(folder: Path, course: Course) -> None:
    """What a killed worker left in the folder."""
    if extra := _names(folder) - _AT_WORK:
        course.verdict.violations.append(f"the folder holds {sorted(extra)} besides")
    log = folder / "ledger.db-wal"
    course.longest_log = max(course.longest_log, log.stat().st_size if log.exists() else 0)
    if course.longest_log > _LONGEST_LOG:
        course.verdict.violations.append(f"the write-ahead log has {course.longest_log} bytes")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()
