"""What the parts of a gateway share: ledger, courier, router, channels with their settings, background tasks."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from tailrace.deliveries import Turn, TurnState, plan
from tailrace.delivery import CourierSettings
from tailrace.errors import LedgerClosed, LedgerLost
from tailrace.gateway.live_shadow import LiveShadows
from tailrace.markdown import render
from tailrace.operations import Edit, Post, Target
from tailrace.ports import AsksByButtons

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from tailrace.config import ChannelSettings
    from tailrace.deliveries import Delivery
    from tailrace.delivery import Courier
    from tailrace.gateway.access import AccessList, Approved
    from tailrace.gateway.metrics import Metrics
    from tailrace.gateway.questions import ChatQuestions
    from tailrace.gateway.router import MessageRouter
    from tailrace.operations import Body, Button, Durable
    from tailrace.ports import Channel, ChannelProvider, StreamingChannelProvider
    from tailrace.projector import ProjectorSettings

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class ServedChannel:
    """A channel of the gateway. `provider` is set for the channel of an extension, which presents in its own way."""

    def __init__(
        self,
        channel: Channel,
        settings: ChannelSettings,
        *,
        agent_id: str | None = None,
        projector: ProjectorSettings,
        provider: ChannelProvider | StreamingChannelProvider | None = None,
    ) -> None:
        self.channel = channel
        self.settings = settings
        self.agent_id = agent_id
        self.projector = projector
        self.provider = provider
        self.was_connected = asyncio.Event()

    @property
    def name(self) -> str:
        """The name of the channel."""
        return self.channel.name

    @property
    def courier_settings(self) -> CourierSettings:
        """The settings of its deliveries."""
        return CourierSettings(
            on_unknown=self.settings.on_unknown,
            max_age_s=self.settings.max_age_s,
            offers_resend=isinstance(self.channel, AsksByButtons),
        )


class GatewayContext:
    """The shared objects. `is_draining`: the process is about to end, so nothing new begins."""

    def __init__(
        self,
        courier: Courier,
        router: MessageRouter,
        access: AccessList,
        questions: ChatQuestions,
        *,
        metrics: Metrics,
        max_queue_size: int,
    ) -> None:
        self.courier = courier
        self.ledger = courier.ledger
        self.clock = courier.clock
        self.router = router
        self.access = access
        self.questions = questions
        self.metrics = metrics
        self.shadows = LiveShadows(None, self)
        self.max_queue_size = max_queue_size
        self.served: dict[str, ServedChannel] = {}
        self.schedule_agents: dict[str, str] = {}
        self.is_draining = False
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._background: set[asyncio.Task[Any]] = set()

    def fail(self, error: Exception) -> None:
        """End the process: `error` is final."""
        if not self._failure.done():
            self._failure.set_exception(error)

    async def wait_for_failure(self) -> None:
        """Wait for `fail` and raise its error."""
        await self._failure

    def in_background(self, work: Coroutine[Any, Any, Result], name: str) -> asyncio.Task[Result | None]:
        """Do some work beside everything else. Its failure is logged; the result is then None."""
        task = asyncio.create_task(self._guarded(work, name), name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(lambda _: work.close())  # a task that is cancelled before it begins does not close it
        return task

    async def _guarded(self, work: Coroutine[Any, Any, Result], name: str) -> Result | None:
        try:
            return await work
        except (LedgerLost, LedgerClosed) as error:
            self.fail(error)
        except Exception as error:  # noqa: BLE001 -- one failure must not disturb the others
            _log.error("%s failed: %s", name, error, exc_info=error)
        return None

    async def close(self) -> None:
        """Cancel the work in the background."""
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    # Lines of our own

    async def say(self, turn_id: str, target: Target, text: str, *, buttons: Sequence[Button] = ()) -> Delivery | None:
        """Send a line of our own as a turn, and return its first delivery. The same `turn_id` is sent only once."""
        body = replace(await self._body(target, text), buttons=tuple(buttons))
        return await self._perform(turn_id, Post(target=target, body=body))

    async def change(self, turn_id: str, sent: Delivery, text: str) -> None:
        """Replace the text of a line of our own, and remove its buttons; where that is impossible, send the text."""
        target = sent.operation.target
        body = await self._body(target, text)
        operation: Durable = Post(target=target, body=body)
        if sent.receipt is not None and self.courier.capabilities(target).edits is not None:
            operation = Edit(target=target, message_id=sent.receipt.message_id, body=body)
        await self._perform(turn_id, operation)

    async def _perform(self, turn_id: str, operation: Durable) -> Delivery | None:
        turn = await self.courier.begin(turn_id, operation.target)
        if turn.is_finished:
            turn.close()
            return None
        return next(iter(await turn.end(operation)), None)

    async def _body(self, target: Target, text: str) -> Body:
        await self.served[target.channel].was_connected.wait()
        return render(text, self.courier.capabilities(target).dialect)

    def welcome(self, approved: Approved) -> None:
        """Tell a person who was let in, in the chat that got the code."""
        person = approved.person
        if person.chat and person.channel in self.served:
            target = Target(channel=person.channel, chat=person.chat)
            line = "You may talk to me now. /help shows the words that I understand."
            self.in_background(self.say(f"approved {person.key} {approved.approved_at:.0f}", target, line), "a welcome")

    async def end_accepted(
        self, turn: Turn, text: str = "", *, state: TurnState = TurnState.CANCELLED, is_reply: bool = False
    ) -> None:
        """End a turn that no agent answers, with a line if there is one. `is_reply`: as a reply to its message."""
        target, deliveries = turn.target, []
        body = await self._body(target, text)
        if text:
            policy, now = self.courier.policy(target), self.clock.wall()
            reply_to = turn.message.message_id if is_reply and turn.message is not None else ""
            post = Post(target=target, body=body, reply_to=reply_to or None)
            deliveries = [plan(post, turn_id=turn.turn_id, ordinal=1, policy=policy, now=now)]
        await self.courier.deliver(turn, deliveries, ends=state)

    async def end_all(self, turns: Sequence[Turn], text: str = "", *, state: TurnState = TurnState.CANCELLED) -> None:
        """End several such turns, with one line for all of them."""
        for turn in turns[:-1]:
            await self.end_accepted(turn, state=state)
        for turn in turns[-1:]:
            await self.end_accepted(turn, text, state=state)
