"""What comes of calls on the stage: trouble at random, and for what stays what the courier makes of it in the end.

It keeps the ledger as it would stand, and knows what the trouble has cost: which words people may miss, which messages
nobody can answer for. That is what the verdict excuses, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from random_turns.expected import WORD
from random_turns.watched_turn import addressed_by, shown_by
from tailrace.deliveries import Delivery, Policy, State, moved, plan, sending
from tailrace.operations import (
    Ambiguous,
    CloseStream,
    Delete,
    Delivered,
    Edit,
    NotNow,
    OpenStream,
    Post,
    Receipt,
    Refused,
)

if TYPE_CHECKING:
    from random import Random

    from random_turns.scenes import Scene
    from random_turns.strict_platform import Chat
    from tailrace.capabilities import Idempotency
    from tailrace.operations import Durable, Operation, Outcome

_REFUSED = Refused("not here")
_NO_ANSWER = Ambiguous("no answer")


class Ledger:
    """The deliveries of one turn, each as it ended."""

    def __init__(self) -> None:
        self._ended: list[tuple[int, Durable, State, Receipt | None]] = []
        self._last = 0

    def begin(self) -> int:
        """The ordinal of another delivery."""
        self._last += 1
        return self._last

    def end(self, ordinal: int, operation: Durable, state: State, receipt: Receipt | None = None) -> None:
        """The delivery ended so."""
        self._ended.append((ordinal, operation, state, receipt))

    def deliveries(self, idempotency: Idempotency) -> list[Delivery]:
        """All of them."""
        policy = Policy(idempotency=idempotency)
        found = []
        for ordinal, operation, state, receipt in self._ended:
            delivery = sending(plan(operation, turn_id="t", ordinal=ordinal, policy=policy, now=0.0), now=0.0)
            if state is State.UNKNOWN:
                delivery = moved(delivery, State.AMBIGUOUS, now=0.0)
            found.append(moved(delivery, state, now=0.0, receipt=receipt))
        return found


class Trouble:
    """Answers the calls of one run.

    `missing` are words that may be missing in the end; the messages in `orphans` may be there, and say what they like.
    `disorders`: a message that people took away had to come again, behind what was said since. `damages`: something
    that was to stay did not come to what it should, whether or not anybody can read it there.
    """

    def __init__(self, scene: Scene, chat: Chat, dice: Random) -> None:
        self._weather = scene.weather
        self._edits = scene.capabilities.edits is not None
        self._chat = chat
        self._dice = dice
        self._left = scene.weather.troubles
        self.ledger = Ledger()
        self.unknown: set[str] = set()  # what may have been said by messages of which nobody knows
        self.missing: set[str] = set()
        self.orphans: set[str] = set()
        self.disorders = self.damages = False
        self.counts = dict.fromkeys(("operations", "refused", "not_now", "ambiguous"), 0)

    def answer(self, operation: Operation, *, is_durable: bool, is_last: bool = False) -> Outcome:
        """Perform it or not, and say what is known of that. `is_last`: nothing that stays is on its way behind it."""
        self.counts["operations"] += 1
        if not is_durable:
            outcome = self._show(operation)
        elif is_last and self._can_put_off():
            outcome = self._put_off()
        else:
            outcome = self._settle(cast("Durable", operation))
        for name, kind in (("refused", Refused), ("not_now", NotNow), ("ambiguous", Ambiguous)):
            self.counts[name] += isinstance(outcome, kind)
        return outcome

    def take_away(self) -> str:
        """People delete a message."""
        if not self._chat.seen:
            return ""
        message = self._dice.choice(self._chat.seen)
        message.is_there = False
        self.damages = True
        self.missing |= set(WORD.findall(f"{message.url} {message.text}"))
        return message.message_id

    def end_stream(self) -> str:
        """The platform ends a stream before its time."""
        message = next((message for message in self._chat.seen if message.grows), None)
        if message is None:
            return ""
        message.grows = False
        return message.message_id

    def _strikes(self) -> bool:
        if self._left and self._dice.random() < self._weather.trouble:
            self._left -= 1
            return True
        return False

    def _can_put_off(self) -> bool:
        return self._weather.raw and self._dice.random() < 0.3 and self._strikes()

    def _put_off(self) -> Outcome:
        """What is asked for until that is known stands before it."""
        self.disorders = True
        return self._not_now()

    def _show(self, operation: Operation) -> Outcome:
        """Something in between, as it comes."""
        if not self._strikes():
            return self._chat.take(operation)
        match self._dice.randrange(4):
            case 0:
                return _REFUSED
            case 1:
                return self._not_now()
            case 2:
                self._chat.take(operation)
                return _NO_ANSWER
            case _:
                return _NO_ANSWER

    def _settle(self, operation: Durable) -> Outcome:
        """Something that stays, as the courier has it in the end; what it replaces by a new message, too."""
        ordinal = self.ledger.begin()
        outcome = self._perform(operation)
        if isinstance(operation, Edit | CloseStream) and isinstance(outcome, Refused) and outcome.gone:
            gone = addressed_by(operation)
            is_last = all(int(message.message_id) < int(gone or 0) for message in self._chat.seen)
            self.disorders = self.disorders or self._weather.raw or not is_last
            if self._weather.raw:
                return outcome
            return self._replace(ordinal, operation)
        if isinstance(operation, OpenStream) and isinstance(outcome, Refused):
            return self._replace(ordinal, operation)
        self._record(ordinal, operation, outcome)
        return outcome

    def _replace(self, ordinal: int, operation: Edit | CloseStream | OpenStream) -> Outcome:
        """A new message says it in its place."""
        self.ledger.end(ordinal, operation, State.SUPERSEDED)
        post = Post(target=operation.target, body=operation.body)
        outcome = self._perform(post)
        if isinstance(outcome, Delivered) and isinstance(operation, OpenStream):
            outcome = Delivered(Receipt(message_id=outcome.receipt.message_id, degraded="no stream"))
            if not self._edits:
                self._give_up(outcome.receipt.message_id)  # nothing can be added to it
        self._record(-ordinal, post, outcome)
        return outcome

    def _record(self, ordinal: int, operation: Durable, outcome: Outcome) -> None:
        match outcome:
            case Delivered(receipt=receipt):
                self.ledger.end(ordinal, operation, State.DELIVERED, receipt)
                if not isinstance(operation, Post | OpenStream):
                    self.orphans.discard(receipt.message_id)
            case Ambiguous():
                self.ledger.end(ordinal, operation, State.UNKNOWN)
            case _:
                self.ledger.end(ordinal, operation, State.FAILED)
        if isinstance(outcome, Delivered) or (isinstance(outcome, Refused) and outcome.gone):
            return
        self.damages = True
        words = set(WORD.findall(shown_by(operation)))
        self.missing |= words
        if (message_id := addressed_by(operation)) is not None:
            self._give_up(message_id)
        elif isinstance(outcome, Ambiguous) and words:
            self.unknown.add(shown_by(operation))

    def _perform(self, operation: Durable) -> Outcome:
        if not self._strikes():
            return self._chat.take(operation)
        is_repeatable = isinstance(operation, Edit | Delete | CloseStream)
        match self._dice.randrange(4):
            case 0 | 1 if not is_repeatable:
                before = {message.message_id for message in self._chat.seen}
                if self._dice.random() < 0.5:
                    self._chat.take(operation)
                self.orphans |= {message.message_id for message in self._chat.seen} - before
                return _NO_ANSWER
            case 0:
                if self._dice.random() < 0.5:
                    self._chat.take(operation)
                return _NO_ANSWER
            case 2:
                return _REFUSED
            case _:
                return self._chat.take(operation)

    def _give_up(self, message_id: str) -> None:
        """What the message says is not what it shall say, and what it said may be missing elsewhere."""
        message = self._chat.find(message_id)
        self.missing |= set(WORD.findall(message.text))
        self.orphans.add(message_id)

    def _not_now(self) -> NotNow:
        return NotNow("too many", retry_after=self._dice.choice((None, 0.0, 0.5, 7.0, 40.0)))
