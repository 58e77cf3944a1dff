"""The settings of an app, checked. The `repr` of the settings contains no token."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec

from tailrace.errors import UsageError
from tailrace.listen_address import listen_address
from tailrace.secret import SecretText

_TOKEN = re.compile(r"[\x21-\x7e]+")


class SlackAppSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one app in one workspace.

    `bot_token` sends. With `app_token` the channel receives over a socket (Socket Mode). Without it, Slack sends the
    events by HTTP to `listen` (host:port), with the path `/slack/events`, signed with `signing_secret`. `api_base` is
    the address of the Web API. `reactions` puts 👀 on each message to the bot that was recorded.
    """

    bot_token: SecretText
    app_token: SecretText = ""
    signing_secret: SecretText = ""
    listen: str = "127.0.0.1:3000"
    api_base: str = "https://slack.com/api/"
    reactions: bool = False

    def __post_init__(self) -> None:
        # No message shows a value, because a token may be in the wrong place.
        if not (self.bot_token.startswith("xoxb-") and _TOKEN.fullmatch(self.bot_token)):
            raise UsageError(
                "bot_token has a wrong form: it begins with xoxb-, and api.slack.com/apps shows it at "
                "OAuth & Permissions of the app"
            )
        if self.app_token and not (self.app_token.startswith("xapp-") and _TOKEN.fullmatch(self.app_token)):
            raise UsageError(
                "app_token has a wrong form: it begins with xapp-, and api.slack.com/apps makes one at "
                "Basic Information, App-Level Tokens, with the scope connections:write"
            )
        if not _is_url(self.api_base):
            raise UsageError("api_base must be an address like https://slack.com/api/")
        _ = self.listen_address

    def __repr__(self) -> str:
        receives = "a socket" if self.app_token else "HTTP" if self.signing_secret else "nothing"
        return f"SlackAppSettings(receives_by={receives!r})"

    @property
    def listen_address(self) -> tuple[str, int]:
        """The host and the port at which the channel listens for events by HTTP."""
        try:
            return listen_address(self.listen)
        except ValueError as error:
            raise UsageError(f"listen: {error}") from None


def _is_url(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment
    except ValueError:
        return False
