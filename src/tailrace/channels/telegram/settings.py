"""The settings of a bot, checked. The `repr` of the settings does not contain the token."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from tailrace.errors import UsageError
from tailrace.listen_address import listen_address
from tailrace.secret import SecretText

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]+")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")


class BotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one bot.

    `api_base` is the address of the Bot API, or of your own Bot API server. With `mode="webhook"` the channel listens
    at `listen` (host:port), and Telegram sends the updates to `public_url`, which must lead to that address. Each of
    these requests contains `secret`, which proves that it comes from Telegram; by default the secret is computed from
    the token. `rich` sends documents with headings, lists and tables. `reactions` puts 👀 on each message to the bot
    that was recorded.
    """

    token: SecretText
    api_base: str = "https://api.telegram.org"
    mode: Literal["polling", "webhook"] = "polling"
    listen: str = "127.0.0.1:8443"
    public_url: str = ""
    secret: SecretText = ""
    polling_timeout: Annotated[int, msgspec.Meta(gt=0, le=600)] = 30
    rich: bool = False
    reactions: bool = False

    def __post_init__(self) -> None:
        # No message shows a value, because a token may be in the wrong place.
        if not _TOKEN.fullmatch(self.token):
            raise UsageError(
                "the token has a wrong form: @BotFather gives one like 123456789:AAE… (digits, :, letters)"
            )
        if not _is_url(self.api_base, "http", "https"):
            raise UsageError("api_base must be an address like https://api.telegram.org")
        if self.secret and not _SECRET.fullmatch(self.secret):
            raise UsageError("secret must have 1 to 256 characters, only letters, digits, _ and -")
        if self.mode == "webhook":
            if not _is_url(self.public_url, "https", "http"):
                raise UsageError('mode = "webhook" needs public_url, the https address that leads to this machine')
            _ = self.listen_address

    def __repr__(self) -> str:
        return f"BotSettings(bot={self.bot_id}, mode={self.mode!r})"

    @property
    def bot_id(self) -> str:
        """The id of the bot: the first part of its token."""
        return self.token.partition(":")[0]

    @property
    def webhook_secret(self) -> str:
        """The secret of the webhook.

        If it is not set, it is computed from the token, in a way that does not reveal the token.
        """
        return self.secret or hashlib.sha256(f"tailrace webhook {self.token}".encode()).hexdigest()

    @property
    def listen_address(self) -> tuple[str, int]:
        """The host and the port at which the webhook listens."""
        try:
            return listen_address(self.listen)
        except ValueError as error:
            raise UsageError(f"listen: {error}") from None


def _is_url(address: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in schemes and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        return False
