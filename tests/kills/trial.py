"""One trial: workers are killed at the points of a chain, one after the other, one runs to its end, and it is judged.

`Bench` holds what trials of one kind share: a platform, workers that start quickly, a folder. A chain is a row of
settings of `CRASH`: the first is where the first worker dies, the second where the one after it does, and so on. Which
chains are tried is left to `kills.matrix`.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from kills.crash_points import crash_points
from kills.judge import Verdict, judge, read_ledger
from kills.script import kill_capabilities, questions_of
from kills.start import KILLED, Workers
from kills.worker import RECOVERED
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from types import TracebackType


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A platform and what is done where it cannot tell; `doubt` as for `judge`."""

    platform: str
    doubt: Literal["none", "hold", "resend"] = "none"

    @property
    def on_unknown(self) -> str:
        """The setting of the courier."""
        return "resend" if self.doubt == "resend" else "hold"


KINDS = {
    "keyed": Kind(platform="keyed:300"),
    "readback": Kind(platform="readback:0.02"),
    "repeatable": Kind(platform="repeatable"),
    "unkeyed+hold": Kind(platform="unkeyed", doubt="hold"),
    "unkeyed+resend": Kind(platform="unkeyed", doubt="resend"),
}


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a chain: how many workers ran and were killed, and which points the last one passed, by name.

    `recovering` are the points it passed before it began to answer.
    """

    kind: str
    chain: tuple[str, ...]
    verdict: Verdict
    runs: int
    kills: int
    passed: dict[str, int]
    recovering: dict[str, int]


class Bench:
    """Where trials of one kind are made, one at a time. Used by `with`."""

    def __init__(self, kind: str, questions: str = "matrix") -> None:
        self.kind = kind
        self._how = KINDS[kind]
        self._questions = questions
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as held:
            self._workers = held.enter_context(Workers())
            self.platform = held.enter_context(PlatformProcess(kill_capabilities(self._how.platform)))
            self._folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-kills-")))
            self._held = held.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.close()

    @property
    def ledger(self) -> Path:
        """Where the ledger of the trial lies."""
        return self._folder / "ledger" / "ledger.db"

    def clear(self) -> None:
        """Forget everything: the next worker finds neither a ledger nor a message."""
        self.platform.clear()
        shutil.rmtree(self.ledger.parent, ignore_errors=True)

    def run(
        self,
        crash: str = "",
        *,
        questions: str = "",
        more: tuple[str, ...] = (),
        kill_after_s: float | None = None,
    ) -> int:
        """One worker, from its start to its end; how it ended."""
        self._counts.unlink(missing_ok=True)
        environment = {**self.platform.environment, "CRASH": crash}
        if kill_after_s is None:
            environment["CRASH_COUNT"] = str(self._counts)
        argv = ["--ledger", str(self.ledger), "--questions", questions or self._questions]
        code = self._workers.run(
            [*argv, "--on-unknown", self._how.on_unknown, *more], environment, kill_after_s=kill_after_s
        )
        # What a worker sent before it was killed may lie before the platform's door: let it in before the next comes.
        for _ in range(2):
            self.platform.account()
        return code

    def judge(self, questions: str = "") -> Verdict:
        """What people read now, against what they were to read."""
        claims = read_ledger(self.ledger)
        asked = questions_of(questions or self._questions)
        return judge(asked, self.platform.history(), claims, doubt=self._how.doubt)

    def trial(self, *chain: str) -> Trial:
        """Kill at each point of the chain, let the last worker end, and judge."""
        self.clear()
        kills = runs = 0
        verdict = Verdict()
        for crash in (*chain, ""):
            code = self.run(crash)
            runs += 1
            if code != KILLED:
                # A point that was not reached: the trial is over early, and must have ended well.
                if code != 0:
                    verdict.violations.append(f"the worker ended with {code}")
                break
            kills += 1
        if not verdict.violations:
            verdict = self.judge()
        passed, recovering = self._passed()
        return Trial(
            kind=self.kind,
            chain=chain,
            verdict=verdict,
            runs=runs,
            kills=kills,
            passed=passed,
            recovering=recovering,
        )

    @property
    def _counts(self) -> Path:
        return self._folder / "counts"

    def _passed(self) -> tuple[dict[str, int], dict[str, int]]:
        names = self._counts.read_text(encoding="ascii").split() if self._counts.exists() else []
        recovering = names[: names.index(RECOVERED)] if RECOVERED in names else names
        return _counted(names), _counted(recovering)


def _counted(names: list[str]) -> dict[str, int]:
    return {point: names.count(point) for point in crash_points() if point in names}
