"""What to do about a command that failed, by what it says: log in, name another model, or bring it up to date.

Each command line has words of its own for it, often among many others and without the remedy. What the failure is and
whose it is stays as it was said; the advice stands behind it. Owns the words; the failures are the translators'.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tailrace.events import Event, TurnFailed

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Command(NamedTuple):
    """How one command says that nobody is logged in, and what helps; `models` is where it has its models from."""

    package: str
    locked_out: re.Pattern[str]
    key: str
    models: str = ""


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
        "opencode knows the models of providers that it is logged in to (opencode auth login) or has in opencode.json.",
    ),
}
_COMMANDS["claude-sdk"] = _COMMANDS["claude"]
_LOCKED_OUT = 401
_NO_MODEL = re.compile(r"Model not found|ProviderModelNotFound")
# How programs refuse an option or a command that they have never heard of.
_UNHEARD_OF = re.compile(
    r"(?i)unknown (option|argument|command|flag)|unexpected argument|unrecognized (subcommand|option|argument)"
    r"|unknown or unexpected option|no such (option|command)"
)


def with_login_hint(runtime: str, events: Iterable[Event]) -> list[Event]:
    """The events; a failure that we know a remedy for says it, and has a code of its own."""
    return [_advised(_COMMANDS[runtime], runtime, event) for event in events]


def _advised(command: _Command, runtime: str, event: Event) -> Event:
    if not isinstance(event, TurnFailed) or event.code == "not_found":
        return event
    if event.status_code == _LOCKED_OUT or command.locked_out.search(f"{event.message} {event.code}"):
        return _with(event, f"{runtime} is not logged in. {command.key}", "not_logged_in")
    if command.models and _NO_MODEL.search(event.message):
        return _with(event, command.models, "unknown_model")
    if _UNHEARD_OF.search(event.message):
        name = runtime.removesuffix("-sdk")
        newer = f"npm install -g {command.package}@latest"
        return _with(
            event, f"This {name} is of a version that does not know it: update with {newer}", "unknown_version"
        )
    return event


def _with(event: TurnFailed, advice: str, code: str) -> TurnFailed:
    said = event.message.rstrip().rstrip(".")
    return msgspec.structs.replace(event, message=f"{said}. {advice}" if said else advice, code=code)
