"""`tailrace access`: list, approve and revoke the people who may talk to the bot.

`approve` and `revoke` are done by the gateway if one is running, so that they count at once. Otherwise this command
changes the ledger itself.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tailrace.cli.command_anywhere import CommandAnywhere
from tailrace.cli.delivery_format import format_duration, format_time, format_utc, json_line, one_line
from tailrace.cli.failures import errors_in_one_line
from tailrace.cli.ledgers import (
    DebugOption,
    LedgerOption,
    ledger_exists,
    ledger_place,
    no_answer,
    no_ledger,
    read_ledger,
    write_ledger,
)
from tailrace.cli.settings import ConfigOption, SetOption
from tailrace.errors import CommandRefused, GatewayNotRunning, LedgerInUse
from tailrace.gateway.access import AccessList, Approved, approved_people, waiting_people
from tailrace.gateway.control import Approve, ControlClient, Revoke

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.cli.ledgers import LedgerPlace
    from tailrace.gateway.pairing import OpenCode, Person

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Write each person as a line of JSON.")]

access = typer.Typer(
    cls=CommandAnywhere,
    add_completion=False,
    help="List, approve or revoke the people who may talk to the bot. Without a command it lists them; options may "
    "come before or after the command. People in `allow` of the settings need no approval and are not listed.",
)


@access.command("list")
def list_people(
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the approved people, and those who wait.

    A person waits who has got a code from the bot and was not approved yet.
    """
    with errors_in_one_line(debug=debug):
        place = ledger_place(ledger, config, assignments)
        if not ledger_exists(place.path):
            typer.echo(no_ledger(place.path), err=True)
            return
        now = time.time()
        approved, waiting = asyncio.run(_read(place.path, now))
        for each in approved:
            line = f"approved on {format_time(each.approved_at)}"
            _write(each.person, "approved", each.approved_at, line, as_json=json)
        for code in waiting:
            line = f"waits for approval, got a code {format_duration(now - code.issued_at)} ago"
            _write(code.person, "waiting", code.issued_at, line, as_json=json)
        if not approved and not waiting and not json:
            typer.echo("nobody is approved, and nobody waits for approval", err=True)


@access.command()
def approve(
    code: Annotated[str, typer.Argument(metavar="CODE", help="The code that the bot has sent to the person.")],
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Let the person in who got this code from the bot. A code works once, and for one hour."""
    with errors_in_one_line(debug=debug):
        approved = asyncio.run(_change(ledger_place(ledger, config, assignments), Approve(code=code)))
        _write(approved.person, "approved", approved.approved_at, "may talk to the bot now", as_json=json)


@access.command()
def revoke(
    person: Annotated[str, typer.Argument(metavar="[CHANNEL:]ID", help="The person, as `list` shows it.")],
    *,
    ledger: LedgerOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Remove an approved person."""
    with errors_in_one_line(debug=debug):
        revoked = asyncio.run(_change(ledger_place(ledger, config, assignments), Revoke(person=person)))
        _write(revoked.person, "revoked", revoked.approved_at, "may not talk to the bot any more", as_json=json)


async def _read(path: Path, now: float) -> tuple[list[Approved], list[OpenCode]]:
    async with read_ledger(path) as reader:
        return await approved_people(reader), await waiting_people(reader, now)


async def _change(place: LedgerPlace, request: Approve | Revoke) -> Approved:
    """Let the gateway make the change. If no gateway is running, make it in the ledger."""
    try:
        return await ControlClient(place.control).ask(request, Approved)
    except GatewayNotRunning:
        if not ledger_exists(place.path):
            raise CommandRefused(no_ledger(place.path)) from None
    try:
        async with write_ledger(place.path) as ledger:
            people = await AccessList.load(ledger)
            if isinstance(request, Approve):
                return await people.approve(request.code, time.time())
            return await people.revoke(request.person)
    except LedgerInUse as in_use:
        raise no_answer(place, in_use) from in_use


def _write(person: Person, state: str, at: float, text: str, *, as_json: bool) -> None:
    """Write a person to standard output. `at` is the time of the approval, or of the code of a person who waits."""
    if as_json:
        record: dict[str, Any] = {"state": state, "channel": person.channel, "id": person.id, "name": person.name}
        typer.echo(json_line(record | {"at": format_utc(at)}), nl=False)
    else:
        name = f" ({one_line(person.name)})" if person.name else ""
        typer.echo(f"{one_line(person.key)}{name} {text}")
