"""Pairing codes: an unknown person gets a code, and the operator who types it lets that person in.

This module decides who gets which code, and which codes are valid. It gets the time as an argument and stores nothing;
`access` keeps its values in the ledger. A code itself is only in memory: what is stored is its hash. So after a restart
an earlier code is still valid, but a person who asks again gets a new one in its place.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import CommandRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

ALPHABET = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Without 0, O, 1, I and L, which people confuse."""
CODE_LENGTH = 8
CODE_VALID_S = 3600.0
REPEAT_S = 60.0
MAX_OPEN_CODES = 100
MAX_WRONG_CODES = 10
WRONG_CODES_S = 60.0


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A person on a channel.

    `id` is the platform's id. `name` is what the person chose, so it proves nothing. `chat` is the private chat in
    which the person asked.
    """

    channel: str
    id: str
    name: str = ""
    chat: str = ""

    @property
    def key(self) -> str:
        """`channel:id`. No two people share a key."""
        return f"{self.channel.replace('%', '%25').replace(':', '%3A')}:{self.id}"


class OpenCode(msgspec.Struct, frozen=True, kw_only=True):
    """A code that was given to a person and not used yet. `issued_at` is in seconds since 1970."""

    person: Person
    code_hash: bytes
    issued_at: float

    def is_valid(self, now: float) -> bool:
        """Whether the code can still be used. A clock that was set back does not extend its time by much."""
        return abs(now - self.issued_at) < CODE_VALID_S


class PairingCodes:
    """All open codes, one per person, and the times of recent wrong codes."""

    def __init__(self, codes: Iterable[OpenCode] = (), wrong_at: Iterable[float] = ()) -> None:
        self._open = {code.person.key: code for code in codes}
        self._texts: dict[str, str] = {}
        self._shown_at = {code.person.key: code.issued_at for code in self._open.values()}
        self._wrong_at = list(wrong_at)

    @property
    def wrong_at(self) -> list[float]:
        """The times of the wrong codes that still count."""
        return self._wrong_at

    def open_codes(self, now: float) -> list[OpenCode]:
        """The codes that are valid now, the oldest first."""
        return sorted((code for code in self._open.values() if code.is_valid(now)), key=lambda code: code.issued_at)

    def remove_expired(self, now: float) -> list[OpenCode]:
        """Remove the codes that are not valid any more, and return them."""
        expired = [code for code in self._open.values() if not code.is_valid(now)]
        for code in expired:
            self.remove(code)
        return expired

    def repeat(self, person: Person, now: float) -> str | None:
        """The code of the person once more. None if there is none, or if it was shown less than a minute ago."""
        code = self._texts.get(person.key)
        if code is None or not self.may_show(person, now):
            return None
        self._shown_at[person.key] = now
        return code

    def may_show(self, person: Person, now: float) -> bool:
        """Whether the person may be answered: not if a code was shown to them less than a minute ago."""
        shown_at = self._shown_at.get(person.key)
        return shown_at is None or abs(now - shown_at) >= REPEAT_S

    def issue(self, person: Person, now: float) -> tuple[str, OpenCode] | None:
        """Make a new code for the person, in place of an earlier one. None if the channel has too many open codes."""
        in_channel = [code for code in self._open.values() if code.person.channel == person.channel]
        if len(in_channel) >= MAX_OPEN_CODES and person.key not in self._open:
            return None
        text = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
        code = OpenCode(person=person, code_hash=_hash_of(text), issued_at=now)
        self._open[person.key] = code
        self._texts[person.key] = text
        self._shown_at[person.key] = now
        return text, code

    def redeem(self, text: str, now: float) -> OpenCode:
        """Use a code up and return it. Raises `CommandRefused` if it is not valid, or after too many wrong codes."""
        self._wrong_at = [at for at in self._wrong_at if abs(now - at) < WRONG_CODES_S]
        if len(self._wrong_at) >= MAX_WRONG_CODES:
            raise CommandRefused(f"too many wrong codes: wait {WRONG_CODES_S:.0f} seconds and try again")
        given = _hash_of(text.strip().upper())
        # Every code is compared, in constant time: the time of the answer does not depend on the code.
        matching = [code for code in self.open_codes(now) if hmac.compare_digest(code.code_hash, given)]
        if not matching:
            self._wrong_at.append(now)
            raise CommandRefused(
                "this pairing code is not valid: it is unknown, was used, or is older than an hour. The person gets a "
                "new one by writing to the bot again"
            )
        self.remove(matching[0])
        return matching[0]

    def remove(self, code: OpenCode) -> None:
        """Remove the code."""
        for known in (self._open, self._texts, self._shown_at):
            known.pop(code.person.key, None)

    def restore(self, code: OpenCode) -> None:
        """Make a removed code valid again, because its use could not be recorded."""
        self._open[code.person.key] = code


def _hash_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16, person=b"tailrace-pairing").digest()
