"""Kills workers at random times while they serve many conversations; nothing may be lost, and nothing may grow.

    make kills KILLS="--random 200 --seed 7"

The seed says after how long each worker is killed. The next one continues, with some more questions each time. The last
worker runs to its end. Then people must be able to read every answer; the ledger's folder must contain the same files
as in the beginning, and a worker must have as many files open as the first one.
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

    from kills.trial import TrialRunner

_SHORTEST_S, _LONGEST_S = 0.01, 0.2
_MORE_AFTER_A_KILL, _MORE_AFTER_AN_END = 4, 60
_MAX_LOG_BYTES = 20 * 1024 * 1024
_FILES_AT_REST = {"ledger.db", "ledger.db.lock", "ledger.db.mark"}
_FILES_AT_WORK = _FILES_AT_REST | {"ledger.db-wal", "ledger.db-shm"}


class RandomKills(msgspec.Struct, kw_only=True):
    """The result: workers run and killed, questions asked, and the largest size of the write-ahead log."""

    kind: str
    seed: int
    runs: int = 0
    kills: int = 0
    questions: int = 0
    max_log_bytes: int = 0
    verdict: Verdict


def kill_at_random(runner: TrialRunner, kills: int, seed: int) -> RandomKills:
    """Kill so many workers one after another, then judge what people read and what was left behind."""
    chance = random.Random(seed)
    runner.clear()
    first = _run_to_end(runner, "load:0")
    questions = _MORE_AFTER_AN_END
    result = RandomKills(kind=runner.kind, seed=seed, verdict=runner.judge("load:0"))
    while result.kills < kills:
        code = runner.run(questions=f"load:{questions}", kill_after_s=chance.uniform(_SHORTEST_S, _LONGEST_S))
        result.runs += 1
        result.kills += code == KILLED
        if code not in {KILLED, 0}:
            result.verdict.violations.append(f"worker {result.runs} ended with {code}")
            return result
        _check_folder(runner.ledger.parent, result)
        questions += _MORE_AFTER_A_KILL if code == KILLED else _MORE_AFTER_AN_END
    _run_to_end(runner, f"load:{questions}")
    result.runs += 1
    result.questions = questions
    violations, result.verdict = result.verdict.violations, runner.judge(f"load:{questions}")
    last = _run_to_end(runner, "load:0", "--prune")
    if (left := _names(runner.ledger.parent)) != _FILES_AT_REST:
        violations.append(f"the folder contains {sorted(left)}")
    if last != first:
        violations.append(f"the first worker had {first} at its end, the last one {last}")
    result.verdict.violations += violations
    return result


def _run_to_end(runner: TrialRunner, questions: str, *options: str) -> Report | str:
    path = runner.ledger.parent.with_name("report")
    code = runner.run(*options, "--report", str(path), questions=questions)
    return msgspec.json.decode(path.read_bytes(), type=Report) if code == 0 else f"the exit code {code}"


def _check_folder(folder: Path, result: RandomKills) -> None:
    """Check what a killed worker left in the folder."""
    if extra := _names(folder) - _FILES_AT_WORK:
        result.verdict.violations.append(f"the folder contains also {sorted(extra)}")
    log = folder / "ledger.db-wal"
    result.max_log_bytes = max(result.max_log_bytes, log.stat().st_size if log.exists() else 0)
    if result.max_log_bytes > _MAX_LOG_BYTES:
        result.verdict.violations.append(f"the write-ahead log has {result.max_log_bytes} bytes")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()
