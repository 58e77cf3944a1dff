"""Add to a command's failure what the user can do: log in, name another model, or update.

Each command reports these failures in its own words, often in a long text and without advice. The text of the failure
stays; the hint is added after it. This module owns the hints; the failures come from the translators.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tailrace.events import Event, TurnFailed

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Command(NamedTuple):
    """A command: its npm package, how it reports that the user is not logged in, and what to advise then."""

    package: str
    login_error: re.Pattern[str]
    login_hint: str
    model_hint: str = ""


_COMMANDS = {
    "claude": _Command(
        "@anthropic-ai/claude-code",
        re.compile(r"Not logged in|Please run /login|Invalid API key|authentication_(error|failed)|OAuth token"),
        "Run claude once and log in with /login, or set ANTHROPIC_API_KEY.",
    ),
    "codex": _Command(
        "@openai/codex",
        re.compile(
            r"[Nn]ot logged in|401 Unauthorized|Missing (bearer|environment variable)|(log|sign) in again|refresh token"
        ),
        "Log in with: codex login, or set the key that its settings name.",
    ),
    "gemini": _Command(
        "@google/gemini-cli",
        re.compile(r"set an Auth method|GEMINI_API_KEY|API key (not valid|is missing)|Authentication |auth_required"),
        "Run gemini once and log in, or set GEMINI_API_KEY.",
    ),
    "opencode": _Command(
        "opencode-ai",
        re.compile(r"ProviderAuthError|[Uu]nauthorized|API key|auth login"),
        "Log in with: opencode auth login, or name a provider in opencode.json.",
        "opencode knows the models of providers that you log in to (opencode auth login) or list in opencode.json.",
    ),
}
_COMMANDS["claude-sdk"] = _COMMANDS["claude"]
_UNAUTHORIZED = 401
_NO_MODEL = re.compile(r"Model not found|ProviderModelNotFound")
# How programs refuse an unknown option or command.
_UNKNOWN_OPTION = re.compile(
    r"(?i)unknown (option|argument|command|flag)|unexpected argument|unrecognized (subcommand|option|argument)"
    r"|unknown or unexpected option|no such (option|command)"
)


def with_login_hint(runtime: str, events: Iterable[Event]) -> list[Event]:
    """Return the events. A failure for which there is advice gets the advice and a more precise code."""
    return [_with_hint(_COMMANDS[runtime], runtime, event) for event in events]


def _with_hint(command: _Command, runtime: str, event: Event) -> Event:
    if not isinstance(event, TurnFailed) or event.code == "not_found":
        return event
    if event.status_code == _UNAUTHORIZED or command.login_error.search(f"{event.message} {event.code}"):
        return _with_code(event, f"{runtime} is not logged in. {command.login_hint}", "not_logged_in")
    if command.model_hint and _NO_MODEL.search(event.message):
        return _with_code(event, command.model_hint, "unknown_model")
    if _UNKNOWN_OPTION.search(event.message):
        name = runtime.removesuffix("-sdk")
        update = f"npm install -g {command.package}@latest"
        return _with_code(event, f"This version of {name} does not know it. Update with {update}", "unknown_version")
    return event


def _with_code(event: TurnFailed, hint: str, code: str) -> TurnFailed:
    message = event.message.rstrip().rstrip(".")
    return msgspec.structs.replace(event, message=f"{message}. {hint}" if message else hint, code=code)
