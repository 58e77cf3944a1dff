"""`tailrace init`: ask three questions, and write a commented `tailrace.toml` with the answers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer
from msgspec.structs import fields

from tailrace.cli.failures import FAILED, errors_in_one_line
from tailrace.config import DESCRIPTIONS, ENVIRONMENT, FILE_NAME
from tailrace.errors import UsageError
from tailrace.plugins import channel_settings, find_agent, known
from tailrace.secret import is_secret

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_CHANNEL, _AGENT = "telegram", "demo"
_NOT_OFFERED = {"simulated", "terminal"}
"""The installed channels that no gateway is for."""


class _Choices(NamedTuple):
    """What the file is to contain: a channel type, an agent, and the ids of the people who may use it."""

    channel: str
    agent: str
    allow: tuple[str, ...]


def init(
    *,
    channel: Annotated[
        str | None, typer.Option("--channel", metavar="NAME", help="The channel type. Default: telegram.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="AGENT", help="The agent, as in tailrace chat. Default: demo.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="ID", help="The id of a person who may use it; repeat it for more."),
    ] = None,
) -> None:
    """Ask three questions, and write a commented tailrace.toml in this directory.

    With any option, or if standard input is no terminal, it asks nothing and uses the defaults. An existing file is
    never changed. No secret is written: the file names the environment variable of the token.
    """
    with errors_in_one_line():
        if Path(FILE_NAME).exists():
            raise _already_there()
        has_options = channel is not None or agent is not None or bool(allow)
        if not has_options and sys.stdin.isatty() and sys.stdout.isatty():
            choices = _ask()
        else:
            channel, agent = _checked_channel(channel or _CHANNEL), _checked_agent(agent or _AGENT)
            choices = _Choices(channel, agent, _people(" ".join(allow or ())))
        _write(_document(choices))
        typer.echo(_next_steps(choices))


def _ask() -> _Choices:
    offered = [name for name in known("channel") if name not in _NOT_OFFERED]
    try:
        channel = _answer(f"Which channel? One of {', '.join(offered)} [{_CHANNEL}]: ", _CHANNEL, _checked_channel)
        typer.echo("An agent is module:object of your program, or a name: claude, codex, gemini, opencode, demo.")
        agent = _answer(f"Which agent? [{_AGENT}]: ", _AGENT, _checked_agent)
        typer.echo(f"Who may use it? Your id in {channel}, or * for everybody.")
        people = _answer("If you leave it empty, new people get a code that you approve: ", "", _people)
    except EOFError:
        typer.echo("\nnothing was written", err=True)
        sys.exit(FAILED)
    return _Choices(channel, agent, people)


def _answer(question: str, default: str, check: Callable[[str], _T]) -> _T:
    """Ask until the answer is right. Raises `EOFError` at Ctrl-D."""
    while True:
        try:
            return check(input(question).strip() or default)
        except UsageError as error:
            typer.echo(error)


def _checked_channel(name: str) -> str:
    channel_settings(name)
    return name


def _checked_agent(name: str) -> str:
    """A name must be known. The module of an agent in Python may be written later, so it is not imported."""
    if ":" not in name:
        find_agent(name)
    return name


def _people(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _write(document: str) -> None:
    try:
        with Path(FILE_NAME).open("x", encoding="utf-8") as file:
            file.write(document)
    except FileExistsError as error:
        raise _already_there() from error


def _already_there() -> UsageError:
    return UsageError(f"there is a {FILE_NAME} here already, and it is not changed. To try it: tailrace check")


def _document(choices: _Choices) -> str:
    secrets = [f'{key} = "env:{variable}"' for key, variable in _secrets(choices.channel).items()]
    about_secrets = "# a secret stays out of this file: env:NAME is an environment variable, file:PATH is a file"
    lines = [
        "# The settings of tailrace. All other keys have defaults: tailrace check --explain shows them.",
        "",
        "[agents.main]",
        *_commented("agents", "use", _quoted(choices.agent)),
        *_commented("agents", "permissions", '"ask"', is_default=True),
        "",
        f"[channels.{choices.channel}]",
        *([about_secrets] if secrets else []),
        *secrets,
        *_commented("channels", "allow", f"[{', '.join(map(_quoted, choices.allow))}]"),
        *_commented("channels", "groups", '"addressed"', is_default=True),
        *_commented("channels", "busy", '"queue"', is_default=True),
        *_commented("channels", "presentation", '"live"', is_default=True),
    ]
    return "\n".join([*lines, ""])


def _commented(table: str, key: str, value: str, *, is_default: bool = False) -> list[str]:
    """The meaning of a key as a comment, then the key; a default is commented out."""
    return [f"# {DESCRIPTIONS[table][key]}", f"{'# ' if is_default else ''}{key} = {value}"]


def _secrets(channel: str) -> dict[str, str]:
    """The keys of the secrets that this channel type needs, each with its environment variable."""
    usual = {key: variable for variable, (of, key) in ENVIRONMENT.items() if of == channel}
    return {
        field.encode_name: usual.get(field.encode_name, f"{channel}_{field.encode_name}".upper().replace("-", "_"))
        for field in fields(channel_settings(channel))
        if field.required and is_secret(field.type)
    }


def _quoted(text: str) -> str:
    """A text as TOML; JSON writes it in the same way, except one control character."""
    valid = text.encode(errors="replace").decode()
    return json.dumps(valid, ensure_ascii=False).replace("\x7f", "\\u007f")


def _next_steps(choices: _Choices) -> str:
    missing = [variable for variable in _secrets(choices.channel).values() if not os.environ.get(variable)]
    steps = [f"export {variable}=…" for variable in missing]
    steps += ["tailrace check", "tailrace serve"]
    if not choices.allow:
        steps.append("tailrace access approve CODE  # the bot gives each new person a code")
    lines = [f"wrote {FILE_NAME}; now:", *(f"  {step}" for step in steps)]
    if missing and choices.channel in known("simulator"):
        lines.append(f"To try it without an account: tailrace simulate {choices.channel}")
    return "\n".join(lines)
