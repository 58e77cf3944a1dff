"""One trial: workers are killed one after another, the last one runs to its end, and the result is judged.

`TrialRunner` holds what trials of one kind share: a platform, workers that start fast, a folder. A chain is a list of
crash points: the first is where the first worker dies, the second where the next one dies, and so on. `kills.matrix`
says which chains are tried.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from kills.crash_points import CRASH_POINTS
from kills.judge import Verdict, judge, read_ledger
from kills.script import kill_capabilities, questions_of
from kills.start import KILLED, Workers
from kills.worker import RECOVERED
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from types import TracebackType


class TrialKind(msgspec.Struct, frozen=True, kw_only=True):
    """A platform, and what is done where it cannot say whether a message arrived; `doubt` as for `judge`."""

    platform: str
    doubt: Literal["none", "hold", "resend"] = "none"


KINDS = {
    "keyed": TrialKind(platform="keyed:300"),
    "readback": TrialKind(platform="readback:0.02"),
    "repeatable": TrialKind(platform="repeatable"),
    "unkeyed+hold": TrialKind(platform="unkeyed", doubt="hold"),
    "unkeyed+resend": TrialKind(platform="unkeyed", doubt="resend"),
}


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a chain: workers run and killed, and how often the last one reached each point.

    `reached_in_recovery` are the points it reached before it began to answer.
    """

    kind: str
    chain: tuple[str, ...]
    verdict: Verdict
    runs: int
    kills: int
    reached: dict[str, int]
    reached_in_recovery: dict[str, int]


class TrialRunner:
    """Makes trials of one kind, one at a time. Used by `with`."""

    def __init__(self, kind: str, questions: str = "matrix") -> None:
        self.kind = kind
        self._settings = KINDS[kind]
        self._questions = questions
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._workers = opened.enter_context(Workers())
            self.platform = opened.enter_context(PlatformProcess(kill_capabilities(self._settings.platform)))
            self._folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-kills-")))
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def ledger(self) -> Path:
        """The file of the ledger."""
        return self._folder / "ledger" / "ledger.db"

    def clear(self) -> None:
        """Delete the ledger and all messages."""
        self.platform.clear()
        shutil.rmtree(self.ledger.parent, ignore_errors=True)

    def run(self, *options: str, questions: str = "", kill_after_s: float | None = None) -> int:
        """Run one worker. Returns its exit code, or the negative number of the signal that ended it."""
        self._counts.unlink(missing_ok=True)
        on_unknown = "resend" if self._settings.doubt == "resend" else "hold"
        argv = ["--ledger", str(self.ledger), "--questions", questions or self._questions, "--on-unknown", on_unknown]
        if kill_after_s is None:
            argv += ["--count-into", str(self._counts)]
        code = self._workers.run([*argv, *options], self.platform.environment, kill_after_s=kill_after_s)
        # A killed worker may have written a request that the platform has not read yet: wait until it has.
        for _ in range(2):
            self.platform.account()
        return code

    def judge(self, questions: str = "") -> Verdict:
        """Compare what people read now with what they should read."""
        asked = questions_of(questions or self._questions)
        return judge(asked, self.platform.history(), read_ledger(self.ledger), doubt=self._settings.doubt)

    def trial(self, *chain: str) -> Trial:
        """Kill at each point of the chain, let the last worker end, and judge."""
        self.clear()
        kills = runs = 0
        verdict = Verdict()
        for moment in (*chain, ""):
            code = self.run("--kill-at", moment)
            runs += 1
            if code != KILLED:
                # The last worker, or one that did not reach its point.
                if code != 0:
                    verdict.violations.append(f"the worker ended with {code}")
                break
            kills += 1
        if not verdict.violations:
            verdict = self.judge()
        names = self._counts.read_text(encoding="ascii").split() if self._counts.exists() else []
        recovering = names[: names.index(RECOVERED)] if RECOVERED in names else names
        return Trial(
            kind=self.kind,
            chain=chain,
            verdict=verdict,
            runs=runs,
            kills=kills,
            reached=_counted(names),
            reached_in_recovery=_counted(recovering),
        )

    @property
    def _counts(self) -> Path:
        return self._folder / "counts"


def _counted(names: list[str]) -> dict[str, int]:
    return {point: names.count(point) for point in CRASH_POINTS if point in names}
