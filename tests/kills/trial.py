"""One trial: the real command is killed one or more times, then it finishes, and the result is judged.

A `Kill` says what the platform does meanwhile and when the process dies:

    held        the platform has read the n-th call and holds its answer back
    drain       the same, and the process was asked to stop by SIGTERM before it is killed
    retry       the platform refuses the n-th call for a moment (429)
    ambiguous   the connection is reset in the n-th call
    point       at a crash point inside the process, see `kills.crash_points`
    time        after so many milliseconds

After each kill the same command runs again with the same input, or `tailrace deliveries resume`.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from kills.judge import LedgerContent, Verdict, judge, read_ledger, words_of
from kills.simulator_process import SimulatorProcess
from kills.start import KILLED, CommandStarter, Signal, Start
from kills.turns import KINDS, TurnInput, kill_capabilities
from tailrace.deliveries import OPEN, TURN_OPEN, State, TurnState
from tailrace.testing.faults import NoAnswer, Reset, Rule, TooMany
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from types import TracebackType

_MAX_FINISHING_RUNS = 3
_LOOK_AGAIN_S = 0.004
_WRITES = "|".join(  # noqa: FLY002 -- one platform in each line
    ("post|edit|delete", "sendMessage|editMessageText|deleteMessage", "chat.postMessage|chat.update|chat.delete")
)
_RETRY_S = 0.4
IN_HANDS = frozenset({"held", "drain"})


class Kill(msgspec.Struct, frozen=True):
    """One kill. `applied`: the platform performs the call that it holds. `at` counts calls, or milliseconds."""

    how: Literal["held", "drain", "retry", "ambiguous", "point", "time"]
    at: int = 1
    applied: bool = True
    point: str = ""

    @property
    def faults(self) -> list[Rule]:
        """What the platform does with the n-th call that changes a chat."""
        match self.how:
            case "held" | "drain":
                return [Rule(fault=NoAnswer(applied=self.applied), kind=_WRITES, at=self.at)]
            case "retry":
                return [Rule(fault=TooMany(_RETRY_S), kind=_WRITES, at=self.at)]
            case "ambiguous":
                return [Rule(fault=Reset(applied=self.applied), kind=_WRITES, at=self.at)]
            case _:
                return []


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The kills of one trial in a row, and how the turn is finished: by the same input again, or by `resume`."""

    kills: tuple[Kill, ...]
    presentation: Literal["parts", "live", "processing", "final"] = "parts"
    finish: Literal["repeat", "resume"] = "repeat"


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """The result: how many kills of each sort were made, and the verdict. `kills` has the sum."""

    kind: str
    plan: Plan
    kills: Counter[str]
    verdict: Verdict


class TrialRunner:
    """Makes trials of one kind, one at a time. Used by `with`."""

    def __init__(self, kind: str, *, deadline_s: float = 30.0) -> None:
        self.name = kind
        self.kind = KINDS[kind]
        self._deadline_s = deadline_s
        self._open = ExitStack()
        self._number = 0

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self.starter = opened.enter_context(CommandStarter())
            self.platform = self._new_platform(opened)
            self._folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="tailrace-kills-")))
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.close()

    def _new_platform(self, opened: ExitStack) -> PlatformProcess | SimulatorProcess:
        if self.kind.chat is not None:
            return opened.enter_context(SimulatorProcess(self.kind.platform, self.kind.chat))
        capabilities = kill_capabilities(self.kind.platform, deadline_s=self._deadline_s)
        return opened.enter_context(PlatformProcess(capabilities))

    @property
    def ledger(self) -> Path:
        """The file of the ledger."""
        return self._folder / "ledger" / "ledger.db"

    @property
    def log(self) -> str:
        """What the commands wrote since `clear`."""
        path = self._folder / "log"
        return path.read_text() if path.exists() else ""

    def clear(self) -> None:
        """Delete the ledger and all messages."""
        self.platform.clear()
        self.platform.clear_faults()
        shutil.rmtree(self.ledger.parent, ignore_errors=True)
        self.ledger.parent.mkdir()
        (self._folder / "log").unlink(missing_ok=True)

    def new_turn(self, presentation: Literal["parts", "live", "processing", "final"] = "parts") -> TurnInput:
        """A turn that was not delivered here before, in a chat of its own."""
        self._number += 1
        return TurnInput(
            number=self._number,
            chat=self.kind.chat or f"room {self._number}",
            presentation=presentation,
            channel=self.kind.channel,
            filler=self.kind.filler,
        )

    def start(self, given: TurnInput | None, *, point: str = "") -> None:
        """Start `deliver` with this input, or `deliveries resume`."""
        on_unknown = "resend" if self.kind.in_doubt == "resend" else "hold"
        arguments = ["deliveries", "resume"] if given is None else [*given.arguments, "--on-unknown", on_unknown]
        self.starter.send(
            Start(
                argv=[*arguments, "--ledger", str(self.ledger)],
                environment=self.platform.environment,
                given=[] if given is None else given.lines,
                log=str(self._folder / "log"),
                kill_at=point,
            )
        )

    def run(self, given: TurnInput | None) -> int:
        """Run a command to its end. Returns its exit code."""
        self.start(given)
        return self.starter.wait()

    def content(self, given: TurnInput) -> LedgerContent:
        """What the ledger has of a turn."""
        return read_ledger(self.ledger, given.turn_id, f"{given.turn_id}/interrupted")

    def is_finished(self, given: TurnInput) -> bool:
        """Whether the turn has ended and nothing of its chat is open."""
        content = self.content(given)
        turn = content.turns.get(given.turn_id)
        is_open = any(row.state in OPEN for row in content.rows if row.operation.target.chat == given.chat)
        return turn is not None and turn.state not in TURN_OPEN and not is_open

    def kill(self, kill: Kill, given: TurnInput | None) -> bool:
        """Start a command and kill it. Returns False if it ended before."""
        calls = self._writes()
        if kill.faults:
            self.platform.add_faults(*kill.faults)
        self.start(given, point=kill.point)
        is_reached = kill.how == "point" or self._is_reached(kill, calls)
        code = self.starter.wait() if kill.how == "point" or not is_reached else self.starter.kill()
        self.platform.clear_faults()
        # A killed command may have written a request that the platform has not read yet: wait until it has.
        for _ in range(2):
            self.platform.account()
        assert not self._leaks(), "the secret of the bot is in the ledger or in the output"
        return code == KILLED

    def _leaks(self) -> list[str]:
        """The files that contain the secret of the bot. After a kill the log of SQLite is there, too."""
        if isinstance(self.platform, PlatformProcess):
            return []
        files = [path for path in self._folder.rglob("*") if path.is_file()]
        return [path.name for path in files if any(map(path.read_bytes().__contains__, self.platform.secrets))]

    def _writes(self) -> int:
        """How many calls have changed a chat, or tried to."""
        return sum(count for kind, count in self.platform.account().counts.items() if kind in _WRITES.split("|"))

    def _is_reached(self, kill: Kill, calls_before: int) -> bool:
        """Wait for the moment of the kill. Returns False if the command ends before."""
        if kill.how == "time":
            return not self.starter.ends_within(kill.at / 1000)
        while self._writes() < calls_before + kill.at:
            if self.starter.ends_within(_LOOK_AGAIN_S):
                return False
        if kill.how == "drain":
            self.starter.send(Signal(signal.SIGTERM))
        # Some time, so that the command has recorded the answer, or drains.
        return kill.how == "held" or not self.starter.ends_within(0.05)

    def trial(self, plan: Plan, *, clear: bool = True) -> Trial:
        """Kill as the plan says, let the turn finish, and judge."""
        if clear:
            self.clear()
        given, kills, seen = self.new_turn(plan.presentation), Counter[str](), set[str]()
        for number, kill in enumerate(plan.kills):
            if not self.kill(kill, given if number == 0 or plan.finish == "repeat" else None):
                break
            kills.update(["kills", self._sort_of(kill, given)])
            kills["recovery"] += number > 0
            kills["in_hands"] += kill.how in IN_HANDS
            if plan.presentation in {"parts", "final"}:  # a preview may show more than was saved
                seen |= set(words_of(self.platform.history(given.chat)))
        verdict = self._finish(given, plan, frozenset(seen))
        return Trial(kind=self.name, plan=plan, kills=kills, verdict=verdict)

    def _sort_of(self, kill: Kill, given: TurnInput) -> str:
        """When the kill came: for a wait, what the ledger says counts."""
        if kill.how not in {"retry", "ambiguous"}:
            return kill.how
        states = {row.state for row in self.content(given).rows}
        return "retry" if State.RETRY in states else "ambiguous" if State.AMBIGUOUS in states else "time"

    def _finish(self, given: TurnInput, plan: Plan, seen: frozenset[str]) -> Verdict:
        codes = []
        for _ in range(_MAX_FINISHING_RUNS):
            codes.append(self.run(given if plan.finish == "repeat" else None))
            if self.is_finished(given):
                break
        else:
            if self.content(given).turns.get(given.turn_id) is None:
                codes.append(self.run(given))  # nothing was recorded before the kill, so nothing could be resumed
        content, messages = self.content(given), self.platform.history(given.chat)
        verdict = judge(given, self.kind, messages, content, seen=seen)
        verdict.other += self._repeat(given, content)
        verdict.other += [f"{each.about}: {each.detail}" for each in self.platform.account().complaints]
        verdict.other += [f"the secret of the bot is in the file {name}" for name in self._leaks()]
        if "Traceback" in self.log or not set(codes) <= {0, 1}:
            verdict.other.append(f"the commands ended with {codes} and wrote {self.log[-2000:]}")
        return verdict

    def _repeat(self, given: TurnInput, content: LedgerContent) -> list[str]:
        """The same input once more sends nothing."""
        before = self.platform.texts(given.chat)
        code, turn = self.run(given), content.turns.get(given.turn_id)
        is_held = any(row.state is State.UNKNOWN for row in content.rows if row.turn_id == given.turn_id)
        is_whole = turn is not None and turn.state is TurnState.DONE and not is_held
        found = [f"the same input again ended with {code}"] if code != (0 if is_whole else 1) else []
        if (after := self.platform.texts(given.chat)) != before:
            found.append(f"the same input again changed the chat from {before} to {after}")
        return found
