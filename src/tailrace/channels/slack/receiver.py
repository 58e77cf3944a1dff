"""Receives what people do in Slack, over a socket or by HTTP, and gives it to the inbox of the channel."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tailrace.channels.http_session import CALL_DEADLINE_S
from tailrace.channels.receiving import Receiver
from tailrace.channels.slack.client import SlackCall
from tailrace.channels.slack.events import CommandPayload, EventPayload, InteractionPayload
from tailrace.channels.slack.inbound import AppAccount, inbound_of_command, inbound_of_event, inbound_of_press
from tailrace.channels.slack.requests import PATH, SignedRequests
from tailrace.channels.slack.socket_mode import DEAD_S, SocketReader
from tailrace.channels.webhook import WebhookServer
from tailrace.errors import ChannelFault, MaybeSent, NotSent
from tailrace.inbound import InboundMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import aiohttp

    from tailrace.channels.slack.client import SlackClient
    from tailrace.channels.slack.events import ChatEvent
    from tailrace.channels.slack.settings import SlackAppSettings
    from tailrace.inbound import Inbound
    from tailrace.ports import Inbox

_log = logging.getLogger(__name__)

_CHECK_S = 60.0  # how often the token is checked while no socket proves that Slack can be reached
_KNOWN = 2_000  # how many names and threads are remembered


class _Profile(msgspec.Struct, frozen=True):
    display_name: str = ""
    real_name: str = ""


class _User(msgspec.Struct, frozen=True):
    profile: _Profile = _Profile()
    real_name: str = ""
    name: str = ""


class _FoundUser(msgspec.Struct, frozen=True):
    user: _User


class EventReceiver(Receiver):
    """Receives the events of an app. `recipients` are the people who wrote last in each thread, and their workspaces.

    `socket_api` calls Slack with the token of the socket. `clock` gives the seconds since 1970.
    """

    def __init__(
        self,
        api: SlackClient,
        socket_api: SlackClient | None,
        settings: SlackAppSettings,
        on_recorded: Callable[[InboundMessage], Coroutine[Any, Any, None]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        proof_every_s = DEAD_S if socket_api is not None else _CHECK_S + CALL_DEADLINE_S
        super().__init__(proof_every_s=proof_every_s, on_recorded=on_recorded)
        self._api = api
        self._socket_api = socket_api
        self._settings = settings
        self._clock = clock
        self._account = AppAccount(channel="", user_id="")
        self._names: dict[str, str] = {}
        self.recipients: dict[tuple[str, str | None], tuple[str, str]] = {}

    async def start(self, inbox: Inbox, account: AppAccount) -> None:
        """Begin to receive the events for `account`. `inbox` records them.

        Call this right after Slack has answered: that answer is the first proof of life.
        """
        self._inbox, self._account = inbox, account
        self._note_life()
        if self._socket_api is not None:
            reader = SocketReader(self._socket_api, self._receive, on_life=self._note_life)
            self._in_background(reader.run(await self._first_socket(reader)), on_error=self._fail)
        else:
            requests = SignedRequests(self._receive, secret=self._settings.signing_secret, clock=self._clock)
            self._webhook = WebhookServer(requests, path=PATH, on_failure=self._fail)
            await self._webhook.listen(*self._settings.listen_address)
            self._in_background(self._check())

    async def _first_socket(self, reader: SocketReader) -> aiohttp.ClientWebSocketResponse | None:
        """Open the first socket, so that a wrong token is an error of the start.

        Returns None if it could not be opened now. Sending works without it, and Slack limits how often a process may
        start within a minute.
        """
        try:
            return await reader.connect()
        except (NotSent, MaybeSent) as error:
            _log.warning("no messages are received yet: %s", error)
            return None

    @property
    def port(self) -> int:
        """The port on which the channel listens for events by HTTP."""
        assert self._webhook is not None, "only asked while it listens"
        return self._webhook.port

    async def _check(self) -> None:
        """Ask again and again whether Slack can be reached, because an idle app gets no requests."""
        while True:
            await asyncio.sleep(_CHECK_S)
            try:
                await self._api.call(SlackCall("auth.test", {}), dict[str, Any])
                self._note_life()
            except ChannelFault as error:
                _log.warning("Slack could not be asked whether the token is valid: %s", error)

    async def _receive(self, kind: str, encoded: bytes) -> None:
        """Give what a person did to the inbox. A malformed event is logged and skipped."""
        try:
            inbound = self._inbound(kind, encoded)
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            # The error names the place of the mistake and no content.
            _log.warning("an event of the kind %s is malformed and skipped: %s", kind[:20], error)
            return
        if inbound is None:
            return
        if isinstance(inbound, InboundMessage):
            inbound = replace(inbound, sender=replace(inbound.sender, name=await self._name(inbound)))
        await self._record(inbound)

    def _inbound(self, kind: str, encoded: bytes) -> Inbound | None:
        match kind:
            case "events_api":
                payload = msgspec.json.decode(encoded, type=EventPayload)
                inbound = inbound_of_event(payload, self._account)
                if isinstance(inbound, InboundMessage) and payload.event is not None:
                    self._remember(inbound, payload.event)
                return inbound
            case "interactive":
                return inbound_of_press(msgspec.json.decode(encoded, type=InteractionPayload), self._account)
            case "slash_commands":
                return inbound_of_command(msgspec.json.decode(encoded, type=CommandPayload), self._account)
            case _:
                return None

    async def _name(self, message: InboundMessage) -> str:
        """The name of the sender. Events do not contain it, so Slack is asked for it once."""
        sender = message.sender
        if sender.name or sender.is_bot or not sender.id:
            return sender.name
        if sender.id not in self._names:
            try:
                found = await self._api.call(SlackCall("users.info", {"user": sender.id}), _FoundUser)
            except ChannelFault as error:
                _log.warning("the name of a person is not known: %s", error)
                return ""
            user = found.user
            name = user.profile.display_name or user.profile.real_name or user.real_name or user.name
            remember(self._names, sender.id, name)
        return self._names[sender.id]

    def _remember(self, message: InboundMessage, event: ChatEvent) -> None:
        """Remember for whom a stream in this thread is."""
        if not message.sender.is_bot:
            team = event.user_team or event.team or self._account.team_id
            remember(self.recipients, (message.target.chat, message.target.thread), (message.sender.id, team))


def remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    """Remember a value. Of too many, the oldest is forgotten."""
    known.pop(key, None)
    known[key] = value
    if len(known) > _KNOWN:
        del known[next(iter(known))]
