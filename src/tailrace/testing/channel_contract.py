"""The contract of a channel as tests. To test yours, subclass `ChannelContract`, give it a setup, and run pytest.

    class TestMine(ChannelContract):
        def setup_in(self, folder: Path) -> ChannelSetup:
            return MySetup(folder)

The tests check each promise of `tailrace.ports.Channel`, and of each optional protocol that the channel has. The setup
gives the channel and the platform behind it, usually a simulated one on this machine. You need tests of your own for
rendering, and for fields that only your platform has.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tailrace.capabilities import Keyed, Repeatable
from tailrace.errors import MaybeSent, NotSent, SendRefused
from tailrace.inbound import ButtonPress, InboundMessage
from tailrace.operations import (
    AppendStream,
    Body,
    Button,
    CloseStream,
    Delete,
    Draft,
    Edit,
    OpenStream,
    Post,
    PostMedia,
    Typing,
)
from tailrace.ports import (
    AsksByButtons,
    Channel,
    Checks,
    Deletes,
    Edits,
    FetchesFiles,
    Finding,
    MenuCommand,
    Reacts,
    ReadsBack,
    SendsMedia,
    ShowsCommands,
    ShowsDrafts,
    ShowsTyping,
    StartsToSend,
    StreamsNatively,
)
from tailrace.testing.channel_scenarios import (
    FAULTS,
    FILE,
    PRIVATE,
    RETRY_AFTER_S,
    TEXTS,
    RecordingInbox,
    capabilities_in,
    check_fault,
    check_gone,
    check_inbound,
    check_signs,
    events_of_people,
    fault_of,
    id_of,
    let_run,
    post,
    press,
    scenario,
    started,
    text_of_size,
)

if TYPE_CHECKING:
    from tailrace.testing.channel_scenarios import ChannelSetup

_VALUES = ("y", "v" * 64, "✓" * 21)  # the last two have 64 and 63 bytes
# A call takes some steps of the event loop. The test cancels it after each number of steps up to this one.
_STEPS = 12
_NO_ANSWER_S = 0.1  # then a call without an answer is cancelled; the request is sent by then


class ChannelContract:
    """The tests for every channel. `setup_in` creates the setup of one test."""

    def setup_in(self, folder: Path) -> ChannelSetup:
        """Create a new setup for one test. If it needs files, put them into the folder."""
        raise NotImplementedError

    # Connecting

    @scenario
    async def test_stop_ends_wait_closed(self, setup: ChannelSetup) -> None:
        """`wait_closed` returns after `stop`. `stop` may be called twice, and without `start`."""
        unused = await setup.channel()
        assert isinstance(unused, Channel), "the channel must have all members of tailrace.ports.Channel"
        await unused.stop()
        async with started(setup) as channel:
            closed = asyncio.create_task(channel.wait_closed())
            await let_run()
            assert not closed.done(), "wait_closed returned before stop"
            await channel.stop()
            await closed
            await channel.stop()

    @scenario
    async def test_wait_closed_raises_the_reason(self, setup: ChannelSetup) -> None:
        """`wait_closed` raises the reason if the connection has ended for good."""
        async with started(setup) as channel:
            if await setup.fail("closed"):
                fault = await fault_of(channel.wait_closed())
                assert setup.secret == "" or setup.secret not in repr(fault), "the reason contains the token"

    # Messages

    @scenario
    async def test_post_gives_the_id_of_its_message(self, setup: ChannelSetup) -> None:
        """Each message has a different id, and the messages appear in the order in which they were sent."""
        async with started(setup) as channel:
            ids = [await post(channel, setup, text) for text in ("one", "two", "three")]
        assert len(set(ids)) == 3, f"three messages have the ids {ids}"
        seen = [text.strip() for text in await setup.texts()]
        assert seen == ["one", "two", "three"], f"three messages were sent, and people see {seen}"

    @scenario
    async def test_texts_arrive_unchanged(self, setup: ChannelSetup) -> None:
        """The test sends emoji of several parts, right-to-left scripts, control characters, and text like markup."""
        async with started(setup) as channel:
            for text in TEXTS:
                await post(channel, setup, text)
        seen, expected = await setup.texts(), [setup.shown(text) for text in TEXTS]
        assert seen == expected, f"a text was changed: {expected} is seen as {seen}"

    @scenario
    async def test_text_is_whole_or_refused(self, setup: ChannelSetup) -> None:
        """A text up to the limit is sent. A longer text is refused or sent whole, but never cut."""
        async with started(setup) as channel:
            capabilities = capabilities_in(channel, setup.target)
            longest = text_of_size(capabilities.limit, capabilities.unit)
            await post(channel, setup, longest, key="key-1")
            assert await setup.texts() == [setup.shown(longest)], "a text of exactly the limit was changed"
            try:
                await post(channel, setup, longest + "x", key="key-2")
            except SendRefused as refusal:
                check_fault(refusal, setup, longest)
                assert len(await setup.texts()) == 1, "a refused text is visible"
            else:
                assert (await setup.texts())[1:] == [setup.shown(longest + "x")], "a text above the limit was changed"

    @scenario
    async def test_key_repeats_its_message(self, setup: ChannelSetup) -> None:
        """If the capabilities promise it, a repeated call with the same key does not send the message twice."""
        async with started(setup) as channel:
            if not isinstance(capabilities_in(channel, setup.target).idempotency, Keyed | Repeatable):
                return
            first, again = await post(channel, setup, "one"), await post(channel, setup, "one")
            other = await post(channel, setup, "one", key="other")
            assert first == again, f"the same key gave the messages {first} and {again}: pass the key to the platform"
            assert other != first, "another key gave the same message"
            for _ in range(2):
                if isinstance(channel, SendsMedia):
                    await channel.post_media(_media(setup), key="media")
                if isinstance(channel, StreamsNatively):
                    await channel.open_stream(OpenStream(target=setup.target, body=Body(text="a")), key="stream")
            expected = 2 + isinstance(channel, SendsMedia) + isinstance(channel, StreamsNatively)
        assert len(await setup.texts()) == expected, "the same key made two messages: pass it to the platform"

    @scenario
    async def test_one_call_per_operation(self, setup: ChannelSetup) -> None:
        """Each operation makes one call, because the sender counts the calls for the rate limits."""
        async with started(setup) as channel:
            before = await setup.calls()
            id_ = await post(channel, setup, "one")
            if isinstance(channel, Edits):
                id_of(await channel.edit(Edit(target=setup.target, message_id=id_, body=Body(text="two"))))
            if isinstance(channel, Deletes):
                id_of(await channel.delete(Delete(target=setup.target, message_id=id_)))
            operations = 1 + isinstance(channel, Edits) + isinstance(channel, Deletes)
            after = await setup.calls()
        if before is not None and after is not None:
            assert after - before == operations, f"{operations} operations made {after - before} calls"

    @scenario
    async def test_faults_say_what_is_known(self, setup: ChannelSetup) -> None:
        """A call that fails is not repeated and does not wait. Its error shows no secret. The next call works."""
        async with started(setup) as channel:
            for failure, expected in FAULTS.items():
                if not await setup.fail(failure):
                    continue
                before, text = await setup.calls(), f"{PRIVATE} {failure}"
                fault = await fault_of(post(channel, setup, text, key=f"private-{failure}"))
                after = await setup.calls()
                assert type(fault) is expected, f"{failure} must be {expected.__name__}, not {fault!r}"
                check_fault(fault, setup, PRIVATE)
                if isinstance(fault, NotSent) and failure == "rate_limited":
                    assert fault.retry_after == RETRY_AFTER_S, f"retry_after is {fault.retry_after}"
                if before is not None and after is not None:
                    assert after - before <= 1, f"after {failure} the call was repeated: only the sender repeats calls"
                if expected is not MaybeSent:
                    assert not any(text in seen for seen in await setup.texts()), f"after {failure} it was sent"
                await post(channel, setup, "works", key=f"after-{failure}")

    @scenario
    async def test_cancelled_call_leaves_the_channel_usable(self, setup: ChannelSetup) -> None:
        """A call may be cancelled at any await. The next call still works."""
        async with started(setup) as channel:
            for step in range(_STEPS):
                call = asyncio.create_task(post(channel, setup, "cancelled", key=f"cancelled-{step}"))
                await let_run(step)
                call.cancel()
                await asyncio.wait([call])
            if await setup.fail("no_answer"):
                call = asyncio.create_task(post(channel, setup, "cancelled", key="no-answer"))
                await asyncio.wait([call], timeout=_NO_ANSWER_S)
                call.cancel()
                await asyncio.wait([call])
            await post(channel, setup, "works", key="after")
        assert (await setup.texts())[-1:] == [setup.shown("works")], "after a cancelled call it does not work any more"

    # Optional powers

    @scenario
    async def test_edits(self, setup: ChannelSetup) -> None:
        """An edit replaces the body, also if it is repeated. For a deleted message the error has `gone`."""
        async with started(setup) as channel:
            if not isinstance(channel, Edits):
                return
            id_ = await post(channel, setup, "one")
            edit = Edit(target=setup.target, message_id=id_, body=Body(text="two"))
            for _ in range(2):
                assert id_of(await channel.edit(edit)) == id_, "an edit gives the id of its message"
                assert await setup.texts() == [setup.shown("two")], "an edit replaces the text"
            if isinstance(channel, Deletes):
                await channel.delete(Delete(target=setup.target, message_id=id_))
                check_gone(await fault_of(channel.edit(edit)))

    @scenario
    async def test_deletes(self, setup: ChannelSetup) -> None:
        """A deletion succeeds, also if the message does not exist any more."""
        async with started(setup) as channel:
            if isinstance(channel, Deletes):
                id_ = await post(channel, setup, "one")
                for _ in range(2):
                    id_of(await channel.delete(Delete(target=setup.target, message_id=id_)))
                    assert await setup.texts() == [], "the deleted message is still there"

    @scenario
    async def test_media(self, setup: ChannelSetup) -> None:
        """A file is a new message with its caption."""
        async with started(setup) as channel:
            if isinstance(channel, SendsMedia):
                id_of(await channel.post_media(_media(setup), key="key"))
                texts = await setup.texts()
                assert len(texts) == 1, f"a file is one message, not {len(texts)}"
                assert "The mill" in texts[0], "the caption is missing"

    @scenario
    async def test_streams(self, setup: ChannelSetup) -> None:
        """Text is appended to the message of a stream.

        Closing the stream sets its whole text; closing it twice changes nothing.
        """
        async with started(setup) as channel:
            if not isinstance(channel, StreamsNatively):
                return
            opened = await channel.open_stream(OpenStream(target=setup.target, body=Body(text="a")), key="key")
            id_ = id_of(opened)
            for text in ("b", "b"):
                await channel.append_stream(AppendStream(target=setup.target, stream_id=id_, text=text))
            assert await setup.texts() == ["abb"], "each call appends its text"
            closing = CloseStream(target=setup.target, stream_id=id_, body=Body(text="all of it"))
            for _ in range(2):
                id_of(await channel.close_stream(closing))
                assert await setup.texts() == ["all of it"], "closing a stream sets its body"
            if isinstance(channel, Deletes):
                await channel.delete(Delete(target=setup.target, message_id=id_))
                check_gone(await fault_of(channel.close_stream(closing)))

    @scenario
    async def test_signs_are_no_messages(self, setup: ChannelSetup) -> None:
        """Typing, drafts and reactions do not change the list of messages. A later one replaces an earlier one."""
        async with started(setup) as channel:
            id_ = await post(channel, setup, "one", key="before")
            if isinstance(channel, ShowsTyping):
                await channel.typing(Typing(target=setup.target))
            if isinstance(channel, ShowsDrafts):
                for text in ("dr", "draft"):
                    await channel.draft(Draft(target=setup.target, draft_id=1, body=Body(text=text)))
                    await check_signs(setup, "drafts", text)
            if isinstance(channel, Reacts):
                for emoji in ("👍", "👀", ""):
                    await channel.react(setup.target, id_, emoji)
                    await check_signs(setup, "reactions", *filter(None, [emoji]))
        assert await setup.texts() == [setup.shown("one")], "a sign has changed the messages"

    @scenario
    async def test_commands(self, setup: ChannelSetup) -> None:
        """The menu has these commands and no others. It is no message."""
        async with started(setup) as channel:
            if isinstance(channel, ShowsCommands):
                for names in (("stop", "new"), ("new",), ()):
                    await channel.show_commands([MenuCommand(name=name, description="Do it") for name in names])
                    await check_signs(setup, "commands", *names)
        assert await setup.texts() == [], "a menu sends nothing"

    @scenario
    async def test_find(self, setup: ChannelSetup) -> None:
        """`find` returns None only if there is certainly no such message."""
        async with started(setup) as channel:
            if not isinstance(channel, ReadsBack):
                return
            since = time.time() - 60.0
            id_ = await post(channel, setup, "one", key="key-1")
            await post(channel, setup, "two", key="key-2")
            found = await channel.find(setup.target, "key-1", since)
            assert found is not None, "the message exists, but find gave None"
            assert id_of(found) == id_, "find gave another message"
            assert await channel.find(setup.target, "key-3", since) is None, "there is no message with this key"
            for failure in FAULTS:
                if await setup.fail(failure):
                    check_fault(await fault_of(channel.find(setup.target, "key-3", since)), setup, PRIVATE)

    @scenario
    async def test_check(self, setup: ChannelSetup) -> None:
        """`check` works before `start`, sends nothing and shows no token."""
        channel = await setup.channel()
        if isinstance(channel, Checks):
            for finding in await channel.check():
                assert isinstance(finding, Finding), f"a check gives values of the type Finding, not {finding!r}"
                assert finding.text.strip(), "a finding without a text helps no operator"
                assert not setup.secret or setup.secret not in finding.text, "the finding contains the token"
            assert await setup.texts() == [], "a check sends nothing"

    # What people do

    @scenario
    async def test_events_are_valid_and_in_order(self, setup: ChannelSetup) -> None:
        """Each event says what the person did. Names of people and files are unchanged, even those like paths."""
        inbox = RecordingInbox()
        async with started(setup, inbox) as channel:
            sent = [event for event in events_of_people(channel, setup.target) if await setup.act(event)]
            await inbox.wait(len(sent))
        assert len(inbox.received) == len(sent), f"{len(sent)} events gave {len(inbox.received)}"
        for event, received in zip(sent, inbox.received, strict=True):
            check_inbound(received, event)
        assert len({event.event_id for event in inbox.received}) == len(sent), "two events have the same id"

    @scenario
    async def test_event_is_repeated_until_it_is_recorded(self, setup: ChannelSetup) -> None:
        """The platform keeps an event until the inbox has recorded it, also if the channel is restarted."""
        [event] = events_of_people(await setup.channel(), setup.target)[:1]
        failing, inbox = RecordingInbox(failures=1_000_000), RecordingInbox(failures=1)
        async with started(setup, failing):
            if not await setup.act(event):
                return
            await failing.wait(attempts=1)
        async with started(setup, inbox):
            await inbox.wait(1)
        check_inbound(inbox.received[0], event)

    @scenario
    async def test_start_to_send_takes_no_events(self, setup: ChannelSetup) -> None:
        """After `start_to_send`, events are left for another channel, which may be started to receive meanwhile."""
        sender, inbox = await setup.channel(), RecordingInbox()
        if not isinstance(sender, StartsToSend):
            return
        await sender.start_to_send()
        try:
            await post(sender, setup, "one")
            [event] = events_of_people(sender, setup.target)[:1]
            if await setup.act(event):
                await let_run()
                async with started(setup, inbox):
                    await inbox.wait(1)
                check_inbound(inbox.received[0], event)
        finally:
            await sender.stop()

    @scenario
    async def test_buttons(self, setup: ChannelSetup) -> None:
        """The value of a button comes back unchanged, with the id of its message. An edit without it removes it."""
        inbox = RecordingInbox()
        async with started(setup, inbox) as channel:
            if not isinstance(channel, AsksByButtons):
                return
            buttons = tuple(Button(label=f"Button {index}", value=value) for index, value in enumerate(_VALUES))
            body = Body(text="Which?", buttons=buttons)
            id_ = id_of(await channel.post(Post(target=setup.target, body=body), key="key"))
            for count, value in enumerate(_VALUES, start=1):
                pressed = press(channel, setup.target, value, id_)
                assert await setup.act(pressed), "a channel with buttons must receive presses"
                await inbox.wait(count)
                received = inbox.received[-1]
                check_inbound(received, pressed)
                assert isinstance(received, ButtonPress)
                assert received.message_id == id_, "the press names another message"
                await channel.acknowledge(received, "Taken")
            await check_signs(setup, "buttons", *(button.label for button in buttons))
            if isinstance(channel, Edits):
                await channel.edit(Edit(target=setup.target, message_id=id_, body=Body(text="Which?")))
                await check_signs(setup, "buttons")

    @scenario
    async def test_files(self, setup: ChannelSetup) -> None:
        """A file is downloaded whole, to the given path and nowhere else. A file that is too big leaves no file."""
        inbox = RecordingInbox()
        async with started(setup, inbox) as channel:
            if not isinstance(channel, FetchesFiles):
                return
            assert await setup.act(events_of_people(channel, setup.target)[0]), (
                "a channel with files must receive messages"
            )
            await inbox.wait(1)
            assert isinstance(inbox.received[0], InboundMessage)
            [attachment] = inbox.received[0].attachments
            with TemporaryDirectory() as folder:
                path = Path(folder, "file")
                check_fault(await fault_of(channel.fetch(attachment, path, max_bytes=len(FILE) - 1)), setup, PRIVATE)
                assert _files_in(folder) == {}, "a file that is too big leaves nothing"
                await channel.fetch(attachment, path, max_bytes=len(FILE))
                assert _files_in(folder) == {"file": FILE}, "the file was changed, or another one was written"


def _media(setup: ChannelSetup) -> PostMedia:
    return PostMedia(target=setup.target, url="https://example.org/a.png", mime="image/png", caption="The mill")


def _files_in(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}
