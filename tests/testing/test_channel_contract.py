"""The contract suite for our channels, and wrong channels that each fail it with a message that says why."""

from __future__ import annotations

import asyncio
import io
import time
import unicodedata
from typing import TYPE_CHECKING

import pytest
import wrong_channels as wrong
from msgspec.structs import replace

from tailrace.channels.terminal import TerminalChannel
from tailrace.channels.terminal.visible import visible
from tailrace.errors import ChannelFault, NotSent, SendRefused
from tailrace.inbound import ButtonPress, Inbound, InboundMessage
from tailrace.operations import Receipt, Target
from tailrace.ports import Channel
from tailrace.testing.channel_contract import ChannelContract
from tailrace.testing.channel_scenarios import RETRY_AFTER_S, ChannelSetup, Failure, Signs
from tailrace.testing.faults import Fault, LoseAccess, NoAnswer, Refuse, Reset, Rule, TooMany, Unreachable
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.platform_process import PlatformProcess
from tailrace.testing.simulated import in_process_channel, simulated_channel
from tailrace.testing.wire import capabilities_of

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.testing.simulated import InProcessChannel

FAULTS: dict[Failure, Fault | Rule] = {
    "refused": Refuse(400, "there is no such chat"),
    "rate_limited": TooMany(RETRY_AFTER_S),
    "no_connection": Unreachable(),
    "reset": Reset(),
    "access_lost": LoseAccess(),
    "no_answer": NoAnswer(),
    "closed": Rule(fault=LoseAccess(everywhere=True), kind="poll", times=None),
}


class RealClock:
    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class InProcessSetup(ChannelSetup):
    target = Target(channel="simulated", chat="here", thread="7")
    secret = wrong.TOKEN

    def __init__(self, kind: str = "readback") -> None:
        self.platform = SimulatedPlatform(capabilities_of(kind))

    async def channel(self) -> Channel:
        return in_process_channel(self.platform, RealClock())

    async def texts(self) -> list[str]:
        return self.platform.texts("here")

    async def calls(self) -> int:
        return self.platform.counts.total()

    async def fail(self, failure: Failure) -> bool:
        self.platform.script.add(FAULTS[failure])
        self.platform.add_inbound()
        return True

    async def act(self, inbound: Inbound) -> bool:
        self.platform.add_inbound(inbound)
        return True


class TestKeyedChannel(ChannelContract):
    def setup_in(self, _: Path) -> ChannelSetup:
        return InProcessSetup("keyed")


class TestReadableChannel(ChannelContract):
    def setup_in(self, _: Path) -> ChannelSetup:
        return InProcessSetup("readback")


class TestRepeatableChannel(ChannelContract):
    def setup_in(self, _: Path) -> ChannelSetup:
        return InProcessSetup("repeatable")


class TestUnkeyedChannel(ChannelContract):
    def setup_in(self, _: Path) -> ChannelSetup:
        return InProcessSetup("unkeyed")


class TcpSetup(ChannelSetup):
    target = Target(channel="simulated", chat="here", thread="7")

    def __init__(self, process: PlatformProcess) -> None:
        self.process = process

    async def channel(self) -> Channel:
        return simulated_channel(self.process.address)

    async def texts(self) -> list[str]:
        return await asyncio.to_thread(self.process.texts, "here")

    async def calls(self) -> int:
        return sum((await asyncio.to_thread(self.process.account)).counts.values())

    async def fail(self, failure: Failure) -> bool:
        if failure == "no_connection":
            return False
        await asyncio.to_thread(self.process.add_faults, FAULTS[failure])
        return True

    async def act(self, inbound: Inbound) -> bool:
        await asyncio.to_thread(self.process.add_inbound, inbound)
        return True


class TestChannelOverTcp(ChannelContract):
    process: PlatformProcess

    @classmethod
    def setup_class(cls) -> None:
        cls.process = PlatformProcess("keyed").__enter__()

    @classmethod
    def teardown_class(cls) -> None:
        cls.process.__exit__(None, None, None)

    def setup_in(self, _: Path) -> ChannelSetup:
        self.process.clear_faults()
        self.process.clear()
        return TcpSetup(self.process)


class Page(io.StringIO):
    """A stream that remembers what was written at once: one message each time."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def write(self, text: str) -> int:
        self.messages.append(text)
        return super().write(text)


class TerminalSetup(ChannelSetup):
    target = Target(channel="terminal", chat="me")

    def __init__(self) -> None:
        self.page = Page()

    async def channel(self) -> Channel:
        return TerminalChannel(self.page, self.page)

    async def texts(self) -> list[str]:
        return [message.strip("\n") for message in self.page.messages]

    def shown(self, text: str) -> str:
        return visible(text)


class TestTerminal(ChannelContract):
    def setup_in(self, _: Path) -> ChannelSetup:
        return TerminalSetup()


class WrongSetup(InProcessSetup):
    timeout_s = 0.5

    def __init__(self, channel_class: type[wrong.Right]) -> None:
        super().__init__(channel_class.kind)
        self.channel_class = channel_class

    async def channel(self) -> Channel:
        self.latest = self.channel_class(self.platform, RealClock())
        return self.latest

    async def signs(self) -> Signs:
        drafts = tuple(draft.body.text for draft in self.platform.drafts("here", time.monotonic()))
        buttons = tuple(button.label for message in self.platform.history("here") for button in message.body.buttons)
        return Signs(buttons=buttons, reactions=self.latest.reactions, drafts=drafts, commands=self.latest.commands)


class SuiteOf(ChannelContract):
    """The suite for one of these channels."""

    def __init__(self, channel_class: type[wrong.Right]) -> None:
        self.channel_class = channel_class

    def setup_in(self, _: Path) -> ChannelSetup:
        return WrongSetup(self.channel_class)


class TestRightChannel(ChannelContract):
    def setup_in(self, _: Path) -> ChannelSetup:
        return WrongSetup(wrong.Right)


WRONG: dict[str, list[tuple[type[wrong.Right], str]]] = {
    "test_stop_ends_wait_closed": [
        (wrong.HasNoEnd, "must have all members"),
        (wrong.NeedsStart, "stop without start"),
        (wrong.StopsOnce, "stop was called twice"),
        (wrong.IsClosedAtOnce, "before stop"),
        (wrong.IsNeverClosed, "not done after"),
    ],
    "test_wait_closed_raises_the_reason": [
        (wrong.HidesTheReason, "must raise a ChannelFault"),
        (wrong.ClosesAloud, "the reason contains the token"),
    ],
    "test_post_gives_the_id_of_its_message": [
        (wrong.posts(answer=lambda _: Receipt(message_id="")), "must not be empty"),
        (wrong.posts(answer=lambda _: Receipt(message_id=7)), "must be text"),  # type: ignore[arg-type]  # that is wrong
        (wrong.posts(answer=lambda receipt: receipt.message_id), "must be a Receipt"),
        (wrong.posts(answer=lambda _: Receipt(message_id="m1")), "three messages have the ids"),
        (wrong.posts(lambda text: f"bot: {text}"), "three messages"),
    ],
    "test_texts_arrive_unchanged": [
        (wrong.posts(str.strip), "a text was changed"),
        (wrong.posts(lambda text: text.replace("\x1b", "")), "a text was changed"),
        (wrong.posts(lambda text: unicodedata.normalize("NFC", text)), "a text was changed"),
        (wrong.posts(lambda text: text.replace("\u200d", "")), "a text was changed"),
    ],
    "test_text_is_whole_or_refused": [
        (wrong.posts(lambda text: text[:4096]), "above the limit was changed"),
        (wrong.posts(lambda text: text[:4095]), "exactly the limit was changed"),
        (wrong.raises(lambda fault, text: SendRefused(f"{fault}: {text}")), "text of the message"),
        (wrong.ShowsWhatItRefuses, "a refused text is visible"),
        (wrong.DiffersInWords, "must be a value of that type"),
    ],
    "test_key_repeats_its_message": [
        (wrong.IgnoresKeys, "the same key gave"),
        (wrong.ForgetsTheKey, "another key gave the same"),
        (wrong.MediaWithoutKeys, "two messages"),
    ],
    "test_one_call_per_operation": [(wrong.LooksFirst, "3 operations made 4 calls")],
    "test_faults_say_what_is_known": [
        (wrong.Retries, "was repeated"),
        (wrong.Waits, "not done after"),
        (wrong.SendsAndFails, "it was sent"),
        (wrong.raises(lambda fault, _: SendRefused(str(fault))), "must be NotSent"),
        (
            wrong.raises(lambda fault, _: NotSent("busy") if isinstance(fault, NotSent) else fault),
            "retry_after is None",
        ),
        (wrong.raises(lambda fault, text: type(fault)(f"{fault}: {text}")), "text of the message"),
        (wrong.raises(lambda fault, _: type(fault)(f"POST /bot{wrong.TOKEN}/sendMessage: {fault}")), "token"),
        (wrong.raises(lambda fault, _: type(fault)("")), "what happened"),
        (wrong.raises(lambda fault, _: OSError(str(fault))), "raises a ChannelFault, not"),
    ],
    "test_cancelled_call_leaves_the_channel_usable": [
        (wrong.KeepsItsLock, "not done after"),
        (wrong.WaitsForAnswers, "not done after"),
        (wrong.IsMuteAfterACancel, "does not work any more"),
    ],
    "test_edits": [
        (wrong.EditsOnce, "not modified"),
        (wrong.AppendsByEdit, "id of its message"),
        (wrong.EditsNothing, "an edit replaces the text"),
        (wrong.NotGone, "gone=True"),
        (wrong.IsGoneForNow, "a message that is gone is SendRefused"),
    ],
    "test_deletes": [(wrong.DeletesOnce, "no such message"), (wrong.DeletesNothing, "is still there")],
    "test_media": [(wrong.LosesTheCaption, "caption is missing"), (wrong.CaptionAlone, "one message, not 2")],
    "test_streams": [
        (wrong.AppendsOnce, "each call appends"),
        (wrong.ClosesWithoutTheBody, "sets its body"),
        (wrong.StreamNotGone, "must raise a ChannelFault"),
    ],
    "test_signs_are_no_messages": [
        (wrong.TypesAMessage, "a sign has changed"),
        (wrong.SendsDrafts, "a sign has changed"),
        (wrong.ReactsByText, "a sign has changed"),
        (wrong.KeepsDrafts, "the drafts must be"),
        (wrong.AddsReactions, "the reactions must be"),
    ],
    "test_commands": [
        (wrong.AddsCommands, "the commands must be"),
        (wrong.ListsCommandsInAMessage, "a menu sends nothing"),
    ],
    "test_find": [
        (wrong.FindsNothing, "find gave None"),
        (wrong.FindsTheLast, "another message"),
        (wrong.FindsWhatIsAbsent, "no message with this key"),
        (wrong.FindsNoneOnFaults, "must raise a ChannelFault"),
    ],
    "test_check": [
        (wrong.ChecksInWords, "type Finding"),
        (wrong.ChecksWithoutWords, "without a text"),
        (wrong.ChecksAfterTheStart, "a check without start"),
        (wrong.ChecksAloud, "contains the token"),
        (wrong.ChecksByPost, "sends nothing"),
    ],
    "test_events_are_valid_and_in_order": [
        (wrong.receives(Inbound, lambda event: replace(event, event_id="")), "has no id"),
        (wrong.receives(Inbound, lambda event: replace(event, event_id=7)), "wrong type"),
        (wrong.receives(Inbound, lambda event: replace(event, event_id="e")), "the same id"),
        (wrong.receives(InboundMessage, lambda event: replace(event, attachments=[])), "wrong type"),
        (wrong.receives(InboundMessage, lambda event: replace(event, text=event.text.strip())), "arrived as"),
        (wrong.receives(InboundMessage, wrong.with_clean_names), "arrived as"),
        (wrong.ReceivesTwice, "events gave"),
        (wrong.ReceivesBackwards, "arrived as"),
    ],
    "test_event_is_repeated_until_it_is_recorded": [
        (wrong.AcknowledgesFirst, "not done after"),
        (wrong.GivesUp, "not done after"),
    ],
    "test_start_to_send_takes_no_events": [(wrong.TakesEventsToSend, "not done after")],
    "test_buttons": [
        (wrong.receives(ButtonPress, lambda press: replace(press, value=press.value[:32])), "arrived as"),
        (wrong.receives(ButtonPress, lambda press: replace(press, message_id="")), "another message"),
        (wrong.AcknowledgesNothing, "too old"),
        (wrong.KeepsButtons, "the buttons must be"),
    ],
    "test_files": [
        (wrong.FetchesAll, "must raise a ChannelFault"),
        (wrong.LeavesHalf, "leaves nothing"),
        (wrong.FetchesElsewhere, "another one was written"),
    ],
}


@pytest.mark.parametrize(
    ("test", "channel", "message"),
    [(test, channel, message) for test, rows in WRONG.items() for channel, message in rows],
)
def test_wrong_channel_fails(test: str, channel: type[wrong.Right], message: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, ChannelFault), match=message):
        getattr(SuiteOf(channel), test)(tmp_path)


def test_each_test_of_the_suite_rejects_a_wrong_channel() -> None:
    assert WRONG.keys() == {name for name in vars(ChannelContract) if name.startswith("test_")}


def both_are_channels(simulated: InProcessChannel, terminal: TerminalChannel) -> tuple[Channel, Channel]:
    return simulated, terminal
