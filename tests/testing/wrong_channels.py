"""Wrong channels: each does one thing that the contract of a channel forbids. `Right` does nothing wrong."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tailrace.errors import ChannelFault, LedgerUnavailable, NotSent, SendRefused
from tailrace.operations import Body, CloseStream, Edit, OpenStream, Post, Receipt, Target
from tailrace.ports import Finding
from tailrace.testing.channel_scenarios import FILE, RETRY_AFTER_S
from tailrace.testing.simulated import InProcessReadableChannel
from tailrace.testing.wire import Arrived, Poll

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import UnionType

    from tailrace.capabilities import Capabilities
    from tailrace.inbound import Attachment, Inbound, InboundMessage
    from tailrace.operations import AppendStream, Delete, Draft, PostMedia, Typing
    from tailrace.ports import Inbox, MenuCommand

TOKEN = "TOKEN-1234"


class Right(InProcessReadableChannel):
    """A channel with every power. Its subclasses do one thing wrong."""

    kind = "readback"
    reactions: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    async def start_to_send(self) -> None:
        pass

    async def fetch(self, attachment: Attachment, path: Path, *, max_bytes: int) -> None:
        assert attachment.id
        if len(FILE) > max_bytes:
            raise SendRefused("the file is too big")
        path.write_bytes(FILE)  # noqa: ASYNC240  a small file

    async def check(self) -> list[Finding]:
        return [Finding(ok=True, text="the token is valid")]

    def capabilities_of(self, _: Target) -> Capabilities:
        return self.capabilities

    async def react(self, target: Target, message_id: str, emoji: str) -> None:  # noqa: ARG002  one message is enough
        self.reactions = tuple(filter(None, [emoji]))

    async def show_commands(self, commands: Sequence[MenuCommand]) -> None:
        self.commands = tuple(command.name for command in commands)


class HasNoEnd(Right):
    wait_closed = None  # type: ignore[assignment]  # that is what is wrong


class NeedsStart(Right):
    async def stop(self) -> None:
        assert self._receiving is not None, "stop without start"


class StopsOnce(Right):
    stops = 0

    async def stop(self) -> None:
        self.stops += 1
        assert self.stops < 2, "stop was called twice"
        await super().stop()


class IsClosedAtOnce(Right):
    async def wait_closed(self) -> None:
        pass


class IsNeverClosed(Right):
    async def wait_closed(self) -> None:
        await asyncio.Event().wait()


class ClosesAloud(Right):
    async def wait_closed(self) -> None:
        try:
            await super().wait_closed()
        except ChannelFault as fault:
            raise NotSent(f"{TOKEN} was revoked") from fault


class HidesTheReason(Right):
    async def wait_closed(self) -> None:
        with suppress(ChannelFault):
            await super().wait_closed()


def posts(text: Callable[[str], str] = str, answer: Callable[[Receipt], Any] = lambda receipt: receipt) -> type[Right]:
    """A channel that posts another text, or answers something else."""

    class Posts(Right):
        async def post(self, op: Post, *, key: str) -> Any:
            changed = replace(op, body=replace(op.body, text=text(op.body.text)))
            return answer(await super().post(changed, key=key))

    return Posts


def raises(change: Callable[[ChannelFault, str], Exception]) -> type[Right]:
    """A channel that raises something else than its fault."""

    class Raises(Right):
        async def post(self, op: Post, *, key: str) -> Receipt:
            try:
                return await super().post(op, key=key)
            except ChannelFault as fault:
                raise change(fault, op.body.text) from fault

    return Raises


def receives(kind: type[Inbound] | UnionType, change: Callable[[Any], Any]) -> type[Right]:
    """A channel that gives its inbox something else than the events of this kind."""

    class Receives(Right):
        async def start(self, inbox: Inbox) -> None:
            class Changing:
                async def receive(self, inbound: Inbound) -> None:
                    await inbox.receive(change(inbound) if isinstance(inbound, kind) else inbound)

            await super().start(Changing())

    return Receives


class IgnoresKeys(Right):
    kind = "keyed"

    async def post(self, op: Post, *, key: str) -> Receipt:
        return await super().post(op, key=f"{key}{time.monotonic_ns()}")


class ForgetsTheKey(Right):
    kind = "keyed"

    async def post(self, op: Post, *, key: str) -> Receipt:  # noqa: ARG002  that is what is wrong
        return await super().post(op, key="the only key")


class ShowsWhatItRefuses(Right):
    async def post(self, op: Post, *, key: str) -> Receipt:
        try:
            return await super().post(op, key=key)
        except SendRefused:
            await super().post(replace(op, body=Body(text="the text is too long")), key=f"{key}-short")
            raise


class SendsAndFails(Right):
    """Says that a message was not sent, although it arrived."""

    async def post(self, op: Post, *, key: str) -> Receipt:
        if not op.body.text.endswith("rate_limited"):
            return await super().post(op, key=key)
        self.platform.script.clear()
        await super().post(op, key=key)
        raise NotSent("too often", retry_after=RETRY_AFTER_S)


class IsMuteAfterACancel(Right):
    is_mute = False

    async def post(self, op: Post, *, key: str) -> Receipt:
        if self.is_mute:
            return Receipt(message_id="m1")
        try:
            return await super().post(op, key=key)
        except asyncio.CancelledError:
            self.is_mute = True
            raise


class LooksFirst(Right):
    async def edit(self, op: Edit) -> Receipt:
        await self.find(op.target, "key", 0.0)
        return await super().edit(op)


class Retries(Right):
    async def post(self, op: Post, *, key: str) -> Receipt:
        try:
            return await super().post(op, key=key)
        except ChannelFault:
            await super().post(op, key=key)
            raise


class Waits(Right):
    async def post(self, op: Post, *, key: str) -> Receipt:
        try:
            return await super().post(op, key=key)
        except NotSent as fault:
            await asyncio.sleep(fault.retry_after or 0.0)
            raise


class KeepsItsLock(Right):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lock = asyncio.Lock()

    async def post(self, op: Post, *, key: str) -> Receipt:
        await self.lock.acquire()
        receipt = await super().post(op, key=key)
        self.lock.release()
        return receipt


class EditsOnce(Right):
    async def edit(self, op: Edit) -> Receipt:
        if op.body.text in self.platform.texts(op.target.chat):
            raise SendRefused("the message is not modified")
        return await super().edit(op)


class AppendsByEdit(Right):
    async def edit(self, op: Edit) -> Receipt:
        return await self.post(Post(target=op.target, body=op.body), key="edited")


class EditsNothing(Right):
    async def edit(self, op: Edit) -> Receipt:
        return Receipt(message_id=op.message_id)


class IsGoneForNow(Right):
    async def edit(self, op: Edit) -> Receipt:
        try:
            return await super().edit(op)
        except SendRefused as fault:
            raise NotSent(str(fault)) from fault


class KeepsButtons(Right):
    async def edit(self, op: Edit) -> Receipt:
        [message] = self.platform.history(op.target.chat)
        return await super().edit(replace(op, body=replace(op.body, buttons=message.body.buttons)))


class NotGone(Right):
    async def edit(self, op: Edit) -> Receipt:
        try:
            return await super().edit(op)
        except SendRefused as fault:
            raise SendRefused(str(fault)) from fault


class StreamNotGone(Right):
    async def close_stream(self, op: CloseStream) -> Receipt:
        try:
            return await super().close_stream(op)
        except SendRefused:
            return Receipt(message_id=op.stream_id)


class DeletesOnce(Right):
    async def delete(self, op: Delete) -> Receipt:
        if not self.platform.texts(op.target.chat):
            raise SendRefused("there is no such message", gone=True)
        return await super().delete(op)


class DeletesNothing(Right):
    async def delete(self, op: Delete) -> Receipt:
        return Receipt(message_id=op.message_id)


class WaitsForAnswers(Right):
    """Ignores that its caller gives up."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.last: asyncio.Task[Receipt] | None = None

    async def post(self, op: Post, *, key: str) -> Receipt:
        if self.last is not None:
            await asyncio.wait([self.last])
        self.last = asyncio.create_task(super().post(op, key=key))
        return await asyncio.shield(self.last)


class MediaWithoutKeys(Right):
    kind = "keyed"

    async def post_media(self, op: PostMedia, *, key: str) -> Receipt:
        return await super().post_media(op, key=f"{key}{time.monotonic_ns()}")


class CaptionAlone(Right):
    async def post_media(self, op: PostMedia, *, key: str) -> Receipt:
        await self.post(Post(target=op.target, body=Body(text=op.caption)), key=f"{key}-caption")
        return await super().post_media(op, key=key)


class LosesTheCaption(Right):
    async def post_media(self, op: PostMedia, *, key: str) -> Receipt:
        return await super().post_media(replace(op, caption=""), key=key)


class AppendsOnce(Right):
    last = ""

    async def append_stream(self, op: AppendStream) -> None:
        if op.text != self.last:
            self.last = op.text
            await super().append_stream(op)


class ClosesWithoutTheBody(Right):
    async def close_stream(self, op: CloseStream) -> Receipt:
        return await super().close_stream(replace(op, body=Body(text=self.platform.texts(op.target.chat)[-1])))


class TypesAMessage(Right):
    async def typing(self, op: Typing) -> None:
        await self.post(Post(target=op.target, body=Body(text="…")), key="typing")


class SendsDrafts(Right):
    async def draft(self, op: Draft) -> None:
        await self.open_stream(OpenStream(target=op.target, body=op.body), key="draft")
        await super().draft(op)


class KeepsDrafts(Right):
    async def draft(self, op: Draft) -> None:
        await super().draft(replace(op, draft_id=len(op.body.text)))


class AddsReactions(Right):
    async def react(self, target: Target, message_id: str, emoji: str) -> None:  # noqa: ARG002  as above
        self.reactions += (emoji,)


class AddsCommands(Right):
    async def show_commands(self, commands: Sequence[MenuCommand]) -> None:
        self.commands += tuple(command.name for command in commands)


class ListsCommandsInAMessage(Right):
    async def show_commands(self, commands: Sequence[MenuCommand]) -> None:
        await super().show_commands(commands)
        body = Body(text=" ".join(f"/{command.name}" for command in commands) or "no commands")
        await self.post(Post(target=Target(channel="simulated", chat="here"), body=body), key=f"menu-{len(commands)}")


class ReactsByText(Right):
    async def react(self, target: Target, message_id: str, emoji: str) -> None:
        await super().react(target, message_id, emoji)
        await self.edit(Edit(target=target, message_id=message_id, body=Body(text=f"one {emoji}")))


class FindsNothing(Right):
    async def find(self, *_: Any) -> Receipt | None:
        return None


class FindsTheLast(Right):
    async def find(self, target: Target, key: str, since: float) -> Receipt | None:  # noqa: ARG002  as above
        return Receipt(message_id=self.platform.history(target.chat)[-1].message_id)


class FindsWhatIsAbsent(Right):
    async def find(self, target: Target, key: str, since: float) -> Receipt | None:
        return await super().find(target, key, since) or Receipt(message_id="m1")


class FindsNoneOnFaults(Right):
    async def find(self, target: Target, key: str, since: float) -> Receipt | None:
        try:
            return await super().find(target, key, since)
        except ChannelFault:
            return None


class ChecksInWords(Right):
    async def check(self) -> Any:
        return ["the token is valid"]


class ChecksWithoutWords(Right):
    async def check(self) -> list[Finding]:
        return [Finding(ok=False, text=" ")]


class ChecksAfterTheStart(Right):
    async def check(self) -> list[Finding]:
        assert self._receiving is not None, "a check without start"
        return []


class ChecksAloud(Right):
    async def check(self) -> list[Finding]:
        return [Finding(ok=False, text=f"the token {TOKEN} has no scope")]


class ChecksByPost(Right):
    async def check(self) -> list[Finding]:
        await self.post(Post(target=Target(channel="simulated", chat="here"), body=Body(text="test")), key="check")
        return []


class DiffersInWords(Right):
    def capabilities_of(self, _: Target) -> Any:
        return {"limit": 4096}


class AcknowledgesFirst(Right):
    """Tells the platform that it has an event, and then gives it to the inbox."""

    async def _receive(self, inbox: Inbox) -> None:
        while True:
            arrived = await self._ask(Poll())
            assert isinstance(arrived, Arrived)
            self.platform.poll(arrived.number, 0.0)
            while True:
                try:
                    await inbox.receive(arrived.inbound)
                    break
                except LedgerUnavailable:
                    await asyncio.sleep(0.01)


class GivesUp(Right):
    async def start(self, inbox: Inbox) -> None:
        class Swallowing:
            async def receive(self, inbound: Inbound) -> None:
                with suppress(LedgerUnavailable):
                    await inbox.receive(inbound)

        await super().start(Swallowing())


class TakesEventsToSend(Right):
    async def start_to_send(self) -> None:
        class Forgetting:
            async def receive(self, inbound: Inbound) -> None:
                pass

        await self.start(Forgetting())


class ReceivesTwice(Right):
    async def start(self, inbox: Inbox) -> None:
        class Doubling:
            async def receive(self, inbound: Inbound) -> None:
                await inbox.receive(inbound)
                await inbox.receive(replace(inbound, event_id=f"{inbound.event_id} again"))

        await super().start(Doubling())


class ReceivesBackwards(Right):
    """Gives the inbox the newest event first."""

    async def _receive(self, inbox: Inbox) -> None:
        await asyncio.sleep(0.05)
        for arrived in reversed(self.platform._inbound):
            await inbox.receive(arrived.inbound)


class AcknowledgesNothing(Right):
    async def acknowledge(self, *_: Any) -> None:
        raise SendRefused("the press is too old")


class FetchesAll(Right):
    async def fetch(self, attachment: Attachment, path: Path, *, max_bytes: int) -> None:  # noqa: ARG002  as above
        path.write_bytes(FILE)  # noqa: ASYNC240  a small file


class LeavesHalf(Right):
    async def fetch(self, attachment: Attachment, path: Path, *, max_bytes: int) -> None:
        path.write_bytes(FILE[:max_bytes])  # noqa: ASYNC240  a small file
        if len(FILE) > max_bytes:
            raise SendRefused("the file is too big")
        assert attachment.id


class FetchesElsewhere(Right):
    async def fetch(self, attachment: Attachment, path: Path, *, max_bytes: int) -> None:
        await super().fetch(attachment, path.with_name("download"), max_bytes=max_bytes)


def with_clean_names(message: InboundMessage) -> InboundMessage:
    return replace(message, attachments=tuple(replace(one, name="passwd") for one in message.attachments))
