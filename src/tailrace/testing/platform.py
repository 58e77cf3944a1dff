"""A chat platform in memory: what people would see, under any fault, at any time.

`SimulatedPlatform` takes one `Request` at a time and says in a `Reply` what the caller gets to see of it. It is
stricter than a real one: it counts the size of every body by itself, notices every call above the declared pace and
every key that is used for two contents, and writes such things down as `complaints`. It ends streams and drafts when
their time is over, and refuses them where its `Capabilities` say so. What makes a repeated post safe is their
idempotency:

    keyed        a post whose key it has seen within the window is the earlier message; later the key is forgotten
    readback     every post is a new message and keeps its key: `Find` shows it
    repeatable   a post with a known key sets the message that has it
    unkeyed      every post is a new message, and the key is not kept

It is pure: the time is an argument, chances come from its seed. Sockets are left to
`tailrace.testing.platform_process`, waiting and errors to `tailrace.testing.simulated`.
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
    NoAnswer,
    Refuse,
    Reset,
    Script,
    ServerError,
    TooMany,
    Unreachable,
)
from tailrace.testing.wire import (
    GONE,
    NOT_MODIFIED,
    NOT_STREAMING,
    TOO_LONG,
    TOO_MANY,
    WRONG,
    Absent,
    Answer,
    CallRecord,
    Complaint,
    Denied,
    Done,
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


class SimulatedPlatform:
    """The platform: `script` holds the faults to come; `counts`, `calls` and `complaints` what callers did.

    Calls above the pace are complained of; with `refuses_pace` they are answered with 429 as well. `slack_s` is how
    much nearer than the pace two calls may come, for callers whose calls take an uneven way. Without `keeps_calls` a
    long run is no burden: of calls, of what messages said before and of drafts that are gone nothing is kept.
    """

    def __init__(
        self,
        capabilities: Capabilities,
        *,
        seed: int = 0,
        refuses_pace: bool = False,
        slack_s: float = 0.0,
        keeps_calls: bool = True,
    ) -> None:
        self.capabilities = capabilities
        self.script = Script(random.Random(seed))  # noqa: S311  chances of a test, to be repeated by the seed
        self._refuses_pace = refuses_pace
        self._slack_s = slack_s
        self._keeps_calls = keeps_calls
        native = capabilities.native
        self._drafts_have = native if isinstance(native, DraftRules) else None
        self._streams_have = native if isinstance(native, StreamRules) else None
        self._number = 0
        self._order = count()
        self.clear()

    def clear(self) -> None:
        """Forget all chats, keys, calls and complaints; faults stay, and ids are not used again."""
        self.counts: Counter[str] = Counter()
        self.calls: list[CallRecord] = []
        self.complaints: list[Complaint] = []
        self._chats: dict[str, dict[str, PlatformMessage]] = {}
        self._keys: dict[tuple[str, str, str], _Known] = {}
        self._later: list[tuple[float, int, Callable[[float], object]]] = []
        self._rates = CallRates(self.capabilities, slack_s=self._slack_s)
        self._versions: dict[str, list[MessageVersion]] = {}
        lifetime_s = self._drafts_have.lifetime_s if self._drafts_have is not None else _DRAFT_LIFETIME_S
        self._drafts = Drafts(lifetime_s, keeps_past=self._keeps_calls)

    def history(self, chat: str | None = None) -> list[PlatformMessage]:
        """All messages that became visible, deleted ones too, in the order they did; of one chat or of all."""
        chats = self._chats.values() if chat is None else [self._chats.get(chat, {})]
        return [message for messages in chats for message in messages.values()]

    def texts(self, chat: str) -> list[str]:
        """What a person reads who opens the chat now."""
        return [message.text for message in self._chats.get(chat, {}).values() if not message.deleted]

    def drafts(self, chat: str, now: float) -> list[ShownDraft]:
        """The drafts that a person sees beside the messages, or saw at that time."""
        return self._drafts.seen(chat, now)

    def versions(self, message_id: str) -> list[MessageVersion]:
        """A message as it was from the first time it was seen, each time it changed."""
        return self._versions.get(message_id, [])

    def seen(self, chat: str, at: float) -> list[str]:
        """What a person read in the chat at that time: its messages in their order, then the drafts."""
        read: list[str] = []
        for message_id in self._chats.get(chat, {}):
            latest = [version.message for version in self.versions(message_id) if version.at <= at][-1:]
            read += [message.text for message in latest if not message.deleted]
        return read + [draft.text for draft in self.drafts(chat, at)]

    def handle(self, request: Request, now: float) -> Reply:
        """Do what is asked, or what befalls it."""
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
        return Reply(self._do(request, now)) if fault is None else self._befallen(fault, request, now)

    def advance(self, now: float) -> float | None:
        """Let happen what was to happen by now; when the next is due, if anything is still to come."""
        while self._later and self._later[0][0] <= now:
            due, _, happen = heapq.heappop(self._later)
            happen(due)
        return self._later[0][0] if self._later else None

    def _count(self, request: Request, now: float) -> Denied | None:
        """Count the call; the refusal, where it comes too early for a platform that refuses those."""
        target = request.operation.target
        early = self._rates.too_early(target, now)
        for wait, _everywhere in early:
            kind = _KINDS[type(request.operation)]
            self._complain("pace", target.chat, now, f"{kind} came {wait:.3f} s too early")
        if early and self._refuses_pace:
            # One that is refused does not count against the next.
            wait, everywhere = max(early)
            return Denied(TOO_MANY, "too many requests", wait, everywhere)
        self._rates.count(target, now)
        return None

    def _happen_later(self, due: float, happen: Callable[[float], object]) -> None:
        heapq.heappush(self._later, (due, next(self._order), happen))

    def _befallen(self, fault: Fault, request: Request, now: float) -> Reply:
        match fault:
            case Refuse():
                reply = Reply(Denied(fault.status, fault.reason))
            case TooMany():
                reply = Reply(Denied(TOO_MANY, "too many requests", fault.retry_after, fault.everywhere))
            case ServerError():
                self._do_if(fault.applied, request, now)
                reply = Reply(replace(_BROKEN, status=fault.status))
            case Reset():
                reply = Reply(self._do_if(fault.applied, request, now), "reset")
            case Cut():
                reply = Reply(self._do_if(fault.applied, request, now), "cut")
            case NoAnswer():
                reply = Reply(self._do_if(fault.applied, request, now), "never")
            case Delayed():
                reply = Reply(self._do(request, now), delay_s=fault.by_s)
            case Late():
                reply = Reply(self._do_later(request, now, fault.after_s), "whole" if fault.answered else "never")
            case Unreachable():
                raise AssertionError("a call that never arrived befell nothing here")
            case _:
                assert_never(fault)
        return reply

    def _do_if(self, applied: bool, request: Request, now: float) -> Answer:  # noqa: FBT001  the fault's own word
        return self._do(request, now) if applied else _BROKEN

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
        self._happen_later(now + after_s, lambda due: self._do(request, due, message_id))
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
        self._drafts.give_way(target.chat, target.thread, now)
        if isinstance(operation, OpenStream):
            self._end_in_time(target.chat, message_id, now)
        return self._put(
            PlatformMessage(
                message_id=message_id,
                chat=target.chat,
                body=body,
                at=now,
                thread=target.thread,
                key="" if isinstance(self.capabilities.idempotency, Unkeyed) else request.key,
                media=(operation.url or operation.path or "") if isinstance(operation, PostMedia) else "",
                streaming=isinstance(operation, OpenStream),
            ),
            now,
        )

    def _refusal(self, operation: Post | PostMedia | OpenStream, now: float) -> Denied | None:
        """Why it can never be shown, whatever stands there."""
        target, text, limit = operation.target, _body_of(operation).text, self.capabilities.limit
        if isinstance(operation, OpenStream):
            rules = self._streams_have
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
        if target.group and not (self._drafts_have is not None and self._drafts_have.in_groups):
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
        said = operation.body.text if isinstance(operation, CloseStream) else operation.text
        body = operation.body if isinstance(operation, CloseStream) else Body(text=message.text + operation.text)
        if self._is_too_long_to_stream(said, message.chat, now):
            return _TOO_LONG
        if self._is_too_long(body.text, message.chat, now, self.capabilities.limit):
            return _TOO_LONG
        tasks = {task.id: task for task in (*message.tasks, *operation.tasks)}
        return self._put(replace(message, body=body, streaming=not closes, tasks=tuple(tasks.values())), now)

    def _end_in_time(self, chat: str, stream_id: str, now: float) -> None:
        """Let a stream that begins now end by itself when its time is over."""
        rules = self._streams_have
        if rules is not None and rules.lifetime_s is not None:
            self._happen_later(now + rules.lifetime_s, lambda due: self._end_stream(chat, stream_id, due))

    def _end_stream(self, chat: str, stream_id: str, now: float) -> None:
        message = self._message(chat, stream_id)
        if message is not None and message.streaming:
            self._put(replace(message, streaming=False), now)

    def _find(self, chat: str, key: str) -> Answer:
        if not isinstance(self.capabilities.idempotency, Readback):
            return Denied(501, "this platform cannot be asked for a key")
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
        place = (request.scope, request.operation.target.chat, request.key)
        known = self._keys.get(place)
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
        # Oldest first, and all are kept equally long: forgetting from the front keeps the memory of a long run small.
        while self._keys and next(iter(self._keys.values())).forgotten_at <= now:
            del self._keys[next(iter(self._keys))]
        place = (request.scope, request.operation.target.chat, request.key)
        self._keys[place] = _Known(message_id, body, forgotten_at)
        return message_id

    def _is_too_long_to_stream(self, text: str, chat: str, now: float) -> bool:
        rules, limit = self._streams_have, self.capabilities.limit
        per_call = rules.per_call if rules is not None and rules.per_call is not None else limit
        return self._is_too_long(text, chat, now, min(limit, per_call))

    def _is_too_long(self, text: str, chat: str, now: float, limit: int) -> bool:
        size = _SIZES[self.capabilities.unit](text)
        if size <= limit:
            return False
        self._complain("size", chat, now, f"{size} {self.capabilities.unit} where {limit} fit")
        return True

    def _complain(self, about: Literal["pace", "size", "key"], chat: str, now: float, detail: str) -> None:
        self.complaints.append(Complaint(about=about, chat=chat, at=now, detail=detail))


class _Known(msgspec.Struct, frozen=True):
    """A key the platform remembers, and the message it named first."""

    message_id: str
    body: Body
    forgotten_at: float


_KINDS: dict[type, str] = {
    operation: str(operation.__struct_config__.tag)
    for operation in (Post, PostMedia, Edit, Delete, OpenStream, AppendStream, CloseStream, Draft, Typing, Find)
}
# Neither puts anything before people, and platforms count them apart.
_FREE = frozenset({"typing", "find"})

# Counted here anew: a platform does not share the code of those who cut for it.
_SIZES: dict[str, Callable[[str], int]] = {
    "code_points": len,
    "utf16": lambda text: len(text.encode("utf-16-le", "surrogatepass")) // 2,
    "utf8_bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
}


def _body_of(operation: Post | PostMedia | OpenStream) -> Body:
    return Body(text=operation.caption) if isinstance(operation, PostMedia) else operation.body
