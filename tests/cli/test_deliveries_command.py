"""`tailrace deliveries`: what a person finds out about what was sent, and what they can do about it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_runs import (
    ANSWER,
    COMPLETED,
    INPUT,
    KEYED,
    PARTS,
    UNKEYED,
    House,
    ended,
    give,
    hears,
    lines,
    platform,
    said,
)
from pseudo_terminal import TAILRACE, Person
from tailrace.testing.faults import NoAnswer, Refuse, Reset, Rule, TooMany
from tailrace.testing.platform_process import PlatformProcess

SECOND_IS_LOST = Rule(fault=Reset(), kind="post", at=2)


@pytest.fixture
def unkeyed() -> Iterator[PlatformProcess]:
    with platform(UNKEYED) as at:
        yield at


@pytest.fixture
def house(tmp_path: Path, unkeyed: PlatformProcess) -> House:
    """A ledger with a turn `t` whose second part is unknown."""
    unkeyed.add_faults(SECOND_IS_LOST)
    made = House(tmp_path, unkeyed)
    assert made.deliver("--turn", "t").exit_code == 1
    return made


def test_the_newest_are_listed_first_with_what_to_do(house: House) -> None:
    done = house.run("deliveries", "list")
    head, *rows = done.out.splitlines()
    assert head.split() == ["ID", "STATE", "TO", "TRIES", "AGE", "SAYS"]
    assert [row.split()[:4] for row in rows] == [
        ["t.4", "delivered", "simulated:room", "1"],
        ["t.3", "delivered", "simulated:room", "1"],
        ["t.0", "delivered", "simulated:room", "1"],
        ["t.2", "unknown", "simulated:room", "1"],
        ["t.1", "delivered", "simulated:room", "1"],
    ]
    assert rows[0].endswith(PARTS[3][:60].strip())
    assert done.err == (
        f"1 of them did not surely arrive: `tailrace deliveries show t.2 --ledger {house.ledger}` says why, "
        f"`tailrace deliveries resend t.2 --ledger {house.ledger}` sends it again\n"
    )
    assert done.exit_code == 0


def test_alone_it_lists_the_ledger_of_the_user(tmp_path: Path) -> None:
    house = House(tmp_path)
    empty = house.bare("deliveries")
    assert (empty.exit_code, empty.out) == (0, "")
    assert empty.err.startswith(
        f"there is no ledger at {tmp_path / 'tailrace' / 'ledger.db'}: nothing was delivered yet"
    )
    assert list(tmp_path.iterdir()) == []
    house.bare("deliver", "--channel", "terminal", "--to", "me", "--turn", "t", given=INPUT)
    assert "t.1  delivered  terminal:me" in house.bare("deliveries").out


@pytest.mark.parametrize("command", [("list",), ("purge", "--all"), ("purge", "--all", "--dry-run")])
def test_where_there_is_no_ledger_none_is_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    house = House(tmp_path)
    for _ in range(2):
        done = house.run("deliveries", *command)
        assert (done.exit_code, done.out) == (0, "")
        assert done.err == (
            f"there is no ledger at {house.ledger}: nothing was delivered yet, or it lies elsewhere (--ledger PATH)\n"
        )
        assert [path.name for path in tmp_path.iterdir() if path != house.ledger] == []
        house.ledger.touch()


@pytest.mark.parametrize("command", [("show", "t.1"), ("resend", "t.1"), ("adopt",)])
def test_what_needs_a_ledger_says_that_there_is_none(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = House(tmp_path).run("deliveries", *command)
    assert (done.exit_code, done.err.startswith("tailrace: there is no ledger at ")) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_ledger_says_so(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.run("deliver", "--channel", "terminal", "--to", "me", given=lines({"type": "turn_started"}, COMPLETED))
    done = house.run("deliveries", "list")
    assert (done.exit_code, done.out, done.err) == (0, "", "no delivery is as you asked, or there is none yet\n")
    assert house.rows() == []


def test_filters_choose_by_state_turn_place_and_age(house: House) -> None:
    house.deliver("--turn", "u", "--thread", "7", given=lines(said("Elsewhere."), COMPLETED))
    assert set(house.states("--state", "unknown", "--state", "failed")) == {"t.2"}
    assert set(house.states("--turn", "u")) == {"u.1"}
    assert set(house.states("--to", "simulated:room#7")) == {"u.1"}
    assert "u.1" not in house.states("--to", "simulated:room")
    assert house.states("--channel", "terminal") == {}
    assert house.states("--older-than", "1h") == {}
    assert len(house.states("--older-than", "0s")) == 6
    assert house.states("--state", "open") == {}
    few = house.run("deliveries", "list", "--limit", "2")
    assert len(few.out.splitlines()) == 3
    assert few.err.startswith("there are more: --limit 4 shows further back\n")


def test_as_json_a_listed_delivery_is_an_object(house: House) -> None:
    [unknown] = house.rows("--state", "unknown")
    assert list(unknown) == [
        *("id", "state", "attempt", "message_id", "error", "may_be_double", "turn_id", "ordinal"),
        *("channel", "chat", "thread", "text", "created_at", "updated_at"),
    ]
    assert (unknown["id"], unknown["turn_id"], unknown["ordinal"]) == ("t.2", "t", 2)
    assert (unknown["channel"], unknown["chat"], unknown["thread"]) == ("simulated", "room", None)
    assert unknown["text"] == PARTS[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("list", "--older-than", "soon"),
            "--older-than is 'soon': write a number and a unit, as in 90s, 30m, 2h or 7d",
        ),
        (("list", "--to", "room"), "--to is 'room': write CHANNEL:CHAT, as `tailrace deliveries list` shows it"),
        (("list", "--state", "lost"), "invalid value for '--state'"),
        (("show", "t.9"), "there is no delivery 't.9'. Did you mean t."),
        (("show", "t"), "t is a turn; its deliveries are t.1, t.2, t.0, t.3, t.4"),
        (("show", "zzzzzz"), "there is no delivery 'zzzzzz'. `tailrace deliveries list` shows those there are."),
        (("resend",), "say what to send again: deliveries by their ids, or options such as --state unknown"),
        (("resend", "t.2", "--state", "unknown"), "say what to send again"),
        (("resend", "t.9"), "there is no delivery 't.9'. Did you mean t."),
        (("purge",), "say what to forget: --older-than 30d, --turn ID, or --all for everything that is over;"),
        (("purge", "--state", "failed"), "say what to forget: --older-than 30d"),
        (("purge", "--all", "--older-than", "1d"), "--all and --older-than cannot both be meant: leave one out"),
        (("purge", "--all", "--state", "open"), "open deliveries are never forgotten"),
    ],
)
def test_wrong_use_is_one_line_and_changes_nothing(house: House, arguments: tuple[str, ...], complaint: str) -> None:
    before = house.states()
    done = house.run("deliveries", *arguments)
    assert done.exit_code == 2
    assert complaint in " ".join(done.err.replace("│", " ").split())
    assert "Traceback" not in done.err
    assert house.states() == before


def test_all_that_is_known_of_one_is_shown(house: House) -> None:
    done = house.run("deliveries", "show", "t.2")
    facts, _, body = done.out.partition("\n\n")
    shown = {line[:9].strip(): line[10:] for line in facts.splitlines()}
    assert body == PARTS[1] + "\n"
    assert shown["state"] == "unknown"
    assert shown["to"] == "simulated:room"
    assert shown["error"] == "the connection was reset before the answer came"
    assert shown["policy"] == "unkeyed; on unknown hold, on dead skip"
    assert shown["made"].endswith(" s ago)")
    assert "message" not in shown
    assert house.run("deliveries", "show", "t.1").out.splitlines()[4] == "message   m1"
    [everything] = house.run("deliveries", "show", "t.2", "--json").objects
    assert everything["operation"]["body"]["text"] == PARTS[1]
    assert everything["policy"]["idempotency"] == {"kind": "unkeyed"}
    assert (everything["receipt"], everything["key"] != "") == (None, True)
    assert everything["first_try_at"] == everything["last_try_at"] >= everything["created_at"]


def test_control_characters_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    house = House(tmp_path)
    given = lines(said("one\x1b[2J\ntwo\u202e"), COMPLETED)
    house.run("deliver", "--channel", "terminal", "--to", "me", "--turn", "t", given=given)
    assert house.run("deliveries", "list").out.splitlines()[1].endswith("one␛[2J two\\u202e")
    assert house.run("deliveries", "show", "t.1").out.endswith("\n\none␛[2J\ntwo\\u202e\n")


def test_an_unknown_part_is_sent_again_once_and_then_only_by_its_new_name(
    house: House, unkeyed: PlatformProcess
) -> None:
    first = house.run("deliveries", "resend", "--state", "unknown")
    assert (first.exit_code, first.err) == (0, "")
    assert first.out == "sent t.2 again, as t/resend.2 (message m6)\n"
    assert unkeyed.texts("room")[-1] == PARTS[1]
    second = house.run("deliveries", "resend", "t.2")
    assert (second.exit_code, second.out) == (0, "")
    assert second.err == (
        "t.2 was sent again already, as t/resend.2, which is delivered; "
        f"`tailrace deliveries resend t/resend.2 --ledger {house.ledger}` sends it once more\n"
    )
    assert len(unkeyed.history("room")) == 6
    third = house.run("deliveries", "resend", "t/resend.2", "--json")
    [row] = third.objects
    assert (row["id"], row["again_of"], row["state"]) == ("t/resend/resend.2", "t/resend.2", "delivered")
    assert "did not surely arrive" not in house.run("deliveries", "list", "--state", "unknown").err


def test_what_cannot_be_sent_again_is_said(house: House, unkeyed: PlatformProcess) -> None:
    unkeyed.add_faults(Refuse(reason="the chat is gone"))
    refused = house.run("deliveries", "resend", "t.2")
    assert refused.exit_code == 1
    assert refused.err.splitlines() == [
        "tried to send t.2 again, as t/resend.2, which is failed: the chat is gone",
        "tailrace: 1 of 1 did not surely arrive",
    ]
    unkeyed.close_port()
    unreachable = house.run("deliveries", "resend", "t/resend.2")
    assert unreachable.exit_code == 1
    assert unreachable.err.splitlines() == [
        "tailrace: the channel 'simulated' cannot be started: the platform could not be reached",
        "tailrace: 1 of 1 did not surely arrive",
    ]
    unkeyed.open_port()
    house.run("deliveries", "purge", "--all", "--bodies")
    forgotten = house.run("deliveries", "resend", "t/resend.2")
    assert forgotten.exit_code == 1
    assert forgotten.err.startswith("t/resend.2 cannot be sent again: what it said was forgotten")
    assert house.run("deliveries", "show", "t.2").out.endswith("\n(what it said was forgotten)\n")


def test_nothing_to_send_again_is_no_failure(house: House) -> None:
    done = house.run("deliveries", "resend", "--state", "dead")
    assert (done.exit_code, done.err) == (0, "no delivery is as you asked: nothing was sent\n")


def test_open_ones_are_gone_on_with(tmp_path: Path) -> None:
    with platform(KEYED) as at:
        house = House(tmp_path, at)
        at.add_faults(Rule(fault=NoAnswer(), kind="post", at=2))
        process = house.start_deliver("--turn", "t")
        give(process, INPUT)
        at.wait(calls=2)
        process.kill()
        ended(process)
        assert list(house.states("--state", "open").values()) == ["sending", "planned", "planned"]
        done = house.run("deliveries", "resend", "--state", "open")
        assert done.out.splitlines() == [f"sent t.{number} (message m{number})" for number in (2, 3, 4)]
        assert (done.exit_code, at.texts("room")) == (0, PARTS)


def test_what_is_not_due_yet_is_left_open_and_told(tmp_path: Path) -> None:
    with platform(KEYED) as at:
        house = House(tmp_path, at)
        at.add_faults(TooMany(retry_after=1200))
        process = house.start_deliver("--turn", "t")
        give(process, lines(said("Soon."), COMPLETED))
        hears(process, "part 1")
        process.terminate()
        ended(process)
        done = house.run("deliveries", "resend", "t.1")
        assert (done.exit_code, at.texts("room")) == (1, [])
        assert done.err.startswith("t.1 still waits until ")
        assert ", as retry: too many requests\n" in done.err


def test_many_conversations_are_sent_side_by_side_and_asked_to_end(house: House, unkeyed: PlatformProcess) -> None:
    for thread in range(3):
        unkeyed.add_faults(Refuse())
        house.deliver("--turn", f"u{thread}", "--thread", str(thread), given=lines(said("x"), COMPLETED))
    unkeyed.add_faults(Rule(fault=TooMany(retry_after=1200), times=3))
    process = house.start("deliveries", "resend", "--state", "failed")
    for _ in range(3):
        assert "/resend.1 is tried again in 20 min: too many requests" in hears(process, "tried again")[-1]
    process.terminate()
    done = ended(process)
    assert done.exit_code == 1
    assert done.err.endswith("tailrace: 3 of 3 did not surely arrive\n")
    assert len(house.states("--state", "retry")) == 3


def test_looking_works_while_another_process_has_the_ledger_and_changing_does_not(
    house: House, unkeyed: PlatformProcess
) -> None:
    unkeyed.add_faults(NoAnswer())
    process = house.start_deliver("--turn", "u")
    calls = unkeyed.account().counts["post"]
    give(process, INPUT)
    unkeyed.wait(calls=calls + 1, kind="post")
    assert house.states("--turn", "u")["u.1"] == "sending"
    assert house.run("deliveries", "show", "u.1").exit_code == 0
    assert house.run("deliveries", "purge", "--all", "--dry-run").exit_code == 0
    for command in (("resend", "t.2"), ("purge", "--all"), ("adopt",)):
        done = house.run("deliveries", *command)
        assert done.exit_code == 1
        assert (
            done.err
            == f"tailrace: {house.ledger} is in use by process {process.pid}. End that one, or name another path.\n"
        )
    process.kill()
    ended(process)


def everything_in(ledger: Path) -> list[str]:
    with sqlite3.connect(ledger) as connection:
        return list(connection.iterdump())


def test_a_dry_run_changes_nothing_and_says_what_would_be(house: House) -> None:
    before = everything_in(house.ledger)
    for command, told in [
        (("--all",), "would forget 5 deliveries; nothing was changed\n"),
        (("--all", "--state", "unknown"), "would forget 1 delivery; nothing was changed\n"),
        (("--older-than", "1h"), "would forget 0 deliveries; nothing was changed\n"),
        (("--turn", "t", "--bodies"), "would forget what 5 deliveries said; nothing was changed\n"),
    ]:
        assert house.run("deliveries", "purge", *command, "--dry-run").out == told
    assert everything_in(house.ledger) == before


def test_what_is_over_is_forgotten_and_what_is_open_stays(tmp_path: Path) -> None:
    with platform(KEYED) as at:
        house = House(tmp_path, at)
        house.deliver("--turn", "t")
        at.add_faults(TooMany(retry_after=1200))
        process = house.start_deliver("--turn", "u")
        give(process, INPUT)
        hears(process, "part 1")
        process.terminate()
        ended(process)
        assert house.run("deliveries", "purge", "--all", "--dry-run").out.startswith("would forget 4 deliveries;")
        assert house.run("deliveries", "purge", "--older-than", "1d").out == "forgot 0 deliveries\n"
        assert house.run("deliveries", "purge", "--all").out == "forgot 4 deliveries\n"
        assert set(house.states().values()) == {"retry", "planned"}


def test_bodies_are_forgotten_alone(house: House) -> None:
    assert house.run("deliveries", "purge", "--turn", "t", "--bodies").out == "forgot what 5 deliveries said\n"
    assert house.run("deliveries", "purge", "--turn", "t", "--bodies", "--dry-run").out.startswith(
        "would forget what 0"
    )
    assert {row["text"] for row in house.rows()} == {""}
    assert "wheel" not in "".join(everything_in(house.ledger))


def test_a_ledger_put_back_from_a_copy_is_refused_until_it_is_adopted(tmp_path: Path) -> None:
    with platform(KEYED) as at:
        house = House(tmp_path, at)
        at.add_faults(Rule(fault=TooMany(retry_after=1200), kind="post", at=2))
        process = house.start_deliver("--turn", "t")
        give(process, INPUT)
        hears(process, "part 2")
        process.terminate()
        ended(process)
        copy = shutil.copy(house.ledger, tmp_path / "copy.db")
        house.deliver("--turn", "u", "--thread", "1")
        shutil.copy(copy, house.ledger)
        refused = house.deliver("--turn", "t")
        assert refused.exit_code == 1
        assert "run `tailrace deliveries adopt` to go on with what is left" in refused.err
        adopted = house.run("deliveries", "adopt")
        assert adopted.exit_code == 0
        assert adopted.out.startswith(
            f"{house.ledger} was taken over as it is.\n3 deliveries that were open count as maybe"
        )
        done = house.deliver("--turn", "t")
        assert done.exit_code == 0
        assert [message.text for message in at.history("room") if message.thread is None] == PARTS
        assert house.run("deliveries", "adopt").out.splitlines()[1:] == [
            "nothing in it was open: nothing will be sent because of it."
        ]


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.ledger.write_bytes(b"something else entirely" * 100)
    for command in (("list",), ("adopt",), ("purge", "--all")):
        done = house.run("deliveries", *command)
        assert (done.exit_code, done.err.count("\n"), "Traceback" in done.err) == (1, 1, False)
        assert done.err.startswith(f"tailrace: {house.ledger} is damaged or not a ledger")
    assert "Traceback" in house.run("deliveries", "list", "--debug").err
    assert house.ledger.read_bytes() == b"something else entirely" * 100


def test_a_row_that_is_damaged_is_told_of_and_the_others_are_listed(house: House) -> None:
    before = house.rows()
    damaged = before[0]["id"]
    with sqlite3.connect(house.ledger) as connection:
        turn_id, _, ordinal = damaged.rpartition(".")
        connection.execute("UPDATE delivery SET operation = '{' WHERE turn_id = ? AND ordinal = ?", (turn_id, ordinal))
    connection.close()
    for options in ((), ("--json",)):
        done = house.run("deliveries", "list", *options)
        assert done.exit_code == 1
        told = f"tailrace: {house.ledger}: the row of delivery {damaged} is damaged and is not sent."
        assert done.err.splitlines()[-1].startswith(told)
    assert [row["id"] for row in done.objects[::-1]] == [row["id"] for row in before[1:]]


def test_at_a_terminal_the_list_is_a_table_that_fits(house: House) -> None:
    command = (TAILRACE, "deliveries", "list", "--ledger", str(house.ledger))
    with Person(*command, columns=80, env={"PYTHONWARNINGS": "error"}) as person:
        assert person.leaves() == 0
        head, *rows = person.lines()[:6]
        assert head.startswith("ID   STATE      TO")
        assert [row.split()[0] for row in rows] == ["t.4", "t.3", "t.0", "t.2", "t.1"]
        assert rows[0].endswith("…")
        assert person.screen.buffer[4][5].fg == "red"
    with Person(*command, columns=80, env={"NO_COLOR": "1"}) as plain:
        assert plain.leaves() == 0
        assert plain.screen.buffer[4][5].fg == "default"


def test_a_long_answer_is_one_object_on_one_line(tmp_path: Path) -> None:
    house = House(tmp_path)
    given = lines(said(ANSWER * 3), COMPLETED)
    house.run("deliver", "--channel", "terminal", "--to", "me", "--turn", "t", given=given)
    [line] = house.run("deliveries", "list", "--json").out.splitlines()
    assert json.loads(line)["text"] == (ANSWER * 3).strip()
