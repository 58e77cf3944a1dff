"""One conversation of the gateway: its accepted messages wait in a queue, and the agent answers one after the other.

Everything that waits is an accepted turn of the ledger, so a new process finds it. A turn that the agent has begun is
never run again by itself: after a crash it is closed with a line that says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.deliveries import TurnState
from tailrace.errors import LedgerClosed, LedgerLost
from tailrace.gateway.observed_turn import ObservedPresenter
from tailrace.gateway.presenters import CourierPresenter, RecordedPresenter, RecordedStreamingPresenter
from tailrace.gateway.router import TurnRequest
from tailrace.gateway.schedule import schedule_of
from tailrace.gateway.word_answers import answer_word
from tailrace.gateway.words import HELP, QUEUED, WORD_BUTTONS, files_of, prompt_of, rest_of, word_of
from tailrace.log_context import log_context
from tailrace.operations import Typing
from tailrace.ports import AsksByButtons, ShowsTyping, StreamingChannelProvider

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.deliveries import Turn
    from tailrace.gateway.agent_turn import AgentTurn
    from tailrace.gateway.context import GatewayContext, ServedChannel
    from tailrace.gateway.presenters import Presenter
    from tailrace.operations import Target

_log = logging.getLogger(__name__)

_MAX_STARTS = 3
_FIRST_PAUSE_S = 0.5
_PAUSE_AFTER_BUG_S = 10.0
_MAX_NOTICES = 10
_TYPING_EVERY_S = 4.0
GIVEN_UP = "⚠️ I could not answer this message, so I set it aside. Send it again to try once more."


class Conversation:
    """The queue of one conversation and the turn that runs. `on_idle` is called when nothing is left to do."""

    def __init__(
        self, target: Target, context: GatewayContext, served: ServedChannel, on_idle: Callable[[Conversation], None]
    ) -> None:
        self.target = target
        self.name = target.conversation
        self.running: AgentTurn | None = None
        self.running_since = 0.0
        self._context = context
        self._served = served
        self._on_idle = on_idle
        self._waiting: deque[Turn] = deque()
        self._refused: deque[Turn] = deque()
        self._is_refusing = False
        self._replaced: dict[str, list[Turn]] = {}
        self._task: asyncio.Task[None] | None = None
        self._typed_at = float("-inf")

    @property
    def waiting(self) -> int:
        """How many messages wait behind the one that is being answered."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return self._task is None and not self._waiting and not self._refused and not self._is_refusing

    def add(self, turn: Turn) -> None:
        """Answer the message of this accepted turn after those before it."""
        message = turn.message
        assert message is not None, "an accepted turn has its message"
        word = word_of(message)
        if word and word not in QUEUED:
            with log_context(conversation=self.name, turn=turn.turn_id):
                self._context.in_background(self._answer_word(turn), f"/{word} in {self.name}")
            return
        is_scheduled = bool(schedule_of(message))
        if not is_scheduled:
            self.target = turn.target  # a schedule does not know whether the chat is a group
        if message.edited:
            self._replace(turn)
        elif not is_scheduled and len(self._waiting) >= self._context.max_queue_size:
            self._refused.append(turn)
            self._context.metrics.count("tailrace_queue_refusals_total", self._served.name)
            if not self._is_refusing:
                self._is_refusing = True
                self._context.in_background(self._refuse(), f"refusing in {self.name}")
            return
        else:
            self._waiting.append(turn)
        if self.running is not None and not is_scheduled:
            if self._served.settings.busy == "interrupt":
                self.running.stop()
            self._context.in_background(self._show_taken(), f"typing in {self.name}")
        self._start()

    async def stop(self) -> bool:
        """Stop the running turn. Returns whether there was one; nothing new of it is shown afterwards."""
        if (running := self.running) is None:
            return False
        running.stop()
        await running.is_shown.wait()
        return True

    async def wait_until_idle(self) -> None:
        """Wait until the turn that runs has ended, and those that wait are answered."""
        while (task := self._task) is not None:
            await asyncio.wait({task})

    def cancel(self) -> None:
        """Stop working. What is not finished stays open in the ledger."""
        if self._task is not None:
            self._task.cancel()

    # The queue

    def _start(self) -> None:
        if self._task is None and not self._context.is_draining:
            with log_context(conversation=self.name, turn="", delivery=""):
                self._task = asyncio.create_task(self._serve(), name=f"conversation {self.name}")

    async def _serve(self) -> None:
        try:
            await self._served.was_connected.wait()
            while self._waiting and not self._context.is_draining:
                try:
                    await self._serve_next()
                except (LedgerLost, LedgerClosed) as error:
                    self._context.fail(error)
                    return
                except Exception as error:  # noqa: BLE001 -- a bug of ours must not stop the conversation
                    _log.critical("%s: a message could not be answered", self.name, exc_info=error)
                    await asyncio.sleep(_PAUSE_AFTER_BUG_S)
        finally:
            self._task = None
            self._on_idle(self)

    async def _serve_next(self) -> None:
        if expired := self._take_expired():
            await self._sum_up(expired)
        else:
            turns = self._take_next()
            with log_context(turn=turns[-1].turn_id):
                await self._answer(turns)

    def _replace(self, turn: Turn) -> None:
        """Put an edited message in the place of the one that still waits. An edit of an answered message is ignored.

        The original stays accepted as long as the edit: so a new process finds the place of the edit in the queue.
        """
        edited = turn.message
        assert edited is not None, "an accepted turn has its message"
        for index, waiting in enumerate(self._waiting):
            if waiting.message is not None and waiting.message.message_id == edited.message_id:
                self._waiting[index] = turn
                self._replaced[turn.turn_id] = [*self._replaced.pop(waiting.turn_id, []), waiting]
                return
        self._context.in_background(self._context.end_accepted(turn), f"ending {turn.turn_id}")

    def _take_expired(self) -> list[Turn]:
        limit = self._context.clock.wall() - self._served.settings.max_age_s
        expired = [turn for turn in self._waiting if 0 < _sent_at(turn) < limit and not _is_scheduled(turn)]
        for turn in expired:
            self._waiting.remove(turn)
        return expired

    async def _sum_up(self, expired: list[Turn]) -> None:
        """Say in one line that messages are too old to be answered now."""
        count = len(expired)
        which = "A message of yours was" if count == 1 else f"{count} messages of yours were"
        line = f"⚠️ {which} not answered, because I was away for too long. Send again what you still need."
        await self._context.end_all([*self._take_others(expired), expired[-1]], line)

    def _take_next(self) -> list[Turn]:
        """The next message; with the setting `merge`, all messages of the same person that wait."""
        turns = [self._waiting.popleft()]
        if self._served.settings.busy == "merge":
            while self._waiting and _can_join(turns[-1], self._waiting[0]):
                turns.append(self._waiting.popleft())
        return turns

    def _take_others(self, turns: list[Turn]) -> list[Turn]:
        """The turns to close when the last of `turns` begins, because it answers their messages too.

        These are the earlier ones of `turns`, and turns of messages that the person has replaced by an edit.
        """
        replaced = [original for turn in turns for original in self._replaced.pop(turn.turn_id, [])]
        return replaced + turns[:-1]

    async def _refuse(self) -> None:
        """Tell the chat that the queue is full.

        Each refused message gets a line, as a reply. If more than `_MAX_NOTICES` wait for theirs, one line is for all.
        """
        size = self._context.max_queue_size
        why = f"because {size} {'message waits' if size == 1 else 'messages wait'} here already."
        try:
            while self._refused:
                if len(self._refused) > _MAX_NOTICES:
                    turns = list(self._refused)
                    self._refused.clear()
                    line = f"⚠️ I did not take your last {len(turns)} messages, {why} Send them again later."
                    await self._context.end_all(turns, line)
                else:
                    turn = self._refused.popleft()
                    line = f"⚠️ I did not take this message, {why} Send it again later."
                    await self._context.end_accepted(turn, line, is_reply=True)
        finally:
            self._is_refusing = False
            self._on_idle(self)

    async def _answer_word(self, turn: Turn) -> None:
        assert turn.message is not None, "an accepted turn has its message"
        try:
            await self._served.was_connected.wait()
            text = await answer_word(turn.message, self, self._context)
            has_buttons = text == HELP and isinstance(self._served.channel, AsksByButtons)
            await self._context.say(turn.turn_id, self.target, text, buttons=WORD_BUTTONS if has_buttons else ())
        finally:
            self._on_idle(self)

    async def _show_taken(self) -> None:
        """Show that a message was taken that waits behind another one."""
        channel, now = self._served.channel, self._context.clock.monotonic()
        if isinstance(channel, ShowsTyping) and now - self._typed_at >= _TYPING_EVERY_S:
            self._typed_at = now
            with suppress(Exception):  # only a sign of life; the message was taken
                async with asyncio.timeout(_TYPING_EVERY_S):
                    await channel.typing(Typing(target=self.target))

    # Answers

    async def _answer(self, turns: list[Turn]) -> None:
        """Answer a message, or several together. What fails before the agent has begun is tried three times."""
        others, pause_s = self._take_others(turns), _FIRST_PAUSE_S
        for _ in range(_MAX_STARTS):
            try:
                await self._try_to_answer(turns, others)
            except (LedgerLost, LedgerClosed):
                raise
            except Exception as error:  # noqa: BLE001 -- the next message must be answered
                _log.error("%s: turn %s could not be started", self.name, turns[-1].turn_id, exc_info=error)
                await asyncio.sleep(pause_s)
                pause_s *= 4
            else:
                await self._context.end_all(others)
                return
        await self._context.end_all([*others, turns[-1]], GIVEN_UP, state=TurnState.FAILED)

    async def _try_to_answer(self, turns: list[Turn], others: list[Turn]) -> None:
        """Answer the messages. Raises an error only if the agent has not begun. `others` end when it begins."""
        turn, messages = turns[-1], [turn.message for turn in turns if turn.message is not None]
        say, sessions = self._context.say, self._context.router.sessions
        word, asked_by = word_of(messages[-1]), tuple(one.turn_id for one in turns)
        if word == "new":
            sessions.begin(self.name)
            if not (text := rest_of(messages[-1])):
                await say(turn.turn_id, self.target, "A new conversation begins.")
                return
        elif word == "retry":
            asked_by = sessions.last_turns(self.name)
            if not (text := await self._prompt_of(asked_by)):
                await say(turn.turn_id, self.target, "There is no message to answer again.")
                return
        else:
            text = "\n\n".join(map(prompt_of, messages))
            if schedule_of(messages[-1]):
                asked_by = sessions.last_turns(self.name)  # `/retry` repeats what a person has asked
        if files := ", ".join(files_of(message) for message in messages if message.attachments):
            line = f"⚠️ The agent takes no files: it did not get {files}."
            await say(f"{turn.turn_id}/files" if text else turn.turn_id, self.target, line)
        if text or not files:
            await self._run_agent(turn, others, text, asked_by)

    async def _run_agent(self, turn: Turn, others: list[Turn], text: str, asked_by: tuple[str, ...]) -> None:
        message = turn.message
        assert message is not None, "an accepted turn has its message"
        request = TurnRequest(
            turn_id=turn.turn_id,
            text=text,
            conversation=self.name,
            user_id=message.sender.id,
            agent_id=self._context.schedule_agents.get(schedule_of(message), self._served.agent_id),
            asked_by=asked_by,
        )

        async def end_others() -> None:
            await self._context.end_all(others, state=TurnState.DONE)
            others.clear()

        router = self._context.router
        running = router.agent_turn(request, context=message, on_start=end_others)
        shown_by = self._presenter(is_scheduled=_is_scheduled(turn))
        presenter = ObservedPresenter(shown_by, turn, self._context)
        self.running, self.running_since = running, self._context.clock.monotonic()
        try:
            await router.answer(request, self._served.name, presenter, running)
        except (LedgerLost, LedgerClosed):
            raise
        except Exception:
            if not running.is_started:
                raise
            # Its sender closes the turn with a line that says that it was interrupted.
            _log.exception("%s: turn %s was interrupted by an error", self.name, turn.turn_id)
        finally:
            self.running = None

    def _presenter(self, *, is_scheduled: bool) -> Presenter:
        served, courier = self._served, self._context.courier
        if served.provider is None:
            wants_text, settings = self._context.router.has_response_handlers, served.projector
            if is_scheduled:
                settings = replace(settings, presentation="final")
            return CourierPresenter(
                courier, self.target, settings, needs_text=wants_text, shows_typing=not is_scheduled
            )
        is_streamed = served.settings.streaming_enabled and not is_scheduled
        if isinstance(served.provider, StreamingChannelProvider) and is_streamed:
            return RecordedStreamingPresenter(courier, self.target, served.provider)
        return RecordedPresenter(courier, self.target)

    async def _prompt_of(self, turn_ids: tuple[str, ...]) -> str:
        """The prompt that the messages of these turns were; "" if they are not known any more."""
        found = [await self._context.ledger.turn(turn_id) for turn_id in turn_ids]
        messages = [turn.message for turn in found if turn is not None and turn.message is not None]
        return "\n\n".join(rest_of(message) if word_of(message) else prompt_of(message) for message in messages)


def _is_scheduled(turn: Turn) -> bool:
    return turn.message is not None and bool(schedule_of(turn.message))


def _sent_at(turn: Turn) -> float:
    """When the message was sent, as far as that is known."""
    return (turn.message.at if turn.message is not None else 0.0) or turn.updated_at


def _can_join(first: Turn, second: Turn) -> bool:
    """Whether two messages can become one prompt: both are from one person, and neither is a word."""
    one, two = first.message, second.message
    if one is None or two is None or one.sender.id != two.sender.id or schedule_of(one) or schedule_of(two):
        return False
    return not word_of(one) and not word_of(two)
