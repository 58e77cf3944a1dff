"""Takes what people do on a channel: decides who is let in, records messages, and gives them to their conversation.

A message counts as accepted only when the ledger has recorded it. Only then does `receive` return, and the channel
tells its platform that the message was taken.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from tailrace.deliveries import Turn, TurnState
from tailrace.errors import LedgerUnavailable
from tailrace.gateway.access import pairing_text
from tailrace.gateway.conversation import Conversation
from tailrace.gateway.questions import BUTTON
from tailrace.gateway.words import WORDS
from tailrace.inbound import ButtonPress, InboundMessage, InboundNotice
from tailrace.ports import AsksByButtons

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.gateway.context import GatewayContext, ServedChannel
    from tailrace.gateway.metrics import Metrics
    from tailrace.inbound import Inbound
    from tailrace.operations import Target

_log = logging.getLogger(__name__)
_PAGE = 256


class ActiveConversations:
    """The conversations that have something to do, by name."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._active: dict[str, Conversation] = {}
        self._add_to(context.metrics)

    def active(self) -> list[Conversation]:
        """The conversations that run a turn, or have messages that wait."""
        return list(self._active.values())

    def of(self, target: Target) -> Conversation:
        """The conversation of this target."""
        found = self._active.get(target.conversation)
        if found is None:
            served = self._context.served[target.channel]
            found = self._active[target.conversation] = Conversation(target, self._context, served, self._forget)
        return found

    async def accept(self, message: InboundMessage) -> Turn | None:
        """Record a message. Returns its turn, or None if the message is known already."""
        accepted = await self._context.ledger.accept(message)
        if not accepted.is_new:
            return None
        return Turn(
            turn_id=accepted.turn_id,
            target=message.target,
            state=TurnState.ACCEPTED,
            message=message,
            updated_at=self._context.clock.wall(),
        )

    async def resume(self, channel: str) -> None:
        """Queue the messages of a channel that an earlier process accepted and did not answer."""
        limit, seen = _PAGE, set[str]()
        while True:
            turns = await self._context.ledger.accepted_turns(limit=limit)
            for turn in turns:
                if turn.turn_id not in seen and turn.target.channel == channel and turn.message is not None:
                    self.of(turn.target).add(turn)
                seen.add(turn.turn_id)
            if len(turns) < limit:
                return
            limit *= 2

    def _add_to(self, metrics: Metrics) -> None:
        def gauge(name: str, value: Callable[[list[Conversation]], float]) -> None:
            metrics.read_from(name, lambda: {(): value(self.active())})

        gauge("tailrace_conversations_active", len)
        gauge("tailrace_turns_running", lambda active: sum(each.running is not None for each in active))
        gauge("tailrace_messages_waiting", lambda active: sum(each.waiting for each in active))
        gauge("tailrace_queue_longest", lambda active: max((each.waiting for each in active), default=0))

    def _forget(self, conversation: Conversation) -> None:
        if conversation.is_idle and self._active.get(conversation.name) is conversation:
            del self._active[conversation.name]


class GatewayInbox:
    """The inbox of one channel."""

    def __init__(self, context: GatewayContext, served: ServedChannel, conversations: ActiveConversations) -> None:
        self._context = context
        self._served = served
        self._conversations = conversations

    async def receive(self, inbound: Inbound) -> None:
        """Record an event, and answer it later."""
        if self._context.is_draining:
            raise LedgerUnavailable("the gateway is stopping")
        match inbound:
            case InboundMessage():
                if await self._is_for_us(inbound):
                    await self._accept(inbound)
            case ButtonPress():
                await self._press(inbound)
            case InboundNotice():
                _log.info("%s: the chat %s was %s", inbound.channel, inbound.target.chat, inbound.kind)

    async def _is_for_us(self, message: InboundMessage) -> bool:
        """Whether an admitted person wrote to the bot. An unknown person in a private chat gets a pairing code."""
        if message.target.group:
            groups = self._served.settings.groups
            if groups == "none" or (groups == "addressed" and not message.is_addressed):
                return False
        context = self._context
        if context.access.is_admitted(message, self._served.settings.allow):
            return True
        context.metrics.count("tailrace_messages_total", self._served.name, "not_admitted")
        if (code := await context.access.code_for(message, context.clock.wall())) is not None:
            say = context.say(f"{message.turn_id}/access", message.target, pairing_text(code))
            context.in_background(say, "the answer to an unknown person")
        return False

    async def _accept(self, message: InboundMessage) -> None:
        result = "not_recorded"
        try:
            turn = await self._conversations.accept(message)
            result = "repeated" if turn is None else "accepted"
        finally:
            self._context.metrics.count("tailrace_messages_total", self._served.name, result)
        if turn is None:
            return
        if self._context.questions.answer_by_words(message):
            self._context.in_background(self._context.end_accepted(turn, state=TurnState.DONE), "an answer by words")
        else:
            self._conversations.of(message.target).add(turn)

    async def _press(self, press: ButtonPress) -> None:
        """Take the answer to a question, or a word: as if the person who pressed the button had written it."""
        if not self._context.access.is_admitted(press, self._served.settings.allow):
            text = "You may not use this button."
        elif press.value.startswith(BUTTON):
            text = self._context.questions.answer(press.value, press.sender)
        elif (word := press.value.removeprefix("/")) in WORDS:
            text = ""
            await self._accept(_message_of(press, word))
        else:
            text = "This button is too old."
        self._context.in_background(self._acknowledge(press, text), "acknowledging a button")

    async def _acknowledge(self, press: ButtonPress, text: str) -> None:
        channel = self._served.channel
        if isinstance(channel, AsksByButtons):
            with suppress(Exception):  # the press counts; only the progress sign of the button stays
                await channel.acknowledge(press, text)


def _message_of(press: ButtonPress, word: str) -> InboundMessage:
    return InboundMessage(
        channel=press.channel,
        account=press.account,
        event_id=f"press {press.event_id}",
        target=press.target,
        at=press.at,
        text="",
        command=word,
        sender=press.sender,
    )
