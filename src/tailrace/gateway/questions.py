"""Questions of agents in the chat: may the agent do this? People answer by a button or by a word.

A question is stored until it is answered. It is answered once, by a person who may use the agent. Without an answer it
is refused at its deadline. A restart interrupts the turn of the question, so a late answer is told that.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING

import msgspec

from tailrace.gateway.agent_turn import RUNNING
from tailrace.operations import Button
from tailrace.redaction import redact

if TYPE_CHECKING:
    from tailrace.deliveries import Delivery
    from tailrace.gateway.context import GatewayContext
    from tailrace.inbound import InboundMessage, Sender
    from tailrace.operations import Target
    from tailrace.runtimes.permissions import Choice, Question

_log = logging.getLogger(__name__)

_KIND = "question"
_DEADLINE_S = 900.0
_MAX_SUBJECT = 1_500
_MAX_LABEL = 40
_YES = frozenset({"yes", "y", "ok", "allow"})
_NO = frozenset({"no", "n", "deny"})
BUTTON = "question:"
"""The beginning of the values of buttons that answer a question."""
TOO_LATE = "This question is not open any more."


class _OpenQuestion(msgspec.Struct, kw_only=True):
    """A question that waits. `answered` gets the choice; `shown` is the task that sends its message."""

    id: str
    question: Question
    target: Target
    answered: asyncio.Future[Choice]
    shown: asyncio.Task[Delivery | None] | None = None


class ChatQuestions:
    """Asks people in the chat of the turn that runs: an `Approver` for every runtime.

    Call `open` before the first turn. `deadline_s` is the time that people have to answer.
    """

    def __init__(self, *, deadline_s: float = _DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._open: dict[str, _OpenQuestion] = {}
        self._earlier: set[str] = set()
        self._context: GatewayContext | None = None

    async def open(self, context: GatewayContext) -> None:
        """Use this gateway. Questions of an earlier process are remembered, but their turns were interrupted."""
        self._context = context
        self._earlier = set(await context.ledger.stored(_KIND))

    async def ask(self, question: Question) -> Choice | None:
        """Ask in the chat of the running turn. None if no person can be asked, or none has answered in time."""
        running, context = RUNNING.get(), self._context
        if running is None or running.context is None or context is None or not question.choices:
            return None
        asked_by: InboundMessage = running.context
        asked = _OpenQuestion(
            id=secrets.token_hex(6),
            question=question,
            target=asked_by.target,
            answered=asyncio.get_running_loop().create_future(),
        )
        self._open[asked.id] = asked
        name, outcome = f"{running.turn_id}/question.{asked.id}", "This question is not needed any more."
        try:
            await context.ledger.store(_KIND, asked.id, msgspec.json.encode(question.title))
            saying = context.say(name, asked.target, _text(question), buttons=_buttons(asked))
            asked.shown = context.in_background(saying, "showing a question")
            await asyncio.shield(asked.shown)
            async with asyncio.timeout(self._deadline_s):
                choice = await asked.answered
            outcome = f"✓ {choice.name}"
        except TimeoutError:
            outcome = f"⚠️ Nobody answered within {self._deadline_s / 60:g} minutes, so it was not allowed."
            return None
        else:
            return choice
        finally:
            del self._open[asked.id]
            context.in_background(self._close(context, asked, name, outcome), "closing a question")

    def answer(self, value: str, sender: Sender) -> str:
        """Take the press of a button of a question. Returns a short text for the person."""
        question_id, _, index = value.removeprefix(BUTTON).partition(":")
        asked = self._open.get(question_id)
        if asked is None or asked.answered.done():
            return "The turn of this question was interrupted." if question_id in self._earlier else TOO_LATE
        if not index.isdecimal() or int(index) >= len(asked.question.choices):
            return TOO_LATE
        return self._choose(asked, asked.question.choices[int(index)], sender)

    def answer_by_words(self, message: InboundMessage) -> bool:
        """Take a message as the answer to the newest open question of its chat. False if it is no answer."""
        of_chat = [asked for asked in self._open.values() if asked.target.conversation == message.target.conversation]
        asked = next((asked for asked in reversed(of_chat) if not asked.answered.done()), None)
        if asked is None or message.command or message.attachments:
            return False
        if (choice := _choice_of(asked.question, message.text)) is None:
            return False
        self._choose(asked, choice, message.sender)
        return True

    def _choose(self, asked: _OpenQuestion, choice: Choice, sender: Sender) -> str:
        _log.debug("%s answered %r: %s", sender.id, redact(asked.question.title), choice.name)
        asked.answered.set_result(choice)
        return choice.name

    async def _close(self, context: GatewayContext, asked: _OpenQuestion, name: str, outcome: str) -> None:
        """Forget the question, and show what became of it in the place of its buttons."""
        await context.ledger.store(_KIND, asked.id, None)
        if asked.shown is not None and (shown := await asked.shown) is not None:
            await context.change(f"{name}/answer", shown, f"{_text(asked.question, is_open=False)}\n\n{outcome}")


def _text(question: Question, *, is_open: bool = True) -> str:
    subject = redact(question.subject).strip()
    if len(subject) > _MAX_SUBJECT:
        subject = f"{subject[:_MAX_SUBJECT]}…"
    fence = "`" * max(3, 1 + max((len(run) for run in subject.split("\n") if run.startswith("```")), default=0))
    lines = [f"❓ {redact(question.title)}"]
    if subject:
        lines += ["", fence, subject, fence]
    if is_open:
        names = [f"{number}. {choice.name}" for number, choice in enumerate(question.choices, start=1)]
        lines += ["", *names, "", "Press a button, or answer with the number."]
    return "\n".join(lines)


def _buttons(asked: _OpenQuestion) -> list[Button]:
    return [
        Button(label=choice.name[:_MAX_LABEL] or str(index + 1), value=f"{BUTTON}{asked.id}:{index}")
        for index, choice in enumerate(asked.question.choices)
    ]


def _choice_of(question: Question, text: str) -> Choice | None:
    """The choice that a person means by this text: its number, its name, or yes and no."""
    word = text.strip().lower().rstrip(".!")
    if word.isdecimal() and 1 <= int(word) <= len(question.choices):
        return question.choices[int(word) - 1]
    if (named := next((choice for choice in question.choices if choice.name.lower() == word), None)) is not None:
        return named
    return question.allowing() if word in _YES else question.denying() if word in _NO else None
