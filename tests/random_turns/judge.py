"""The laws at the end of a run: people read what was said, once, in order and nothing else; and the ledger is true.

The ledger is held against the platform (`_check_chat`), and each turn against what it should say (`_check_turn`).
Words may be missing only where the ledger says that something was not delivered, or people deleted a message.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from cutting_laws.parts import measure
from cutting_laws.reading import read
from random_turns.expected import WORD, ExpectedTurn
from random_turns.unreliable_channel import SECRET
from random_turns.watched_turn import addressee_of, text_of
from tailrace.capabilities import Keyed, StreamRules, Unkeyed
from tailrace.deliveries import NOTICE_ORDINAL, OPEN, TURN_OPEN, UNDELIVERED, State, TurnState
from tailrace.delivery.result import TOO_OLD
from tailrace.events import TextDelta, ToolStarted
from tailrace.markdown.splitter import Splitter
from tailrace.operations import CloseStream, Delete, Edit, OpenStream, Post, PostMedia
from tailrace.projector.presentation import rules_for

if TYPE_CHECKING:
    from random_turns.expected import Item
    from random_turns.random_run import RandomRun
    from random_turns.scenes import Scene, TurnScript
    from tailrace.deliveries import Delivery
    from tailrace.events import Event
    from tailrace.projector.presentation import PresentationRules
    from tailrace.testing.wire import PlatformMessage


_DECIDED_S = 10.0  # a call that was decided leaves within 5 s, and takes at most 4.5 s


def judge(run: RandomRun) -> list[str]:
    """Every broken law of a run."""
    if run.breaches:
        return run.breaches  # what is wrong in the end would only repeat it
    chats = {script.target.chat for script in run.scene.turns}
    breaches = [breach for chat in sorted(chats) for breach in _Chat(run, chat).breaches()]
    breaches += _secrets(run) + _unnoticed(run)
    return breaches or [breach for script in run.scene.turns for breach in _Turn(run, script).breaches()]


def _secrets(run: RandomRun) -> list[str]:
    """Nothing that is stored contains a secret or half a character."""
    stored = [row.error + (row.receipt.message_id + row.receipt.degraded if row.receipt else "") for row in run.rows]
    return [
        f"{text!r} is stored" for text in stored if SECRET in text or text != text.encode(errors="replace").decode()
    ]


def _unnoticed(run: RandomRun) -> list[str]:
    """A process that continued after it had lost a conversation, and called its platform, has noticed that."""
    return ["a late call is not in the log"] if run.late_keys and not run.fenced else []


def _creates(row: Delivery) -> bool:
    return isinstance(row.operation, Post | OpenStream | PostMedia)


class _Chat:
    """One chat: its deliveries in their order, and its messages."""

    def __init__(self, run: RandomRun, chat: str) -> None:
        self._run = run
        self._rows = sorted(
            (row for row in run.rows if row.operation.target.chat == chat), key=lambda row: row.position
        )
        self._messages = run.platform.history(chat)
        # Where nothing can be edited, text that was taken back and said again is posted again.
        self._repeating = {
            script.turn_id
            for script in run.scene.turns
            if run.scene.capabilities.edits is None and ExpectedTurn(run.events_of(script)).was_revised
        }
        self._first_texts = {
            message.message_id: f"{message.media} {run.platform.versions(message.message_id)[0].message.text}"
            for message in self._messages
        }

    def breaches(self) -> list[str]:
        found = [f"{row.id} is still {row.state}" for row in self._rows if row.state in OPEN]
        return found + self._copies() + self._last_texts() + self._unknown() + self._notices()

    def _copies(self) -> list[str]:
        """Each delivery made as many messages as its state says, and they are in the order of the deliveries."""
        seen = Counter(self._first_texts.values())
        rows: dict[str, list[Delivery]] = {}
        for row in self._rows:
            if _creates(row):
                rows.setdefault(_first_text(row), []).append(row)
        found = [f"no delivery posted {text!r}" for text in seen if text not in rows]
        for text, those in rows.items():
            states = [row.state for row in those if row.state is not State.SUPERSEDED]
            may_repeat = those[0].turn_id in self._repeating
            if State.UNKNOWN in states[:-1] and WORD.search(text) and not may_repeat:
                found.append(f"{text!r} may be there, and was posted again")
            least = sum(row.state is State.DELIVERED for row in those)
            most = sum(_most_copies(row) + (row.key in self._run.late_keys) for row in those)
            # A lookup does not find what people deleted: then it is posted again.
            deleted = sum(self._first_texts.get(key) == text for key in self._run.platform.deleted)
            if seen[text] < least or seen[text] - deleted > most:
                found.append(f"{text!r} was posted {seen[text]} times, not {least} to {most} times: {states}")
        singles = [rows[text][0] for text in self._first_texts.values() if len(rows.get(text, ())) == 1]
        order = [row.position for row in singles if row.key not in self._run.late_keys]
        return found if order == sorted(order) else [*found, f"out of order: the deliveries {order}"]

    def _last_texts(self) -> list[str]:
        """A message that was changed last by a delivery says what that says."""
        last = {addressee_of(row.operation) or "": row for row in self._rows}
        texts = {message.message_id: message.text for message in self._messages if not message.deleted}
        return [
            f"{row.id} made {message_id} say {text_of(row.operation)!r}, and it says {texts.get(message_id)!r}"
            for message_id, row in last.items()
            if isinstance(row.operation, Edit | CloseStream) and row.state is State.DELIVERED
            if message_id not in self._run.platform.deleted | self._run.late_messages
            and texts.get(message_id) != text_of(row.operation)
        ]

    def _unknown(self) -> list[str]:
        """A delivery is unknown only if that cannot be found out, and it may not be sent again."""
        scene = self._run.scene
        # Without a true wall clock the age of a key is unknown.
        no_answer = Unkeyed | Keyed if "clock" in scene.trouble.accidents else Unkeyed
        may_be = isinstance(scene.capabilities.idempotency, no_answer) and scene.on_unknown == "hold"
        return [
            f"{row.id} is unknown, though it could be found out or sent again ({row.error})"
            for row in self._rows
            # After a doubt a refusal is no answer.
            if row.state is State.UNKNOWN and not (may_be or row.is_exhausted or "blocked" in row.error)
        ]

    def _notices(self) -> list[str]:
        """A line says that a part is missing, directly after that part."""
        missing: dict[str, int] = {}
        notices = {row.turn_id: row for row in self._rows if row.ordinal == NOTICE_ORDINAL}
        for row in self._rows:
            is_part = row.ordinal != NOTICE_ORDINAL and not isinstance(row.operation, Delete)
            if row.state in UNDELIVERED and is_part and row.error != TOO_OLD and row.policy.is_reported:
                missing.setdefault(row.turn_id, row.position)
        found = [f"a part of {turn_id} is missing, and no line says so" for turn_id in missing.keys() - notices.keys()]
        for turn_id in missing.keys() & notices.keys():
            notice = notices[turn_id]
            if any(missing[turn_id] < row.position < notice.position for row in self._rows):
                found.append(f"the notice of {turn_id} is not directly after the missing part")
        return found


def _first_text(row: Delivery) -> str:
    operation = row.operation
    if isinstance(operation, PostMedia):
        return f"{operation.url} {operation.caption}"
    return f" {text_of(operation)}"


def _most_copies(row: Delivery) -> int:
    match row.state:
        case State.DELIVERED | State.UNKNOWN | State.CANCELLED:
            return row.attempt if row.may_be_double else min(row.attempt, 1)
        case _:
            return 0


class _Turn:
    """One turn: what it should say, its deliveries, and its messages."""

    def __init__(self, run: RandomRun, script: TurnScript) -> None:
        self._run, self._scene, self._script = run, run.scene, script
        self._turn = run.turns[script.turn_id]
        self._events = run.events_of(script)
        received = run.received.get(script.turn_id, 0)
        is_cut = self._turn.is_cancelled and received < len(self._events)
        self._is_closed_early = self._turn.state is TurnState.INTERRUPTED or is_cut
        if self._is_closed_early:
            self._events = self._events[:received]
        self._expected = ExpectedTurn(self._events, usage=run.scene.settings.usage)
        self._expected.close()
        rows = [row for row in run.rows if row.turn_id == script.turn_id and row.ordinal != NOTICE_ORDINAL]
        self._rows = sorted(rows, key=lambda row: row.position)
        messages = {message.message_id: message for message in run.platform.history()}
        self._made = {
            row.receipt.message_id: messages[row.receipt.message_id]
            for row in self._rows
            if row.receipt is not None and _creates(row) and row.state is State.DELIVERED
        }
        last = {addressee_of(row.operation) or (row.receipt and row.receipt.message_id): row for row in self._rows}
        # Their last change failed, or they should have grown and cannot: they may say something older.
        self._stale = {key for key, row in last.items() if key and row.state is not State.DELIVERED}
        if run.scene.capabilities.edits is None:
            self._stale |= {row.receipt.message_id for row in self._rows if row.receipt and row.receipt.degraded}
        self._stale |= run.late_messages & self._made.keys()
        self._processing_ids = {
            row.receipt.message_id
            for row in self._rows
            if row.receipt is not None and isinstance(row.operation, Post) and row.operation.is_processing
        }

    def breaches(self) -> list[str]:
        if self._turn.state in TURN_OPEN:
            return [f"{self._turn.turn_id} is still {self._turn.state}"]
        if self._is_closed_early:
            return self._interrupted()
        if found := self._after_cancel():
            return found
        return self._words() or self._left_open() or self._to_the_letter() or self._processing()

    def _answer(self) -> list[PlatformMessage]:
        """The messages that are the answer for sure, as they are now."""
        return [
            message
            for message_id, message in self._made.items()
            if not message.deleted and message_id not in self._processing_ids and message_id not in self._stale
        ]

    def _found(self) -> list[str]:
        return [word for message in self._answer() for word in WORD.findall(f"{message.media} {message.text}")]

    def _missing(self) -> set[str]:
        """Words that people may miss: of what was not delivered, of what is stale, and of what people deleted."""
        versions = self._run.platform.versions
        lost = self._stale | (self._run.platform.deleted & self._made.keys())
        texts = [version.message.text for key in lost for version in versions(key)]
        texts += [message.media for message_id, message in self._made.items() if message_id in lost]
        undelivered = UNDELIVERED | {State.CANCELLED}
        texts += [text_of(row.operation) for row in self._rows if row.state in undelivered]
        return set(WORD.findall(" ".join(texts)))

    def _words(self) -> list[str]:
        """Each word that was said can be read, once, and in its place."""
        expected, found = self._expected, self._found()
        is_stuck = expected.was_revised and self._scene.capabilities.edits is None
        if is_stuck:
            # Nothing can be removed there: what was said last counts.
            valid = set(expected.words)
            found = [word for nth, word in enumerate(found) if word in valid and word not in found[nth + 1 :]]
        if twice := sorted(word for word, count in Counter(found).items() if count > 1):
            return [f"said twice: {twice}"]
        if wrong := sorted(set(found) - set(expected.words)):
            return [f"never said, or taken back: {wrong}"]
        was_restarted = self._run.begun[self._script.turn_id] > 1
        is_excused = self._has_replaced() or (is_stuck and (expected.is_cancelled or was_restarted))
        if found != [word for word in expected.words if word in set(found)] and not is_excused:
            return [f"out of order: {' '.join(found)}"]
        lost = [word for word in expected.words if word not in found and word not in self._missing()]
        is_cancelled = expected.is_cancelled or self._turn.is_cancelled
        return [f"lost: {' '.join(lost)}"] if lost and not is_cancelled else []

    def _after_cancel(self) -> list[str]:
        """No new message of a turn leaves after it was cancelled, except one that was decided before."""
        cancelled_at = self._run.cancelled_at.get(self._script.turn_id)
        trouble = self._scene.trouble
        if cancelled_at is None or trouble.takes_over or "sleep" in trouble.accidents:
            return []
        keys = {row.key for row in self._rows if _creates(row)}
        late = [call for call in self._run.platform.calls if call.key in keys and call.at > cancelled_at + _DECIDED_S]
        return [f"cancelled at {cancelled_at:.2f}, and sent at {call.at:.2f}" for call in late if call.kind != "find"]

    def _interrupted(self) -> list[str]:
        """A turn that was left to recovery says what was said until then, once, and that it was interrupted."""
        lines = [row for row in self._run.rows if row.turn_id == f"{self._script.turn_id}/interrupted"]
        if not lines and not self._turn.is_cancelled:
            return ["it was interrupted, and no line says so"]
        found = Counter(self._found())
        is_stuck = self._expected.was_revised and self._scene.capabilities.edits is None
        if not is_stuck and (twice := sorted(word for word, count in found.items() if count > 1)):
            return [f"said twice: {twice}"]
        wrong = sorted(found.keys() - _ever_said(self._events))
        return [f"never said: {wrong}"] if wrong else []

    def _has_replaced(self) -> bool:
        """A message was gone, and a new one after the others says its text."""
        return any(row.state is State.SUPERSEDED and not _creates(row) for row in self._rows)

    def _left_open(self) -> list[str]:
        streams = [message.message_id for message in self._answer() if message.streaming]
        return [f"the streams {streams} were left open"] if streams else []

    def _to_the_letter(self) -> list[str]:
        """If nothing went wrong that people could see, each message says exactly what it should."""
        is_whole = all(row.state is State.DELIVERED and not row.may_be_double for row in self._rows)
        is_deleted = bool(self._run.platform.deleted & self._made.keys())
        is_fixed = self._expected.was_revised and self._scene.capabilities.edits is None
        is_cancelled = self._expected.is_cancelled or self._turn.is_cancelled
        if not is_whole or is_deleted or is_fixed or is_cancelled or self._run.late_messages & self._made.keys():
            return []
        found = [(message.media, message.text) for message in self._answer()]
        if self._expected.items and self._is_cut_elsewhere():
            return self._in_other_parts()
        expected = [message for item in self._expected.items for message in _messages_of(item, self._scene)]
        return [] if found == expected else [f"the messages are {found}, not {expected}"]

    def _is_cut_elsewhere(self) -> bool:
        """A message may also end before it is full: at a block or a paragraph, or because of when its text came."""
        native, rules = self._scene.capabilities.native, self._rules()
        is_rotated = isinstance(native, StreamRules) and native.lifetime_s is not None
        return rules.ends_at_paragraphs or rules.ends_at_blocks or (rules.preview == "stream" and is_rotated)

    def _rules(self) -> PresentationRules:
        return rules_for(self._scene.settings, self._scene.capabilities, self._script.target)

    def _in_other_parts(self) -> list[str]:
        """However it was cut, the text reads as what it was."""
        items = self._expected.items
        has_torn_tables = self._rules().preview == "stream" and any("|---|" in item.text for item in items)
        if self._scene.capabilities.dialect != "markdown" or has_torn_tables:
            return []
        expected = [glyph for item in items if item.kind == "text" for glyph in _glyphs(item.text)]
        texts = [message.text for message in self._answer() if re.search(r"\bw\d+z", message.text)]
        found = [glyph for text in texts for glyph in _glyphs(text)]
        return [] if found == expected else [f"the messages read {''.join(found)!r}, not {''.join(expected)!r}"]

    def _processing(self) -> list[str]:
        """The processing message contains nothing of the answer, and is there only for tools."""
        left = [self._made[key] for key in self._processing_ids if key in self._made and key not in self._stale]
        left = [message for message in left if not message.deleted]
        if len(left) > 1:
            return [f"{len(left)} processing messages are left"]
        has_tools = any(isinstance(event, ToolStarted) for _, event in self._script.events)
        for message in left:
            if WORD.search(message.text) and not self._expected.is_cancelled:
                return [f"the processing message still says {message.text!r}"]
            if not has_tools:
                return [f"a processing message without tools is left: {message.text!r}"]
        return []


def _ever_said(events: list[Event]) -> set[str]:
    """The words of all events, also of what was taken back."""
    own = [event for event in events if getattr(event, "parent_tool_id", None) is None]
    texts = [event.text if isinstance(event, TextDelta) else f" {_all_text(event)} " for event in own]
    return set(WORD.findall("".join(texts)))


def _all_text(event: Event) -> str:
    return " ".join(str(getattr(event, name, "") or "") for name in ("text", "message", "caption", "url"))


def _messages_of(item: Item, scene: Scene) -> list[tuple[str, str]]:
    limits = scene.capabilities
    if item.kind == "media":
        if measure(item.text, limits.unit) <= (limits.caption_limit or limits.limit):
            return [(item.url, item.text)]
        return [(item.url, ""), *(("", text) for text in _parts(item.text, scene))]
    return [("", text) for text in _parts(item.text, scene)]


def _parts(text: str, scene: Scene) -> list[str]:
    limits = scene.capabilities
    splitter = Splitter(limits.limit, limits.unit, limits.dialect, lines=limits.lines)
    return [part.body.text for part in [*splitter.feed(text), *splitter.close()]]


def _glyphs(markdown: str) -> list[str]:
    """What a reader sees, without spaces and the heads of tables, which a cut repeats."""
    return [glyph.char for glyph in read(markdown).glyphs if glyph.kind != "head_cell" and not glyph.char.isspace()]
