"""A chat platform in memory, with faults. It knows what people saw at any time; the time is an argument.

`SimulatedPlatform` performs one `Request` at a time and returns a `Reply`. It is stricter than a real platform: it
measures every body itself, and its `complaints` list every call above the declared rates and every key that is used for
two contents. It closes streams and removes drafts when their lifetime is over, and refuses them where its
`Capabilities` say so. The idempotency in the capabilities decides what a repeated post does:

    keyed        within the window, a known key gives the earlier message; later the key is forgotten
    readback     every post is a new message and keeps its key, so `Find` can look it up
    repeatable   a post with a known key replaces the body of that message
    unkeyed      every post is a new message, and its key is not kept

What people do is stored as events until a channel has taken them. The platform reads no clock; its random numbers come
from a seed. Sockets are in `tailrace.testing.platform_process`; waiting and errors are in `tailrace.testing.simulated`.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Literal, assert_never

import msgspec
from msgspec.structs import replace

from tailrace.capabilities import Capabilities, DraftRules, Keyed, Readback, Repeatable, StreamRules, Unkeyed
from tailrace.inbound import Inbound
from tailrace.operations import (
    AppendStream,
    Body,
    CloseStream,
    Delete,
    Draft,
    Edit,
    OpenStream,
    Post,
    PostMedia,
    Typing,
)
from tailrace.testing.call_rates import CallRates
from tailrace.testing.drafts import Drafts
from tailrace.testing.faults import (
    Cut,
    Delayed,
    Fault,
    Late,
    LoseAccess,
    NoAnswer,
    Refuse,
    ReorderUpdates,
    RepeatUpdates,
    Reset,
    Script,
    ServerError,
    SlowBody,
    TooMany,
    Unreachable,
)
from tailrace.testing.wire import (
    GONE,
    NO_ACCESS,
    NOT_MODIFIED,
    NOT_STREAMING,
    TOO_LONG,
    TOO_MANY,
    WRONG,
    Absent,
    Acknowledge,
    Answer,
    Arrived,
    CallRecord,
    Complaint,
    Denied,
    Done,
    Ending,
    Find,
    MessageVersion,
    PlatformMessage,
    Reply,
    Request,
    ShownDraft,
)

_TOO_LONG = Denied(TOO_LONG, "the message is too long")
_GONE = Denied(GONE, "there is no such message")
_BROKEN = Denied(500, "the platform has a problem")
_NO_DRAFTS_HERE = Denied(WRONG, "drafts are for private chats")
_NO_STREAMS_HERE = Denied(WRONG, "streams are for threads")
_DRAFT_LIFETIME_S = 30.0
_ENDINGS: dict[type, Ending] = {ServerError: "whole", Reset: "reset", Cut: "cut", NoAnswer: "never"}


class SimulatedPlatform:
    """A simulated platform. `script` has the faults to come; `counts`, `calls` and `complaints` show what callers did.

    A call above the declared rates is a complaint; with `enforces_rates` the caller also gets status 429. A call may
    come `slack_s` too early, because calls take different times to arrive. `on_inbound` has callbacks for new events.
    Without `keeps_calls`, calls, earlier versions and ended drafts are not kept, to save memory in long runs.
    """

    def __init__(
        self,
        capabilities: Capabilities,
        *,
        seed: int = 0,
        enforces_rates: bool = False,
        slack_s: float = 0.0,
        keeps_calls: bool = True,
    ) -> None:
        self.capabilities = capabilities
        self.script = Script(random.Random(seed))  # noqa: S311  the seed repeats the chances of a test
        self._enforces_rates = enforces_rates
        self._slack_s = slack_s
        self._keeps_calls = keeps_calls
        native = capabilities.native
        self._draft_rules = native if isinstance(native, DraftRules) else None
        self._stream_rules = native if isinstance(native, StreamRules) else None
        self._number = 0
        self._event_numbers = count(1)
        self._order = count()
        self.on_inbound: set[Callable[[], None]] = set()
        self.clear()

    def clear(self) -> None:
        """Forget all chats, events, keys, calls and complaints. Faults stay. Ids of the past are not used again."""
        self.counts: Counter[str] = Counter()
        self.calls: list[CallRecord] = []
        self.complaints: list[Complaint] = []
        self.acknowledged: list[Acknowledge] = []
        self._inbound: list[Arrived] = []
        self._chats: dict[str, dict[str, PlatformMessage]] = {}
        self._keys: dict[tuple[str, str, str], _Known] = {}
        self._later: list[tuple[float, int, Callable[[float], object]]] = []
        self._rates = CallRates(self.capabilities, slack_s=self._slack_s)
        self._versions: dict[str, list[MessageVersion]] = {}
        lifetime_s = self._draft_rules.lifetime_s if self._draft_rules is not None else _DRAFT_LIFETIME_S
        self._drafts = Drafts(lifetime_s, keeps_past=self._keeps_calls)

    def history(self, chat: str | None = None) -> list[PlatformMessage]:
        """All messages of one chat or of all chats, in the order in which they became visible, also deleted ones."""
        chats = self._chats.values() if chat is None else [self._chats.get(chat, {})]
        return [message for messages in chats for message in messages.values()]

    def texts(self, chat: str) -> list[str]:
        """The texts that a person sees in the chat now."""
        return [message.text for message in self._chats.get(chat, {}).values() if not message.deleted]

    def drafts(self, chat: str, now: float) -> list[ShownDraft]:
        """The drafts that a person sees in the chat at that time."""
        return self._drafts.shown(chat, now)

    def versions(self, message_id: str) -> list[MessageVersion]:
        """All versions of a message, the oldest first."""
        return self._versions.get(message_id, [])

    def seen(self, chat: str, at: float) -> list[str]:
        """The texts that a person saw in the chat at that time: the messages in their order, then the drafts."""
        texts: list[str] = []
        for message_id in self._chats.get(chat, {}):
            latest = [version.message for version in self.versions(message_id) if version.at <= at][-1:]
            texts += [message.text for message in latest if not message.deleted]
        return texts + [draft.text for draft in self.drafts(chat, at)]

    def add_inbound(self, *events: Inbound) -> None:
        """Add events: what people do.

        Polls that wait are answered; even without events, they look again, as for a new fault.
        """
        self._inbound += [Arrived(next(self._event_numbers), inbound) for inbound in events]
        for callback in self.on_inbound:
            callback()

    def poll(self, taken: int, now: float) -> Arrived | Denied | None:
        """The first event with a number above `taken`; None if there is none. Events up to `taken` are forgotten."""
        fault = self.script.next("poll", "", now)
        if isinstance(fault, LoseAccess):
            return _no_access(fault)
        self._inbound = [arrived for arrived in self._inbound if arrived.number > taken]
        return self._inbound[0] if self._inbound else None

    def handle(self, request: Request, now: float) -> Reply:
        """Perform the call, or the fault that applies to it."""
        operation = request.operation
        kind, chat = _KINDS[type(operation)], operation.target.chat
        self.advance(now)
        fault = self.script.next(kind, chat, now)
        self.counts[kind] += 1
        if self._keeps_calls:
            tag = "" if fault is None else str(type(fault).__struct_config__.tag)
            self.calls.append(CallRecord(kind=kind, chat=chat, at=now, key=request.key, fault=tag))
        if isinstance(fault, Unreachable):
            return Reply(Denied(0, "never arrived"), "unreachable")
        if kind not in _FREE and (refusal := self._count(request, now)) is not None:
            return Reply(refusal)
        return Reply(self._do(request, now)) if fault is None else self._do_with_fault(fault, request, now)

    def advance(self, now: float) -> float | None:
        """Do everything that is due at the time `now`, such as closing streams.

        Returns the time at which something is due next; None if nothing is.
        """
        while self._later and self._later[0][0] <= now:
            due, _, act = heapq.heappop(self._later)
            act(due)
        return self._later[0][0] if self._later else None

    def _count(self, request: Request, now: float) -> Denied | None:
        """Count the call. Returns a refusal if it comes too early and the platform refuses such calls."""
        target = request.operation.target
        early = self._rates.too_early(target, now)
        for wait, _everywhere in early:
            kind = _KINDS[type(request.operation)]
            self._complain("pace", target.chat, now, f"{kind} came {wait:.3f} s too early")
        if early and self._enforces_rates:
            # A call that is refused does not count against the rates.
            wait, everywhere = max(early)
            return Denied(TOO_MANY, "too many requests", wait, everywhere)
        self._rates.count(target, now)
        return None

    def _schedule(self, due: float, act: Callable[[float], object]) -> None:
        heapq.heappush(self._later, (due, next(self._order), act))

    def _do_with_fault(self, fault: Fault, request: Request, now: float) -> Reply:
        match fault:
            case Refuse():
                reply = Reply(Denied(fault.status, fault.reason))
            case LoseAccess():
                reply = Reply(_no_access(fault))
            case TooMany():
                reply = Reply(Denied(TOO_MANY, "too many requests", fault.retry_after, fault.everywhere))
            case ServerError() | Reset() | Cut() | NoAnswer():
                answer = self._do(request, now) if fault.applied else _BROKEN
                if isinstance(fault, ServerError):
                    answer = replace(_BROKEN, status=fault.status)
                reply = Reply(answer, _ENDINGS[type(fault)])
            case Delayed() | SlowBody():
                reply = Reply(self._do(request, now), delay_s=fault.by_s)
            case Late():
                reply = Reply(self._do_later(request, now, fault.after_s), "whole" if fault.answered else "never")
            case RepeatUpdates() | ReorderUpdates():
                reply = Reply(self._do(request, now))  # of no effect here: each poll gets one event
            case Unreachable():
                raise AssertionError("`handle` has answered a call that never arrived")
            case _:
                assert_never(fault)
        return reply

    def _do_later(self, request: Request, now: float, after_s: float) -> Answer:
        operation = request.operation
        message_id = ""
        if isinstance(operation, Post | PostMedia | OpenStream):
            if (refusal := self._refusal(operation, now)) is not None:
                return refusal
            known = self._known(request, now)
            if known is not None:
                return Done(known.message_id)
            message_id = self._new_id(request, _body_of(operation), now)
        self._schedule(now + after_s, lambda due: self._do(request, due, message_id))
        return Done(message_id or getattr(operation, "message_id", ""))

    def _do(self, request: Request, now: float, message_id: str = "") -> Answer:
        operation = request.operation
        answer: Answer = Done()
        match operation:
            case Post() | PostMedia() | OpenStream():
                answer = self._post(request, operation, now, message_id)
            case Edit():
                answer = self._edit(operation, now)
            case Delete():
                message = self._message(operation.target.chat, operation.message_id)
                answer = _GONE if message is None else self._put(replace(message, deleted=True), now)
            case AppendStream() | CloseStream():
                answer = self._stream(operation, now)
            case Find():
                answer = self._find(operation.target.chat, request.key)
            case Draft():
                answer = self._draft(operation, now)
            case Acknowledge():
                self.acknowledged.append(operation)
            case Typing():
                pass
            case _:
                assert_never(operation)
        return answer

    def _post(self, request: Request, operation: Post | PostMedia | OpenStream, now: float, message_id: str) -> Answer:
        target, body = operation.target, _body_of(operation)
        if (refusal := self._refusal(operation, now)) is not None:
            return refusal
        known = None if message_id else self._known(request, now)
        if known is not None:
            if known.body != body:
                self._complain("key", target.chat, now, f"the key {request.key} was used for another content")
            if not isinstance(self.capabilities.idempotency, Repeatable):
                return Done(known.message_id)
        message_id = known.message_id if known is not None else message_id or self._new_id(request, body, now)
        shown = self._chats.get(target.chat, {}).get(message_id)
        if shown is not None:
            return self._put(replace(shown, body=body, edits=shown.edits + (shown.body != body)), now)
        self._drafts.remove(target.chat, target.thread, now)
        if isinstance(operation, OpenStream):
            self._schedule_end(target.chat, message_id, now)
        return self._put(
            PlatformMessage(
                message_id=message_id,
                chat=target.chat,
                body=body,
                at=now,
                thread=target.thread,
                reply_to=operation.reply_to if isinstance(operation, Post) else None,
                key="" if isinstance(self.capabilities.idempotency, Unkeyed) else request.key,
                media=(operation.url or operation.path or "") if isinstance(operation, PostMedia) else "",
                streaming=isinstance(operation, OpenStream),
            ),
            now,
        )

    def _refusal(self, operation: Post | PostMedia | OpenStream, now: float) -> Denied | None:
        """The refusal of a message that the platform cannot show; None if it can show the message."""
        target, text, limit = operation.target, _body_of(operation).text, self.capabilities.limit
        if isinstance(operation, OpenStream):
            rules = self._stream_rules
            if rules is not None and rules.in_threads_only and target.thread is None:
                return _NO_STREAMS_HERE
            return _TOO_LONG if self._is_too_long_to_stream(text, target.chat, now) else None
        if isinstance(operation, PostMedia) and self.capabilities.caption_limit is not None:
            limit = self.capabilities.caption_limit
        return _TOO_LONG if self._is_too_long(text, target.chat, now, limit) else None

    def _edit(self, operation: Edit, now: float) -> Answer:
        message = self._message(operation.target.chat, operation.message_id)
        if message is None:
            return _GONE
        if self._is_too_long(operation.body.text, message.chat, now, self.capabilities.limit):
            return _TOO_LONG
        if message.body == operation.body:
            return Denied(NOT_MODIFIED, "the message is not modified")
        return self._put(replace(message, body=operation.body, edits=message.edits + 1), now)

    def _draft(self, operation: Draft, now: float) -> Answer:
        target = operation.target
        if target.group and not (self._draft_rules is not None and self._draft_rules.in_groups):
            return _NO_DRAFTS_HERE
        if self._is_too_long(operation.body.text, target.chat, now, self.capabilities.limit):
            return _TOO_LONG
        self._drafts.show(operation, now)
        return Done()

    def _stream(self, operation: AppendStream | CloseStream, now: float) -> Answer:
        message = self._message(operation.target.chat, operation.stream_id)
        if message is None:
            return _GONE
        closes = isinstance(operation, CloseStream)
        if not closes and not message.streaming:
            return Denied(NOT_STREAMING, "the stream is closed")
        sent = operation.body.text if isinstance(operation, CloseStream) else operation.text
        body = operation.body if isinstance(operation, CloseStream) else Body(text=message.text + operation.text)
        if self._is_too_long_to_stream(sent, message.chat, now):
            return _TOO_LONG
        if self._is_too_long(body.text, message.chat, now, self.capabilities.limit):
            return _TOO_LONG
        tasks = {task.id: task for task in (*message.tasks, *operation.tasks)}
        return self._put(replace(message, body=body, streaming=not closes, tasks=tuple(tasks.values())), now)

    def _schedule_end(self, chat: str, stream_id: str, now: float) -> None:
        """Remember to close a stream that begins now when its lifetime is over."""
        rules = self._stream_rules
        if rules is not None and rules.lifetime_s is not None:
            self._schedule(now + rules.lifetime_s, lambda due: self._end_stream(chat, stream_id, due))

    def _end_stream(self, chat: str, stream_id: str, now: float) -> None:
        message = self._message(chat, stream_id)
        if message is not None and message.streaming:
            self._put(replace(message, streaming=False), now)

    def _find(self, chat: str, key: str) -> Answer:
        if not isinstance(self.capabilities.idempotency, Readback):
            return Denied(501, "this platform cannot look up keys")
        for message in self._chats.get(chat, {}).values():
            if message.key == key and not message.deleted:
                return Done(message.message_id)
        return Absent()

    def _message(self, chat: str, message_id: str) -> PlatformMessage | None:
        message = self._chats.get(chat, {}).get(message_id)
        return None if message is None or message.deleted else message

    def _put(self, message: PlatformMessage, now: float) -> Done:
        self._chats.setdefault(message.chat, {})[message.message_id] = message
        if self._keeps_calls:
            self._versions.setdefault(message.message_id, []).append(MessageVersion(at=now, message=message))
        return Done(message.message_id)

    def _known(self, request: Request, now: float) -> _Known | None:
        known = self._keys.get(_key_of(request))
        return known if known is not None and known.forgotten_at > now else None

    def _new_id(self, request: Request, body: Body, now: float) -> str:
        self._number += 1
        message_id = f"m{self._number}"
        match self.capabilities.idempotency:
            case Keyed(window_s=seconds):
                forgotten_at = now + seconds
            case Repeatable():
                forgotten_at = float("inf")
            case _:
                return message_id
        # All keys are kept for the same time, so the oldest are at the front.
        while self._keys and next(iter(self._keys.values())).forgotten_at <= now:
            del self._keys[next(iter(self._keys))]
        self._keys[_key_of(request)] = _Known(message_id, body, forgotten_at)
        return message_id

    def _is_too_long_to_stream(self, text: str, chat: str, now: float) -> bool:
        rules, limit = self._stream_rules, self.capabilities.limit
        per_call = rules.per_call if rules is not None and rules.per_call is not None else limit
        return self._is_too_long(text, chat, now, min(limit, per_call))

    def _is_too_long(self, text: str, chat: str, now: float, limit: int) -> bool:
        size = _SIZES[self.capabilities.unit](text)
        if size <= limit:
            return False
        self._complain("size", chat, now, f"{size} {self.capabilities.unit} are too many, {limit} fit")
        return True

    def _complain(self, about: Literal["pace", "size", "key"], chat: str, now: float, detail: str) -> None:
        self.complaints.append(Complaint(about=about, chat=chat, at=now, detail=detail))


class _Known(msgspec.Struct, frozen=True):
    """A key that the platform remembers, with its message and its first content."""

    message_id: str
    body: Body
    forgotten_at: float


_KINDS: dict[type, str] = {
    operation: str(operation.__struct_config__.tag)
    for operation in (
        Post,
        PostMedia,
        Edit,
        Delete,
        OpenStream,
        AppendStream,
        CloseStream,
        Draft,
        Typing,
        Find,
        Acknowledge,
    )
}
# These calls use no rate: they show no message, and platforms count them separately.
_FREE = frozenset({"typing", "find", "acknowledge"})

# These functions repeat those of the splitter on purpose: an error in the splitter must show here.
_SIZES: dict[str, Callable[[str], int]] = {
    "code_points": len,
    "utf16": lambda text: len(text.encode("utf-16-le", "surrogatepass")) // 2,
    "utf8_bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
}


def _body_of(operation: Post | PostMedia | OpenStream) -> Body:
    if isinstance(operation, PostMedia):
        return Body(text=operation.caption, entities=operation.entities)
    return operation.body


def _key_of(request: Request) -> tuple[str, str, str]:
    return request.scope, request.operation.target.chat, request.key


def _no_access(fault: LoseAccess) -> Denied:
    reason = "the token was revoked" if fault.everywhere else "the bot was removed from the chat"
    return Denied(NO_ACCESS, reason, everywhere=fault.everywhere)
