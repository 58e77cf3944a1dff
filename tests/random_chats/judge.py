"""Judges a scene: messages are answered or ended once, in order, and nothing comes after a stop."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from tailrace.deliveries import NOTICE_ORDINAL, TURN_OPEN, Delivery, State, Turn, TurnState
from tailrace.delivery.recovery import INTERRUPTED
from tailrace.gateway.conversation import GIVEN_UP
from tailrace.gateway.words import word_of
from tailrace.operations import Post

if TYPE_CHECKING:
    from random_chats.agent import AgentRun
    from random_chats.play import Played, Said

_WORD = re.compile(r"\br(\d+)w(\d+)\b")
_REFUSED = re.compile(r"I did not take (?:this message|your last (\d+) messages)")
_NOT_SURE = frozenset({State.UNKNOWN, State.FAILED, State.DEAD})
_MISSING = re.compile(r"Part \d+ of this answer (?:may be|is) missing")


def judge(played: Played) -> list[str]:
    """What is wrong, in sentences."""
    found = list(played.problems)
    found += [f"{each.about}: {each.detail}" for each in played.platform.complaints]
    begun = Counter(run.turn_id for run in played.runs)
    found += [f"the agent began {count} times with the turn {turn}" for turn, count in begun.items() if count > 1]
    for chat in played.said:
        found += [f"chat {chat}: {each}" for each in _Chat(played, chat).judge()]
    return found


class _Chat:
    """One chat: what people read in it, and what the ledger has of it."""

    def __init__(self, played: Played, chat: str) -> None:
        self.played = played
        self.said = played.said[chat]
        self.texts = played.platform.texts(chat)
        self.messages = played.platform.history(chat)
        self.rows = [row for row in played.rows if row.operation.target.chat == chat]
        self.runs = {run.turn_id: run for run in played.runs if run.conversation.endswith(f":{chat}")}
        # A processing message that the platform did not let us delete shows words that the answer shows too.
        processing = {
            row.receipt.message_id
            for row in self.rows
            if row.receipt is not None and isinstance(row.operation, Post) and row.operation.is_processing
        }
        shown = [each for each in self.messages if not each.deleted and each.message_id not in processing]
        self.words = _words_in("\n".join(each.text for each in shown))
        # What a platform without keys cannot say, and what it refused.
        unsure = [row for row in self.rows if row.state in _NOT_SURE]
        again = [row for row in self.rows if row.may_be_double or row.turn_id.endswith("/resend")]
        self.unsure = {word for row in unsure for word in _words_of(row)}
        self.again = self.unsure | {word for row in again for word in _words_of(row)}
        self.stops = sum(word_of(said.message) == "stop" for said in self.said)

    def judge(self) -> list[str]:
        found = self._judge_words()
        for index, said in enumerate(self.said):
            turn = self.played.turns.get(said.message.turn_id)
            if turn is None or turn.state in TURN_OPEN:
                found.append(f"{said.message.text!r} is {turn and turn.state}")
            elif word_of(said.message):
                found += self._judge_word(said, turn)
            else:
                found += self._judge_turn(index, said, turn)
        return found + self._judge_order() + self._judge_lines() + self._judge_stops()

    def _judge_words(self) -> list[str]:
        counts = Counter(self.words)
        found = [
            f"{word} is there {count} times" for word, count in counts.items() if count > 1 and word not in self.again
        ]
        own = {run.number for run in self.runs.values()}
        found += [f"{word} is of another chat" for word in counts if _place(word)[0] not in own]
        sure = [place for word in dict.fromkeys(self.words) if word not in self.again for place in [_place(word)]]
        if sure != sorted(sure):
            found.append(f"out of order: {' '.join(self.words)}")
        return found

    def _judge_turn(self, index: int, said: Said, turn: Turn) -> list[str]:
        """A message to the agent."""
        name, run = f"{said.message.text!r}, which is {turn.state},", self.runs.get(turn.turn_id)
        match turn.state:
            case TurnState.DONE if run is None:
                joined = any(said.message.text in each.prompt.split("\n\n") for each in self.runs.values())
                is_joined = joined and self.played.scene.busy == "merge"
                return [] if is_joined or self._edit_was_answered(index) else [f"{name} has no answer"]
            case TurnState.DONE | TurnState.FAILED if run is not None:
                fails = "fail" in run.prompt
                found = [f"{name} has another end"] if fails != (turn.state is TurnState.FAILED) else []
                return found + self._judge_whole(name, run)
            case TurnState.INTERRUPTED:
                return [] if self.played.ends else [f"{name} was interrupted by nothing"]
            case TurnState.CANCELLED:
                is_excused = (
                    said.replaces is not None
                    or self.stops
                    or (self.played.scene.busy == "interrupt" and index + 1 < len(self.said))
                    or any(_REFUSED.search(text) for text in self.texts)
                    or any(row.turn_id == turn.turn_id and row.state in _NOT_SURE for row in self.rows)
                    or (run is None and self._edit_was_answered(index))
                )
                return [] if is_excused else [f"{name} was lost"]
            case _:
                return [f"{name} is in a strange state"]

    def _judge_whole(self, name: str, run: AgentRun) -> list[str]:
        missing = sorted(set(run.words) - set(self.words) - self.unsure)
        return [f"{name} lacks {' '.join(missing)}"] if missing else []

    def _edit_was_answered(self, index: int) -> bool:
        """Whether a later edit took the place of this message, which may be an edit itself."""
        original = index if (replaced := self.said[index].replaces) is None else replaced
        edits = [said.message.turn_id for said in self.said[index + 1 :] if said.replaces == original]
        turns = [self.played.turns[turn_id] for turn_id in edits if turn_id in self.played.turns]
        return any(edit.state is not TurnState.CANCELLED or edit.turn_id in self.runs for edit in turns)

    def _judge_word(self, said: Said, turn: Turn) -> list[str]:
        """A word is answered by one message, or by the agent, or ended with the line of an interrupted turn."""
        run, word = self.runs.get(turn.turn_id), said.message.command or said.message.text
        if run is not None:
            is_whole = turn.state in {TurnState.DONE, TurnState.FAILED}
            return self._judge_whole(f"{word!r}, which is {turn.state},", run) if is_whole else []
        if turn.state is not TurnState.DONE:
            ended = {TurnState.INTERRUPTED, TurnState.CANCELLED}
            return [] if turn.state in ended else [f"{word!r} is {turn.state}"]
        answers = [row for row in self.rows if row.turn_id == turn.turn_id and row.ordinal > 0]
        return [] if len(answers) == 1 else [f"{word!r} has {len(answers)} answers"]

    def _judge_order(self) -> list[str]:
        """The agent got the messages in the order in which they were said; an edit has the place of its original."""
        places = {
            said.message.turn_id: index if said.replaces is None else said.replaces
            for index, said in enumerate(self.said)
        }
        runs = sorted(self.runs.values(), key=lambda run: run.number)
        order = [places[run.turn_id] for run in runs]
        found = [f"the agent got the messages in the order {order}"] if order != sorted(order) else []
        for earlier, later in pairwise(runs):
            if earlier.ended_at is None or earlier.ended_at > later.began_at:
                found.append(f"run {later.number} began while run {earlier.number} was going on")
        return found

    def _judge_lines(self) -> list[str]:
        found = [f"the chat reads {GIVEN_UP!r}"] if GIVEN_UP in self.texts else []
        turns = [
            self.played.turns[said.message.turn_id] for said in self.said if said.message.turn_id in self.played.turns
        ]
        interrupted = sum(turn.state is TurnState.INTERRUPTED for turn in turns)
        lines = sum(INTERRUPTED in text for text in self.texts)
        # The line is sent again each time that it may not have arrived.
        again = sum(row.attempt - 1 for row in self.rows if row.may_be_double)
        refused = any(row.state in {State.FAILED, State.DEAD} for row in self.rows)
        if not interrupted <= lines <= interrupted + again and not refused:
            found.append(f"{interrupted} turns were interrupted, and {lines} lines say so")
        reported = [row for row in self.rows if row.state in _NOT_SURE and row.policy.is_reported]
        notices = sum(bool(_MISSING.search(text)) for text in self.texts)
        unsent = [row for row in self.rows if row.ordinal == NOTICE_ORDINAL and row.state is not State.DELIVERED]
        if bool(reported) != bool(notices) and not unsent:
            found.append(f"{len(reported)} parts may be missing, and {notices} lines say so")
        unrun = [said for said in self.said if self._is_unanswered(said)]
        count = sum(int(match[1] or 1) for text in self.texts for match in _REFUSED.finditer(text))
        if count > len(unrun) + len([row for row in self.rows if row.may_be_double]):
            found.append(f"{count} messages were refused, and {len(unrun)} have no answer")
        return found

    def _is_unanswered(self, said: Said) -> bool:
        turn = self.played.turns.get(said.message.turn_id)
        return turn is not None and turn.state is TurnState.CANCELLED and turn.turn_id not in self.runs

    def _judge_stops(self) -> list[str]:
        """Nothing new of a stopped turn comes after the acknowledgement of the stop."""
        found = []
        acknowledged = [message.at for message in self.messages if message.text.startswith("Stopped.")]
        for run in self.runs.values():
            turn = self.played.turns.get(run.turn_id)
            if turn is None or turn.state is not TurnState.CANCELLED or run.ended_at is None:
                continue
            said_at = next((at for at in acknowledged if at >= run.ended_at), None)
            if said_at is None or self.played.scene.busy == "interrupt":
                continue
            before, after = set[str](), set[str]()
            for message in self.messages:
                for version in self.played.platform.versions(message.message_id):
                    words = {word for word in _words_in(version.message.text) if _place(word)[0] == run.number}
                    (before if version.at <= said_at else after).update(words)
            if late := sorted(after - before - self.again):
                found.append(f"after the stop at {said_at} came {' '.join(late)}")
        return found


def _words_in(text: str) -> list[str]:
    return [match.group() for match in _WORD.finditer(text)]


def _words_of(row: Delivery) -> list[str]:
    body = getattr(row.operation, "body", None)
    return _words_in(body.text) if body is not None else []


def _place(word: str) -> tuple[int, int]:
    match = _WORD.fullmatch(word)
    assert match is not None, "it was found by this pattern"
    return int(match[1]), int(match[2])
