"""What an extension can do: ask the agent, hand in what people say, and follow what is said."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from tailrace.errors import ExtensionFault, UsageError
from tailrace.gateway.extension_call import call_extension
from tailrace.gateway.extensions import ExtensionChannelSettings
from tailrace.inbound import InboundMessage, Sender
from tailrace.operations import Target

if TYPE_CHECKING:
    from tailrace.gateway.context import GatewayContext
    from tailrace.gateway.extensions import Extension
    from tailrace.gateway.router import Callback, EventName, Handler
    from tailrace.ports import Inbox

_HANDLER_S = 5.0
_DEFAULTS = ExtensionChannelSettings()


class ExtensionContext:
    """The gateway passes this to the method `initialize` of an extension.

    `logger` is the extension's own. `inbox` is None as long as the gateway does not serve the extension as a channel.
    """

    def __init__(self, extension: Extension, gateway: GatewayContext, *, name: str) -> None:
        self.name = name
        self.logger = logging.getLogger(f"tailrace.extension.{name}")
        self.inbox: Inbox | None = None
        self._extension = extension
        self._gateway = gateway

    async def invoke_agent(self, prompt: str) -> str:
        """Ask the agent and return its whole answer. Raises `RuntimeFault` with `partial` if it failed."""
        return await self.invoke_agent_streamed(prompt, lambda _: None)

    async def invoke_agent_streamed(self, prompt: str, on_chunk: Callback, on_tool_call: Callback | None = None) -> str:
        """Ask the agent, and call `on_chunk` with each piece of its answer and `on_tool_call` with each tool's name.

        The prompts of an extension are one conversation, `extension:NAME`. Nothing of it is sent to people.
        """
        return await self._gateway.router.invoke_agent_streamed(
            self._text(prompt, "prompt"),
            on_chunk,
            on_tool_call,
            self._extension.agent_id,
            conversation=f"extension:{self.name}",
        )

    async def handle_user_message(self, text: str, user_id: str) -> None:
        """Hand in what a person said. Returns when the message is recorded; the answer comes by the channel's methods.

        Raises `LedgerUnavailable` if the message was not recorded; hand it in again later.
        """
        if self.inbox is None:
            raise UsageError(
                f"the extension {self.name} is not served as a channel: it needs send_to_user or the four streaming "
                "methods, and must wait for start()"
            )
        if not self._text(user_id, "user_id"):
            raise UsageError(f"the extension {self.name} passed an empty user_id")
        message = InboundMessage(
            channel=self.name,
            event_id=uuid.uuid4().hex,
            target=Target(channel=self.name, chat=user_id),
            text=self._text(text, "text"),
            sender=Sender(id=user_id),
            at=self._gateway.clock.wall(),
        )
        await self.inbox.receive(message)

    def subscribe(self, name: EventName, handler: Handler) -> None:
        """Call the handler with each event `user_message` or `agent_response`. It runs beside the turn."""

        async def call(event: dict[str, Any]) -> None:
            try:
                await call_extension(self.name, handler, event, timeout_s=_HANDLER_S)
            except ExtensionFault as error:
                self.logger.warning("%s", error)

        def call_in_background(event: dict[str, Any]) -> None:
            self._gateway.in_background(call(event), f"a handler of the extension {self.name}")

        self._gateway.router.subscribe(name, call_in_background)

    def get_config(self, key: str, default: Any = None) -> Any:
        """The value of `config` in the manifest. The keys that all channels have are never missing."""
        if key in self._extension.config:
            return self._extension.config[key]
        return getattr(_DEFAULTS, key, None) if default is None else default

    def _text(self, value: object, parameter: str) -> str:
        if isinstance(value, str):
            return value
        kind = type(value).__name__
        raise UsageError(f"the extension {self.name} passed {kind} as {parameter}: pass a string")
