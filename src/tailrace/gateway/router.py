"""The message router: takes what a person says, asks the agent, and shows the answer on the person's channel.

Different conversations run side by side. One conversation is answered strictly in order: a lock is held from the start
of a turn to its end. The router decides by `isinstance` how a channel shows an answer; there are no flags.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tailrace.delivery import Courier
from tailrace.errors import RuntimeFault, UsageError, did_you_mean
from tailrace.events import TextDelta, ToolStarted, TurnCompleted
from tailrace.gateway.agent_turn import AgentTurn
from tailrace.gateway.presenters import AnswerReader, CourierPresenter, ProviderPresenter, StreamingPresenter
from tailrace.gateway.sessions import Sessions
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Target
from tailrace.ports import Channel, Prompt, Runtime, StreamingChannelProvider
from tailrace.projector import ProjectorSettings
from tailrace.redaction import redact

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

    from tailrace.events import Event
    from tailrace.gateway.presenters import Presenter
    from tailrace.ledger_port import Ledger
    from tailrace.ports import ChannelProvider

    Middleware = Callable[[str, str | None], Awaitable[str]]
    Callback = Callable[[str], Awaitable[None] | None]
    Handler = Callable[[dict[str, Any]], Awaitable[None] | None]

EventName = Literal["user_message", "agent_response"]

_log = logging.getLogger(__name__)
_HANDLER_S = 5.0


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that the router can ask. `middleware` gets the prompt and the agent's id, and returns the prompt."""

    runtime: Runtime
    middleware: Any = None


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One prompt of a person, and the conversation that gets the answer.

    `asked_by` are the turns of the messages that are the prompt, if these are not this turn alone.
    """

    turn_id: str
    text: str
    conversation: str
    user_id: str = ""
    agent_id: str | None = None
    asked_by: tuple[str, ...] = ()


class _NoAgent:
    """Answers every prompt with a line that says that there is no agent."""

    name = "none"

    async def run(self, prompt: Prompt) -> AsyncGenerator[Event, None]:  # noqa: ARG002 -- the port has it
        yield TextDelta(text="(No agent configured.)")
        yield TurnCompleted()


class MessageRouter:
    """Connects agents with channels. Without a ledger, deliveries of built-in channels are recorded in memory."""

    def __init__(
        self,
        *,
        runtime: Runtime | None = None,
        session_timeout: float = 1800.0,
        invoke_middleware: Middleware | None = None,
        ledger: Ledger | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sessions = Sessions(session_timeout, clock)
        self.agents: dict[str, Agent] = {}
        self._default = Agent(runtime=runtime or _NoAgent(), middleware=invoke_middleware)
        self._ledger = ledger
        self._courier: Courier | None = None
        self._locks = _ConversationLocks()
        self._handlers: dict[str, list[Handler]] = {"user_message": [], "agent_response": []}
        self._channels: dict[str, Any] = {}

    # Agents

    async def invoke_agent(self, prompt: str, agent_id: str | None = None) -> str:
        """Ask the agent and return its whole answer. Raises `RuntimeFault` with `partial` if it failed."""
        return await self.invoke_agent_streamed(prompt, lambda _: None, agent_id=agent_id)

    async def invoke_agent_streamed(
        self,
        prompt: str,
        on_chunk: Callback,
        on_tool_call: Callback | None = None,
        agent_id: str | None = None,
        *,
        conversation: str = "router",
    ) -> str:
        """Ask the agent, and call `on_chunk` with each piece of its answer and `on_tool_call` with each tool's name.

        Returns the final answer, without text that was retracted. Turns of one `conversation` run one after the other.
        """
        request = TurnRequest(turn_id=uuid.uuid4().hex, text=prompt, conversation=conversation, agent_id=agent_id)
        turn, reader = self.agent_turn(request), AnswerReader()
        async with self._locks.hold(conversation):
            async for event in turn.events():
                if text := reader.feed(event):
                    await _call_back(on_chunk, text)
                if on_tool_call is not None and isinstance(event, ToolStarted) and event.parent_tool_id is None:
                    await _call_back(on_tool_call, event.name)
            await turn.wait_for_agent()
            self.sessions.end_turn(conversation)
        if reader.failure is not None:
            raise RuntimeFault(reader.failure, partial=reader.partial)
        return reader.text

    def agent_turn(
        self, request: TurnRequest, *, context: Any = None, on_start: Callable[[], Awaitable[None]] | None = None
    ) -> AgentTurn:
        """The turn of the agent that answers the request; it is not started. Raises `UsageError` for a wrong id.

        `on_start` is awaited before the agent is asked.
        """
        agent = self._agent(request.agent_id)

        async def prompt() -> Prompt:
            if on_start is not None:
                await on_start()
            text = request.text.strip()
            if agent.middleware is not None:
                text = await agent.middleware(text, request.agent_id)
            session = self.sessions.use(request.conversation, turns=request.asked_by or (request.turn_id,))
            return Prompt(text=text, session_id=session.id, user_id=request.user_id, conversation=request.conversation)

        return AgentTurn(agent.runtime, prompt, turn_id=request.turn_id, context=context)

    def _agent(self, agent_id: str | None) -> Agent:
        if agent_id is None or not self.agents:
            return self._default
        if agent_id not in self.agents:
            raise UsageError(f"there is no agent {agent_id!r}.{did_you_mean(agent_id, list(self.agents))}")
        return self.agents[agent_id]

    # Channels

    def register(self, channel: Any) -> None:
        """Make a channel known by its name."""
        self._channels[channel.name] = channel

    def get_adapter(self, name: str) -> Any | None:
        """The registered channel with that name."""
        return self._channels.get(name)

    async def handle_user_message(
        self, text: str, user_id: str, channel: Channel | StreamingChannelProvider | ChannelProvider
    ) -> None:
        """Answer a message on the channel it came from. For a built-in channel, `user_id` is a source id."""
        target = None if not isinstance(channel, Channel) else Target.of_source(channel.name, user_id)
        conversation = f"{channel.name}:{user_id}" if target is None else target.conversation
        request = TurnRequest(turn_id=uuid.uuid4().hex, text=text, conversation=conversation, user_id=user_id)
        await self.answer(request, channel.name, await self._presenter(channel, user_id, target))

    async def answer(
        self, request: TurnRequest, channel_name: str, presenter: Presenter, turn: AgentTurn | None = None
    ) -> None:
        """Answer a request by a presenter, when the earlier turns of the conversation have ended."""
        turn = turn or self.agent_turn(request)
        message = {"text": request.text, "user_id": request.user_id, "channel_id": channel_name}
        await self._publish("user_message", message)
        async with self._locks.hold(request.conversation):
            try:
                text = await presenter.present(request.turn_id, turn.events())
            finally:
                turn.is_shown.set()
                await turn.wait_for_agent()
            self.sessions.end_turn(request.conversation)
            session_id = turn.prompt.session_id if turn.prompt is not None else ""
            response = {"text": text, "user_id": request.user_id, "channel": channel_name}
            await self._publish("agent_response", {**response, "session_id": session_id, "agent_id": request.agent_id})

    async def _presenter(self, channel: Any, user_id: str, target: Target | None) -> Presenter:
        if target is not None:
            self._courier = self._courier or Courier(self._ledger or MemoryLedger())
            if self._courier.connected.get(channel.name) is not channel:
                self._courier.connect(channel)
            is_whole = getattr(channel, "streaming_enabled", True) is False
            settings = ProjectorSettings(presentation="final" if is_whole else None)
            return CourierPresenter(self._courier, target, settings, needs_text=self.has_response_handlers)
        if isinstance(channel, StreamingChannelProvider):
            return StreamingPresenter(channel, user_id)
        return ProviderPresenter(channel, user_id)

    async def aclose(self) -> None:
        """Finish the calls to built-in channels that are under way."""
        if self._courier is not None:
            await self._courier.drain()

    # Events

    def subscribe(self, name: EventName, handler: Handler) -> None:
        """Call the handler with each event `user_message` or `agent_response`."""
        if name not in self._handlers:
            raise UsageError(f"there is no event {name!r}: subscribe to {' or '.join(self._handlers)}")
        self._handlers[name].append(handler)

    def has_response_handlers(self) -> bool:
        """Whether a handler wants the texts of answers."""
        return bool(self._handlers["agent_response"])

    async def _publish(self, name: EventName, event: dict[str, Any]) -> None:
        for handler in list(self._handlers[name]):
            await _call_back(handler, dict(event))


class _ConversationLocks:
    """A lock for each conversation that is in use. Tasks get a lock in the order in which they asked for it."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, conversation: str) -> AsyncIterator[None]:
        """Hold the lock of the conversation until the block ends, also if the task is cancelled."""
        lock, users = self._locks.get(conversation, (asyncio.Lock(), 0))
        self._locks[conversation] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            users = self._locks[conversation][1] - 1
            if users:
                self._locks[conversation] = lock, users
            else:
                del self._locks[conversation]


async def _call_back(function: Callable[[Any], Awaitable[None] | None], value: Any) -> None:
    """Call a function of the program around the router. A failure is logged, and does not stop the turn."""
    try:
        result = function(value)
        if inspect.isawaitable(result):
            async with asyncio.timeout(_HANDLER_S):
                await result
    except Exception as error:  # noqa: BLE001 -- code of the caller
        _log.warning("%r raised %s: %s", function, type(error).__name__, redact(str(error)))
