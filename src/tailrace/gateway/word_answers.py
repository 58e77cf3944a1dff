"""What the gateway answers to the words that take effect at once: `/stop`, `/status`, `/resend` and `/help`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.deliveries import Query, State
from tailrace.delivery.operator import Operator, Resend
from tailrace.gateway.words import HELP, rest_of, word_of

if TYPE_CHECKING:
    from tailrace.gateway.context import GatewayContext
    from tailrace.gateway.conversation import Conversation
    from tailrace.inbound import InboundMessage

_MAX_REST = 40
_MAX_HELD = 100


async def answer_word(message: InboundMessage, conversation: Conversation, context: GatewayContext) -> str:
    """Do what the word of this message says. Returns the line for the person."""
    word = word_of(message)
    if word == "stop":
        text = "Stopped." if await conversation.stop() else "Nothing is running."
        answer = f"{text} {_waiting(conversation)}".strip()
    elif word == "status":
        answer = await _status(conversation, context)
    elif word == "resend":
        answer = await _resend(conversation, context)
    else:
        answer = HELP
    if rest := rest_of(message):
        shown = rest if len(rest) <= _MAX_REST else f"{rest[:_MAX_REST]}…"
        answer += f"\n\nWhat you wrote behind /{word} was not read: {shown}"
    return answer


async def _status(conversation: Conversation, context: GatewayContext) -> str:
    text = "Nothing is running."
    if conversation.running is not None:
        seconds = context.clock.monotonic() - conversation.running_since
        text = f"An answer has been running for {seconds:.0f} s."
    held = len(await _held(conversation, context))
    parts = f"{held} {'part' if held == 1 else 'parts'} may be missing; /resend sends them." if held else ""
    return " ".join(filter(None, (text, _waiting(conversation), parts)))


def _waiting(conversation: Conversation) -> str:
    count = conversation.waiting
    return f"{count} {'message waits' if count == 1 else 'messages wait'}." if count else ""


async def _held(conversation: Conversation, context: GatewayContext) -> list[str]:
    """The ids of the deliveries that may be missing and were not sent again, in their order."""
    query = Query(conversation=conversation.name, states=frozenset({State.UNKNOWN}))
    found = await context.ledger.find(query, limit=_MAX_HELD)
    known = [await context.courier.deliveries_of(f"{row.turn_id}/resend") for row in found]
    sent = {(row.turn_id, row.ordinal) for rows in known for row in rows}
    return [row.id for row in reversed(found) if (f"{row.turn_id}/resend", row.ordinal) not in sent]


async def _resend(conversation: Conversation, context: GatewayContext) -> str:
    held = await _held(conversation, context)
    if not held:
        return "Nothing is on hold."

    async def connect(_: str) -> str:
        return "the channel is not connected now"

    results = await Operator(context.courier, connect).resend(Resend(ids=tuple(held)))
    problems = [result.problem for result in results if result.problem]
    sent = len(results) - len(problems)
    text = f"{sent} {'part was' if sent == 1 else 'parts were'} sent again."
    return f"{text} {problems[0]}" if problems else text
