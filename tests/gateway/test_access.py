"""Who is admitted, and the laws of pairing codes: a code works once, for its person only, and not after its time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from example_counts import examples
from tailrace.errors import CommandRefused, LedgerUnavailable, UsageError
from tailrace.gateway.access import AccessList, approved_people, pairing_text, waiting_people
from tailrace.gateway.pairing import (
    ALPHABET,
    CODE_LENGTH,
    CODE_VALID_S,
    MAX_OPEN_CODES,
    MAX_WRONG_CODES,
    REPEAT_S,
    WRONG_CODES_S,
    Person,
)
from tailrace.inbound import ButtonPress, InboundMessage, Sender
from tailrace.ledger.memory import MemoryLedger
from tailrace.operations import Target

if TYPE_CHECKING:
    from collections.abc import Coroutine

NOW = 1_700_000_000.0


def message(
    person: str = "1", *, channel: str = "telegram", name: str = "", group: bool = False, is_bot: bool = False
) -> InboundMessage:
    """A message of a person, in a private chat or in a group."""
    return InboundMessage(
        channel=channel,
        event_id="e",
        target=Target(channel=channel, chat="-5" if group else person, group=group),
        text="hello",
        sender=Sender(id=person, name=name, is_bot=is_bot),
    )


async def issued(access: AccessList, sent: InboundMessage, now: float = NOW) -> str:
    code = await access.code_for(sent, now)
    assert code is not None
    return code


async def refused(attempt: Coroutine[object, object, object]) -> str:
    with pytest.raises(CommandRefused) as error:
        await attempt
    return str(error.value)


class Codes(RuleBasedStateMachine):
    """Any sequence of messages, commands, restarts and pauses, against a list of all codes that were ever issued."""

    PEOPLE = st.sampled_from([("telegram", "1"), ("telegram", "2"), ("slack", "1")])

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.ledger = MemoryLedger()
        self.now = NOW
        self.admitted: set[tuple[str, str]] = set()
        self.latest: dict[tuple[str, str], tuple[str, float]] = {}
        self.shown_at: dict[tuple[str, str], float] = {}
        self.codes = ["22222222"]
        self.wrong_at: list[float] = []
        self.restart()

    def teardown(self) -> None:
        self.runner.close()

    @rule()
    def restart(self) -> None:
        self.access = self.runner.run(AccessList.load(self.ledger))
        self.was_restarted = True

    @rule(seconds=st.sampled_from([1.0, REPEAT_S - 1, REPEAT_S, CODE_VALID_S / 2, CODE_VALID_S]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(person=PEOPLE)
    def write(self, person: tuple[str, str]) -> None:
        channel, name = person
        code = self.runner.run(self.access.code_for(message(name, channel=channel), self.now))
        latest, issued_at = self.latest.get(person, ("", -CODE_VALID_S))
        is_valid = self.now - issued_at < CODE_VALID_S
        if code is None:
            assert is_valid
            assert self.now - self.shown_at[person] < REPEAT_S
            return
        assert not is_valid or self.now - self.shown_at[person] >= REPEAT_S or self.was_restarted
        if not is_valid or code != latest:
            assert code not in self.codes
            assert not is_valid or self.was_restarted
            self.codes.append(code)
            self.latest[person] = code, self.now
        self.shown_at[person] = self.now

    @rule(number=st.integers(0, 20))
    def approve(self, number: int) -> None:
        code = self.codes[number % len(self.codes)]
        self.wrong_at = [at for at in self.wrong_at if self.now - at < WRONG_CODES_S]
        owners = [
            person
            for person, (latest, issued_at) in self.latest.items()
            if latest == code and self.now - issued_at < CODE_VALID_S
        ]
        if owners and len(self.wrong_at) < MAX_WRONG_CODES:
            approved = self.runner.run(self.access.approve(code, self.now)).person
            assert [(approved.channel, approved.id)] == owners
            self.admitted.add(owners[0])
            del self.latest[owners[0]]
        else:
            self.runner.run(refused(self.access.approve(code, self.now)))
            if len(self.wrong_at) < MAX_WRONG_CODES:
                self.wrong_at.append(self.now)

    @rule(person=PEOPLE)
    def revoke(self, person: tuple[str, str]) -> None:
        attempt = self.access.revoke(":".join(person))
        if person in self.admitted:
            self.runner.run(attempt)
            self.admitted.remove(person)
        else:
            self.runner.run(refused(attempt))

    @invariant()
    def nobody_else_is_admitted(self) -> None:
        people = [("telegram", "1"), ("telegram", "2"), ("slack", "1"), ("slack", "2")]
        found = {each for each in people if self.access.is_admitted(message(each[1], channel=each[0]), ())}
        assert found == self.admitted
        recorded = self.runner.run(approved_people(self.ledger))
        assert {(each.person.channel, each.person.id) for each in recorded} == self.admitted


def test_a_code_works_once_for_its_person_and_not_after_its_time() -> None:
    run_state_machine_as_test(Codes, settings=settings(max_examples=examples(40, search=400), stateful_step_count=40))


def test_nobody_is_admitted_by_default() -> None:
    async def check() -> None:
        access = await AccessList.load(MemoryLedger())
        press = ButtonPress(
            channel="telegram",
            event_id="e",
            target=Target(channel="telegram", chat="1"),
            value="x",
            sender=Sender(id="1"),
        )
        for inbound in (message("1"), message("1", group=True), message(""), press):
            assert not access.is_admitted(inbound, ())
            assert not access.is_admitted(inbound, ["2", "11", ""])
            assert access.is_admitted(inbound, ["*"])
        assert access.is_admitted(press, ["1"])
        assert access.is_admitted(message("1", group=True), ["2", "1"])

    asyncio.run(check())


def test_a_bot_is_admitted_only_by_its_id() -> None:
    async def check() -> None:
        access = await AccessList.load(MemoryLedger())
        bot = message("7", is_bot=True)
        assert not access.is_admitted(bot, ["*"])
        assert access.is_admitted(bot, ["7"])
        assert await access.code_for(bot, NOW) is None

    asyncio.run(check())


def test_names_of_channels_and_ids_cannot_be_confused() -> None:
    """A colon in the name of a channel does not make one person out of two."""

    async def check() -> None:
        access = await AccessList.load(MemoryLedger())
        await access.approve(await issued(access, message("b:c", channel="a")), NOW)
        assert access.is_admitted(message("b:c", channel="a"), ())
        assert not access.is_admitted(message("c", channel="a:b"), ())

    asyncio.run(check())


def test_a_code_is_given_in_private_chats_only_and_once_a_minute() -> None:
    async def check() -> None:
        access = await AccessList.load(MemoryLedger())
        assert await access.code_for(message(group=True), NOW) is None
        assert await access.code_for(message(""), NOW) is None
        both = await asyncio.gather(*(access.code_for(message(), NOW) for _ in range(5)))
        [code] = [code for code in both if code is not None]
        assert len(code) == CODE_LENGTH
        assert set(code) <= set(ALPHABET)
        assert await access.code_for(message(), NOW + REPEAT_S - 1) is None
        assert await access.code_for(message(), NOW + REPEAT_S) == code
        assert await access.code_for(message(), NOW + REPEAT_S + 1) is None
        assert f"tailrace access approve {code}" in pairing_text(code)

    asyncio.run(check())


def test_the_ledger_has_only_a_hash_of_the_code_and_the_name_of_the_person() -> None:
    async def check() -> None:
        ledger = MemoryLedger()
        access = await AccessList.load(ledger)
        code = await issued(access, message("1", name="Ada \ud83d" + "x" * 9000))
        stored = await ledger.stored("pairing")
        assert list(stored) == ["telegram:1"]
        assert code.encode() not in stored["telegram:1"]
        [waiting] = await waiting_people(ledger, NOW + 1)
        assert waiting.person.name.startswith("Ada \ufffdxxx")
        assert len(waiting.person.name) == 64
        assert await waiting_people(ledger, NOW + CODE_VALID_S) == []
        access = await AccessList.load(ledger)
        approved = await access.approve(f" {code.lower()}\n", NOW + 1)
        assert approved.person == waiting.person
        assert approved.person.chat == "1"
        assert await ledger.stored("pairing") == {}

    asyncio.run(check())


def test_open_codes_are_limited_per_channel_and_valid_ones_stay(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        ledger = MemoryLedger()
        access = await AccessList.load(ledger)
        codes = [await issued(access, message(str(n)), NOW + n) for n in range(MAX_OPEN_CODES)]
        for name in ("late", "later", "late"):
            assert await access.code_for(message(name), NOW + 200) is None
        assert len(caplog.messages) == 1
        await issued(access, message("late", channel="slack"), NOW + 200)
        assert await access.code_for(message("0"), NOW + 200) == codes[0]
        await issued(access, message("late"), NOW + CODE_VALID_S)
        assert len(await ledger.stored("pairing")) == MAX_OPEN_CODES + 1
        assert await access.code_for(message("too late"), NOW + CODE_VALID_S) is None
        assert (await access.approve(codes[1], NOW + CODE_VALID_S)).person.id == "1"
        assert "not valid" in await refused(access.approve(codes[0], NOW + CODE_VALID_S))

    asyncio.run(check())


def test_wrong_codes_are_limited_also_after_a_restart() -> None:
    async def check() -> None:
        ledger = MemoryLedger()
        access = await AccessList.load(ledger)
        code = await issued(access, message())
        for n in range(MAX_WRONG_CODES):
            assert "was used" in await refused(access.approve(f"wrong {n} \ud800" * 100, NOW + n))
        for access_now in (access, await AccessList.load(ledger)):
            assert "too many" in await refused(access_now.approve(code, NOW + MAX_WRONG_CODES))
        assert (await access.approve(code, NOW + WRONG_CODES_S)).person.id == "1"

    asyncio.run(check())


def test_an_id_on_two_channels_is_revoked_by_its_full_name() -> None:
    async def check() -> None:
        access = await AccessList.load(MemoryLedger())
        for channel in ("telegram", "slack"):
            await access.approve(await issued(access, message(channel=channel)), NOW)
        with pytest.raises(UsageError, match="telegram:1 or slack:1"):
            await access.revoke("1")
        assert (await access.revoke("slack:1")).person.channel == "slack"
        assert (await access.revoke("1")).person.channel == "telegram"
        assert "`allow`" in await refused(access.revoke("1"))

    asyncio.run(check())


class FullLedger(MemoryLedger):
    """A ledger whose disk can be full."""

    is_full = False

    async def store(self, kind: str, key: str, value: bytes | None) -> None:
        if self.is_full:
            raise LedgerUnavailable("there is no space left on its disk")
        await super().store(kind, key, value)


def test_what_cannot_be_recorded_does_not_count_and_works_later() -> None:
    async def check() -> None:
        ledger = FullLedger()
        access = await AccessList.load(ledger)
        await access.approve(await issued(access, message("2")), NOW)
        code = await issued(access, message())
        ledger.is_full = True
        for _time in range(2):
            for attempt in (access.code_for(message("3"), NOW), access.approve(code, NOW), access.revoke("2")):
                with pytest.raises(LedgerUnavailable):
                    await attempt
                assert access.is_admitted(message("2"), ())
                assert not access.is_admitted(message(), ())
        ledger.is_full = False
        assert (await access.approve(code, NOW)).person.id == "1"
        assert (await access.approve(await issued(access, message("3")), NOW)).person.id == "3"
        assert (await access.revoke("2")).person.id == "2"
        assert list(await ledger.stored("access")) == ["telegram:1", "telegram:3"]

    asyncio.run(check())


def test_a_damaged_record_admits_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        ledger = MemoryLedger()
        await ledger.store("access", "telegram:1", b"{}")
        await ledger.store("access", "telegram:2", b"\xff")
        await ledger.store("pairing", "telegram:3", b"[]")
        access = await AccessList.load(ledger)
        assert not access.is_admitted(message("1"), ())
        assert await access.code_for(message("3"), NOW) is not None

    asyncio.run(check())
    assert len(caplog.messages) == 3


def test_a_person_is_known_by_channel_and_id() -> None:
    assert Person(channel="x%:y", id="a:b%").key == "x%25%3Ay:a:b%"
