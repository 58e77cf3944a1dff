"""Who may talk to the bot: people that the settings allow, and people that the operator has approved.

Nobody is admitted by default. The list of approved people, the open pairing codes and the times of wrong codes are
stored in the ledger, so they survive a restart. `pairing` decides about codes.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from tailrace.errors import CommandRefused, LedgerError, UsageError
from tailrace.gateway.pairing import OpenCode, PairingCodes, Person
from tailrace.surrogates import replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.inbound import ButtonPress, InboundMessage
    from tailrace.ledger_port import Ledger

_APPROVED, _CODES, _WRONG_CODES = "access", "pairing", "wrong-codes"
_MAX_NAME = 64
_log = logging.getLogger(__name__)

Record = TypeVar("Record")


class Approved(msgspec.Struct, frozen=True, kw_only=True):
    """A person that the operator has approved. `approved_at` is in seconds since 1970."""

    person: Person
    approved_at: float


class _StoredValues(Protocol):
    """A ledger, or a reader of one."""

    async def stored(self, kind: str) -> dict[str, bytes]:
        """See `Ledger.stored`."""
        ...


async def approved_people(ledger: _StoredValues) -> list[Approved]:
    """The approved people, as the ledger has them now, in the order of their approval."""
    return sorted(_records(await ledger.stored(_APPROVED), Approved), key=lambda approved: approved.approved_at)


async def waiting_people(ledger: _StoredValues, now: float) -> list[OpenCode]:
    """The people with a valid pairing code, as the ledger has them now, the oldest code first."""
    return PairingCodes(_records(await ledger.stored(_CODES), OpenCode)).open_codes(now)


class AccessList:
    """The people who may talk to the bot. Use `load` to create it."""

    def __init__(self, ledger: Ledger, approved: Sequence[Approved], codes: PairingCodes) -> None:
        self._ledger = ledger
        self._approved = {each.person.key: each for each in approved}
        self._codes = codes
        self._full_channels: set[str] = set()

    @classmethod
    async def load(cls, ledger: Ledger) -> AccessList:
        """Read the list from the ledger, which must have no other `AccessList`."""
        stored, wrong = await ledger.stored(_CODES), await ledger.stored(_WRONG_CODES)
        wrong_at = [at for times in _records(wrong, list[float]) for at in times]
        return cls(ledger, await approved_people(ledger), PairingCodes(_records(stored, OpenCode), wrong_at))

    def is_admitted(self, inbound: InboundMessage | ButtonPress, allow: Sequence[str]) -> bool:
        """Whether the sender may talk to the bot. `allow` is the setting of the channel.

        `"*"` admits all people but no bots, because two bots could answer each other for ever. A bot is admitted if
        `allow` has its id.
        """
        sender = inbound.sender
        key = Person(channel=inbound.channel, id=sender.id).key
        is_named = bool(sender.id) and (sender.id in allow or key in self._approved)
        return is_named or ("*" in allow and not sender.is_bot)

    async def code_for(self, message: InboundMessage, now: float) -> str | None:
        """The pairing code for a person who is not admitted. None: do not answer.

        Only a person in a private chat gets a code, at most once a minute. It is the same code for an hour, unless the
        gateway was started again meanwhile.
        """
        sender = message.sender
        if message.target.group or sender.is_bot or not sender.id:
            return None
        name = replace_surrogates(sender.name)[:_MAX_NAME]
        person = Person(channel=message.channel, id=sender.id, name=name, chat=message.target.chat)
        expired = self._codes.remove_expired(now)
        if expired:
            await asyncio.gather(*(self._ledger.store(_CODES, code.person.key, None) for code in expired))
        if not self._codes.may_show(person, now):
            return None
        if known := self._codes.repeat(person, now):
            return known
        if (issued := self._codes.issue(person, now)) is None:
            self._warn_once(message.channel)
            return None
        self._full_channels.discard(message.channel)
        text, code = issued
        try:
            await self._ledger.store(_CODES, person.key, msgspec.json.encode(code))
        except LedgerError:
            self._codes.remove(code)
            raise
        return text

    def _warn_once(self, channel: str) -> None:
        if channel not in self._full_channels:
            self._full_channels.add(channel)
            _log.warning("%s: too many people wait for approval, so others get no pairing code now", channel)

    async def approve(self, code: str, now: float) -> Approved:
        """Admit the person who got this code. Raises `CommandRefused` if the code is not valid."""
        try:
            used = self._codes.redeem(code, now)
        except CommandRefused:
            await self._ledger.store(_WRONG_CODES, "", msgspec.json.encode(self._codes.wrong_at))
            raise
        key, approved = used.person.key, Approved(person=used.person, approved_at=now)
        # Before it is recorded: if the caller is cancelled below, the ledger still makes both changes.
        self._approved[key] = approved
        recorded, _removed = await asyncio.gather(
            self._ledger.store(_APPROVED, key, msgspec.json.encode(approved)),
            self._ledger.store(_CODES, key, None),  # if only this fails, the same person could use the code again
            return_exceptions=True,
        )
        if recorded is not None:
            del self._approved[key]
            self._codes.restore(used)
            raise recorded
        return approved

    async def revoke(self, name: str) -> Approved:
        """Remove an approved person, named `ID` or `CHANNEL:ID`. Raises `CommandRefused` if there is none."""
        found = [each for key, each in self._approved.items() if name in (key, each.person.id)]
        if not found:
            raise CommandRefused(
                f"{name[:_MAX_NAME]!r} is not an approved person: `tailrace access` lists them. Remove people in "
                "`allow` of the settings there"
            )
        if len(found) > 1:
            raise UsageError(
                f"this id exists on several channels: name {' or '.join(each.person.key for each in found)}"
            )
        [revoked] = found
        key = revoked.person.key
        del self._approved[key]
        try:
            await self._ledger.store(_APPROVED, key, None)
        except LedgerError:
            self._approved[key] = revoked
            raise
        return revoked


def pairing_text(code: str) -> str:
    """What an unknown person reads in a private chat, in Markdown."""
    return (
        "I do not know you, so I cannot answer yet. If you run this bot, let yourself in with this command on its "
        f"machine. Otherwise send it to the person who does:\n\n`tailrace access approve {code}`\n\n"
        "The code is valid for at most one hour. After that, write to me again."
    )


def _records(stored: dict[str, bytes], kind: type[Record]) -> list[Record]:
    """The stored values. A damaged one is left out, so that it admits nobody."""
    found: list[Record] = []
    for key, value in stored.items():
        try:
            found.append(msgspec.json.decode(value, type=kind))
        except msgspec.DecodeError as error:
            _log.error("the access of %s cannot be read from the ledger, so it is left out: %s", key, error)
    return found
