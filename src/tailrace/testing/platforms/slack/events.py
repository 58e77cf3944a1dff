"""Sends what people do to the app: over a socket of Socket Mode, or by HTTP to the request URL.

An event that is not acknowledged in time is sent again, a few times. A press of a button and a slash command are sent
once: if they are not acknowledged, the person sees an error.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from tailrace.testing.faults import RepeatUpdates
from tailrace.testing.platforms.slack.rules import SlackRefusal
from tailrace.testing.platforms.slack.world import Whisper

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tailrace.testing.faults import Script
    from tailrace.testing.platforms.slack.world import SlackWorld

_CLOSES_AFTER_S = 2.0  # after Slack has asked for a new connection


class EventSender:
    """Sends the events of a world. `run` does this until it is cancelled.

    `request_url` is the address for HTTP; it is used only if Socket Mode is off (`world.socket_mode`).
    """

    def __init__(
        self,
        world: SlackWorld,
        faults: Script,
        clock: Callable[[], float],
        *,
        signing_secret: str,
        notify: Callable[[], Awaitable[None]],
    ) -> None:
        self._world = world
        self._faults = faults
        self._clock = clock
        self._secret = signing_secret
        self._notify = notify
        self.request_url = ""
        self.sockets: list[web.WebSocketResponse] = []
        self._tickets: set[str] = set()
        self._acks: dict[str, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Look for new events, because something has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Send each new event, beside the others, until this is cancelled."""
        try:
            async with aiohttp.ClientSession() as session:
                while True:
                    self._changed.clear()
                    while self._world.new_events:
                        kind, content = self._world.new_events.popleft()
                        self._begin(self._deliver(session, kind, self._payload(kind, content)))
                    await self._changed.wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Socket Mode

    def open_connection(self, base: str) -> dict[str, Any]:
        """The method `apps.connections.open`: an address that one socket can use."""
        if not self._world.socket_mode:
            raise SlackRefusal("socket_mode_off")
        if len(self.sockets) >= self._world.settings.most_connections:
            raise SlackRefusal("too_many_sockets")
        ticket = f"ticket-{self._world.new_number()}"
        self._tickets.add(ticket)
        return {"url": f"{base.replace('http', 'ws', 1)}/link/?ticket={ticket}&app_id={self._world.app_id}"}

    async def serve_socket(self, request: web.Request) -> web.StreamResponse:
        """One connection of Socket Mode: say hello, then take acknowledgements until it is closed."""
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            raise web.HTTPUnauthorized
        self._tickets.discard(ticket)
        socket = web.WebSocketResponse(max_msg_size=1024 * 1024)
        await socket.prepare(request)
        lifetime_s = self._world.settings.connection_s
        debug = {"host": "simulated", "approximate_connection_time": int(lifetime_s)}
        info = {"app_id": self._world.app_id}
        self.sockets.append(socket)
        timer = asyncio.get_running_loop().call_later(
            lifetime_s, lambda: self._begin(self._disconnect(socket, "refresh_requested"))
        )
        try:
            hello = {"type": "hello", "num_connections": len(self.sockets), "debug_info": debug}
            await socket.send_json({**hello, "connection_info": info})
            await self._notify()
            async for message in socket:
                self._take_ack(message)
        except ConnectionError:
            pass
        finally:
            timer.cancel()
            self.sockets.remove(socket)
            await self._notify()
        return socket

    def _take_ack(self, message: aiohttp.WSMessage) -> None:
        try:
            envelope_id = json.loads(message.data).get("envelope_id")
        except (ValueError, TypeError, AttributeError):
            return
        waiting = self._acks.get(envelope_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def disconnect(self, reason: str) -> None:
        """Ask for a new connection on every socket, and close it a moment later.

        `reason` is `refresh_requested`, `warning`, or `link_disabled` if Socket Mode was switched off.
        """
        for socket in list(self.sockets):
            self._begin(self._disconnect(socket, reason))

    async def _disconnect(self, socket: web.WebSocketResponse, reason: str) -> None:
        try:
            await socket.send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "simulated"}})
            await asyncio.sleep(_CLOSES_AFTER_S)
            await socket.close()
        except ConnectionError:
            pass

    # Sending

    async def _deliver(self, session: aiohttp.ClientSession, kind: str, payload: dict[str, Any]) -> None:
        """Send one event until it is acknowledged, or until it was sent too often."""
        waits = self._world.settings.retries_s if kind == "events_api" else ()
        reason = ""
        for attempt, wait_s in enumerate((0.0, *waits)):
            await asyncio.sleep(wait_s)
            reason = await self._send(session, kind, payload, (attempt, reason))
            if not reason and self._is_repeated():
                reason = await self._send(session, kind, payload, (attempt, reason))
            if not reason or reason == "refused":
                break
        if reason and kind != "events_api":
            user = self._world.users[payload.get("user_id") or payload["user"]["id"]]
            chat = self._world.chats[payload.get("channel_id") or payload["channel"]["id"]]
            chat.whispers.append(Whisper(self._clock(), user, f"The app did not respond ({reason})"))
            self._world.version += 1
        await self._notify()

    def _is_repeated(self) -> bool:
        """Whether a fault says to send this event again, although the app has acknowledged it."""
        kind = "socket" if self._world.socket_mode else "webhook"
        return isinstance(self._faults.next(kind, "", self._clock()), RepeatUpdates)

    async def _send(
        self, session: aiohttp.ClientSession, kind: str, payload: dict[str, Any], retry: tuple[int, str]
    ) -> str:
        """Send once. Returns "" if it was acknowledged, otherwise the reason."""
        if self._world.socket_mode:
            return await self._send_to_socket(kind, payload, retry)
        return await self._send_by_http(session, kind, payload, retry)

    async def _send_to_socket(self, kind: str, payload: dict[str, Any], retry: tuple[int, str]) -> str:
        open_sockets = [socket for socket in self.sockets if not socket.closed]
        if not open_sockets:
            return "no_connection"
        envelope_id = f"envelope-{self._world.new_number()}"
        envelope = {"envelope_id": envelope_id, "type": kind, "payload": payload, "accepts_response_payload": False}
        if kind == "events_api":
            envelope |= {"retry_attempt": retry[0], "retry_reason": retry[1]}
        acknowledged = self._acks[envelope_id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._world.settings.ack_s):
                await self._world.random.choice(open_sockets).send_json(envelope)
                await acknowledged
        except TimeoutError:
            return "timeout"
        except ConnectionError:
            return "connection_failed"
        finally:
            del self._acks[envelope_id]
        return ""

    async def _send_by_http(
        self, session: aiohttp.ClientSession, kind: str, payload: dict[str, Any], retry: tuple[int, str]
    ) -> str:
        if not self.request_url:
            return "no_connection"
        if kind == "events_api":
            body, content_type = json.dumps(payload).encode(), "application/json"
        else:
            form = payload if kind == "slash_commands" else {"payload": json.dumps(payload)}
            body, content_type = urlencode(form).encode(), "application/x-www-form-urlencoded"
        headers = {"Content-Type": content_type, **self.signature(body)}
        if retry[0]:
            headers |= {"X-Slack-Retry-Num": str(retry[0]), "X-Slack-Retry-Reason": retry[1]}
        timeout = aiohttp.ClientTimeout(total=self._world.settings.ack_s)
        try:
            async with session.post(self.request_url, data=body, headers=headers, timeout=timeout) as answer:
                await answer.read()
                if answer.status < 300:
                    return ""
                return "refused" if answer.headers.get("X-Slack-No-Retry") == "1" else "http_error"
        except TimeoutError:
            return "http_timeout"
        except aiohttp.ClientError:
            return "connection_failed"

    def signature(self, body: bytes) -> dict[str, str]:
        """The headers with which Slack signs a request."""
        at = str(int(self._clock()))
        digest = hmac.new(self._secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
        return {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": f"v0={digest}"}

    async def verify_url(self, url: str) -> None:
        """Send events to this URL from now on, as soon as it has answered the challenge. Raises `ValueError`."""
        challenge = f"challenge-{self._world.new_number()}"
        body = json.dumps({"token": "old", "challenge": challenge, "type": "url_verification"}).encode()
        headers = {"Content-Type": "application/json", **self.signature(body)}
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
            if answer.status != 200 or challenge not in await answer.text():
                raise ValueError(f"the URL did not answer the challenge: status {answer.status}")
        self.request_url, self._world.socket_mode = url, False

    def _payload(self, kind: str, content: dict[str, Any]) -> dict[str, Any]:
        world = self._world
        if kind != "events_api":
            return content
        of_whom = {"enterprise_id": world.enterprise_id, "team_id": world.team_id, "user_id": world.bot.id}
        return {
            "team_id": world.team_id,
            "context_team_id": world.team_id,
            "context_enterprise_id": world.enterprise_id,
            "api_app_id": world.app_id,
            "event": content,
            "type": "event_callback",
            "event_id": f"Ev{world.new_number():08d}",
            "event_time": int(self._clock()),
            "authorizations": [{**of_whom, "is_bot": True, "is_enterprise_install": False}],
        }
