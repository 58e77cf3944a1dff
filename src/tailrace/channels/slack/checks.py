"""Checks the account of an app: the token, its scopes, and the token of the socket. Sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tailrace.channels.slack.client import SlackCall
from tailrace.channels.slack.requests import PATH
from tailrace.channels.slack.socket_mode import OpenedConnection
from tailrace.errors import ChannelFault, NotSent
from tailrace.ports import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tailrace.channels.slack.client import SlackClient
    from tailrace.channels.slack.settings import SlackAppSettings

# Without the first ones no conversation works, and each other one switches on what its text says.
_NEEDED = {
    "chat:write": "to send messages",
    "im:history": "to get direct messages, and to find out whether an answer arrived",
    "app_mentions:read": "to get mentions in channels",
    "channels:history": "to find out whether an answer in a public channel arrived",
    "groups:history": "to find out whether an answer in a private channel arrived",
}
_USEFUL = {
    "users:read": "the names of people",
    "files:read": "the files of people",
    "files:write": "to send files",
    "reactions:write": "reactions",
    "commands": "slash commands",
}
_WHERE = "at api.slack.com/apps, OAuth & Permissions, and install the app again"


class AppProfile(msgspec.Struct, frozen=True):
    """Who the token belongs to, as `auth.test` says."""

    user_id: str
    user: str = ""
    team: str = ""
    team_id: str = ""
    bot_id: str = ""
    enterprise_id: str | None = None
    is_enterprise_install: bool = False


async def auth_test(api: SlackClient) -> tuple[AppProfile, frozenset[str]]:
    """Ask Slack which app the token belongs to, and which scopes it has. Raises `AccessLost` if it is not valid."""
    profile, headers = await api.call_with_headers(SlackCall("auth.test", {}), AppProfile)
    return profile, _scopes(headers)


async def check(api: SlackClient, socket_api: SlackClient | None, settings: SlackAppSettings) -> list[Finding]:
    """Make all checks that send nothing. Returns the findings."""
    findings = []
    try:
        profile, scopes = await auth_test(api)
        findings.append(Finding(ok=True, text=f"bot_token is valid: it is that of @{profile.user} in {profile.team}"))
        findings += _missing(scopes)
    except ChannelFault as fault:
        findings.append(Finding(ok=False, text=str(fault)))
    findings.append(await _receiving(socket_api, settings))
    return findings


def _scopes(headers: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name.strip() for name in headers.get("X-OAuth-Scopes", "").split(",") if name.strip())


def _missing(scopes: frozenset[str]) -> list[Finding]:
    findings = [
        Finding(ok=False, text=f"the scope {scope} is missing ({why}): add it {_WHERE}")
        for scope, why in _NEEDED.items()
        if scope not in scopes
    ]
    findings = findings or [Finding(ok=True, text="the app has all scopes that conversations need")]
    without = [f"{what} ({scope})" for scope, what in _USEFUL.items() if scope not in scopes]
    if without:
        findings.append(
            Finding(ok=True, text=f"not switched on: {', '.join(without)}. To use it, add the scope {_WHERE}")
        )
    return findings


async def _receiving(socket_api: SlackClient | None, settings: SlackAppSettings) -> Finding:
    if socket_api is not None:
        try:
            await socket_api.call(SlackCall("apps.connections.open", {}), OpenedConnection)
        except ChannelFault as fault:
            if isinstance(fault, NotSent) and fault.retry_after is not None:
                return Finding(ok=True, text="app_token was not checked: Slack allows that about once in a minute")
            return Finding(ok=False, text=f"Socket Mode does not work: {fault}")
        return Finding(ok=True, text="app_token is valid, and Socket Mode is on")
    if settings.signing_secret:
        host, port = settings.listen_address
        return Finding(
            ok=True,
            text=f"events come by HTTP to {host}:{port}{PATH}: that must be the request URL at api.slack.com/apps, "
            "Event Subscriptions and Interactivity & Shortcuts; whether Slack reaches it is not checked",
        )
    return Finding(
        ok=False,
        text="nothing is received: set app_token (Basic Information, App-Level Tokens) for Socket Mode, or "
        "signing_secret (Basic Information) for events by HTTP",
    )
