"""Checks the account of a bot: the token, the webhook, and which messages it receives in groups. Sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from tailrace.channels.telegram.client import MethodCall
from tailrace.errors import ChannelFault
from tailrace.ports import Finding

if TYPE_CHECKING:
    from tailrace.channels.telegram.client import TelegramClient
    from tailrace.channels.telegram.settings import BotSettings

_MAX_REASON = 120


class BotProfile(msgspec.Struct, frozen=True):
    """The profile of the bot, as the method `getMe` returns it."""

    id: int
    username: str = ""
    can_join_groups: bool = False
    can_read_all_group_messages: bool = False


class WebhookStatus(msgspec.Struct, frozen=True):
    """The webhook that is set for the bot. `url` is empty if none is set."""

    url: str = ""
    pending_update_count: int = 0
    last_error_message: str = ""


async def get_me(api: TelegramClient) -> BotProfile:
    """Ask Telegram which bot the token belongs to. Raises `AccessLost` if the token is not valid."""
    return await api.call(MethodCall("getMe", {}), BotProfile)


async def check(api: TelegramClient, settings: BotSettings) -> list[Finding]:
    """Make all checks that send nothing, up to the first call that fails. Returns the findings."""
    findings = []
    try:
        profile = await get_me(api)
        findings.append(Finding(ok=True, text=f"the token is valid: it is that of @{profile.username}"))
        findings.append(_groups(profile))
        findings.append(_webhook(await api.call(MethodCall("getWebhookInfo", {}), WebhookStatus), settings))
    except ChannelFault as fault:
        findings.append(Finding(ok=False, text=str(fault)))
    return findings


def _groups(profile: BotProfile) -> Finding:
    if not profile.can_join_groups:
        return Finding(ok=True, text="the bot cannot be added to groups; /setjoingroups of @BotFather allows it")
    if profile.can_read_all_group_messages:
        return Finding(ok=True, text="privacy mode is off: the bot sees every message in its groups")
    return Finding(
        ok=True,
        text="privacy mode is on: in groups the bot sees only commands, replies to it and mentions. "
        'For groups = "all" switch it off with /setprivacy of @BotFather, then add the bot to the group again',
    )


def _webhook(status: WebhookStatus, settings: BotSettings) -> Finding:
    host = urlsplit(status.url).hostname or "an address"  # the rest of it may hold secrets
    if settings.mode == "polling":
        if status.url:
            return Finding(
                ok=False,
                text=f'a webhook to {host} is set, so nothing can be polled: set mode = "webhook", or remove it with '
                "the method deleteWebhook of Telegram",
            )
        waiting = f", and {status.pending_update_count} wait" if status.pending_update_count else ""
        return Finding(ok=True, text=f"no webhook is set: the messages can be polled{waiting}")
    if status.url != settings.public_url:
        replaced = f"the webhook to {host} is replaced" if status.url else "the webhook is set"
        return Finding(ok=True, text=f"{replaced} at the start")
    if status.last_error_message and status.pending_update_count:
        waiting = f"{status.pending_update_count} messages wait"
        reason = status.last_error_message[:_MAX_REASON]
        return Finding(ok=False, text=f"Telegram cannot reach the webhook at {host} ({reason}), and {waiting}")
    return Finding(ok=True, text="the webhook has no errors")
