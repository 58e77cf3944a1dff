"""`tailrace deliveries`: what a person finds out about what was sent, and what they can do about it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from typing import TYPE_CHECKING

import pytest

from command_runs import (
    ANSWER,
    COMPLETED,
    INPUT,
    KEYED,
    PARTS,
    UNKEYED,
    CommandFolder,
    finish,
    lines,
    platform_with,
    read_until,
    run_here,
    text,
    write_input,
)
from pseudo_terminal import TAILRACE, Person
from tailrace.testing.faults import NoAnswer, Refuse, Reset, Rule, TooMany
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECOND_IS_LOST = Rule(fault=Reset(), kind="post", at=2)
WAITS_20_MIN = TooMany(retry_after=1200)


@pytest.fixture
def keyed() -> Iterator[PlatformProcess]:
    with platform_with(KEYED) as platform:
        yield platform


@pytest.fixture
def unkeyed() -> Iterator[PlatformProcess]:
    with platform_with(UNKEYED) as platform:
        yield platform


@pytest.fixture(scope="module")
def delivered_once(tmp_path_factory: pytest.TempPathFactory) -> CommandFolder:
    """A ledger with a turn `t` whose second part is unknown; each test gets a copy."""
    with platform_with(UNKEYED) as platform:
        platform.add_faults(SECOND_IS_LOST)
        made = CommandFolder(tmp_path_factory.mktemp("delivered"), platform)
        assert made.deliver("--turn", "t").exit_code == 1
        return made


def copied(made: CommandFolder, folder: Path, platform: PlatformProcess | None = None) -> CommandFolder:
    for path in made.folder.glob("ledger.db*"):
        if path.is_file():
            shutil.copy(path, folder)
    return CommandFolder(folder, platform)


@pytest.fixture
def known(delivered_once: CommandFolder, tmp_path: Path) -> CommandFolder:
    """The ledger, without a platform."""
    return copied(delivered_once, tmp_path)


@pytest.fixture
def sendable(delivered_once: CommandFolder, tmp_path: Path, unkeyed: PlatformProcess) -> CommandFolder:
    """The ledger, with an empty platform."""
    return copied(delivered_once, tmp_path, unkeyed)


def interrupted(folder: CommandFolder, *arguments: str, waits_for: str) -> None:
    """Deliver a turn that has to wait, and stop it then."""
    process = folder.start_deliver(*arguments)
    write_input(process, INPUT)
    read_until(process, waits_for)
    process.terminate()
    finish(process)


def test_the_newest_are_listed_first_with_what_to_do(known: CommandFolder) -> None:
    done = known.deliveries("list")
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
        f"1 of them may not have arrived: `tailrace deliveries show t.2 --ledger {known.ledger}` says why, "
        f"`tailrace deliveries resend t.2 --ledger {known.ledger}` sends it again\n"
    )
    assert done.exit_code == 0


def test_without_a_command_and_a_ledger_it_lists_that_of_the_user(tmp_path: Path) -> None:
    folder = CommandFolder(tmp_path)
    empty = folder.run_on_default_ledger("deliveries")
    assert (empty.exit_code, empty.out) == (0, "")
    assert empty.err.startswith(
        f"there is no ledger at {tmp_path / 'tailrace' / 'ledger.db'}: nothing was delivered yet"
    )
    assert list(tmp_path.iterdir()) == []
    folder.run_on_default_ledger("deliver", "--channel", "terminal", "--to", "me", "--turn", "t", given=INPUT)
    assert "t.1  delivered  terminal:me" in folder.run_on_default_ledger("deliveries").out


def test_options_may_stand_before_the_command_or_behind_it(known: CommandFolder) -> None:
    listed = known.deliveries("list", "--json", "--state", "delivered", "--turn", "t").out
    assert listed.count("delivered") == 4
    assert known.deliveries("--json", "--state", "delivered", "--turn", "t").out == listed
    assert known.deliveries("--state", "delivered", "list", "--json", "--turn", "t").out == listed
    assert known.deliveries("--turn", "list", "--state", "unknown").err.startswith("no delivery matches")
    assert "there is no delivery 'x.1'" in known.deliveries("--json", "show", "x.1").err
    assert "Usage: tailrace deliveries " in run_here("deliveries", "--help").out
    unknown = run_here("deliveries", "--json", "foo")
    assert (unknown.exit_code, "no such command 'foo'" in unknown.err) == (2, True)


@pytest.mark.parametrize("command", [("list",), ("resume",), ("purge", "--all"), ("purge", "--all", "--dry-run")])
def test_without_a_ledger_none_is_made(tmp_path: Path, command: tuple[str, ...]) -> None:
    folder = CommandFolder(tmp_path)
    for _ in range(2):
        done = folder.deliveries(*command)
        assert (done.exit_code, done.out) == (0, "")
        assert done.err == (
            f"there is no ledger at {folder.ledger}: nothing was delivered yet, or it is elsewhere (--ledger PATH)\n"
        )
        assert [path.name for path in tmp_path.iterdir() if path != folder.ledger] == []
        folder.ledger.touch()


@pytest.mark.parametrize("command", [("show", "t.1"), ("resend", "t.1"), ("resend", "--adopt")])
def test_a_command_that_needs_a_ledger_refuses_to_run_without(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = CommandFolder(tmp_path).deliveries(*command)
    assert (done.exit_code, done.err.startswith("tailrace: there is no ledger at ")) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_ledger_says_so(tmp_path: Path) -> None:
    folder = CommandFolder(tmp_path)
    folder.run("deliver", "--channel", "terminal", "--to", "me", given=lines({"type": "turn_started"}, COMPLETED))
    done = folder.deliveries("list")
    assert (done.exit_code, done.out, done.err) == (0, "", "no delivery matches, or there is none yet\n")
    assert folder.rows() == []


def test_filters_select_by_state_turn_chat_and_age(sendable: CommandFolder) -> None:
    sendable.deliver("--turn", "u", "--thread", "7", given=lines(text("Elsewhere."), COMPLETED))
    assert set(sendable.states("--state", "unknown", "--state", "failed")) == {"t.2"}
    assert set(sendable.states("--turn", "u")) == {"u.1"}
    assert set(sendable.states("--to", "simulated:room#7")) == {"u.1"}
    assert "u.1" not in sendable.states("--to", "simulated:room")
    assert sendable.states("--channel", "terminal") == {}
    assert sendable.states("--older-than", "1h") == {}
    assert len(sendable.states("--older-than", "0s")) == 6
    assert sendable.states("--state", "open") == {}
    few = sendable.deliveries("list", "--limit", "2")
    assert len(few.out.splitlines()) == 3
    assert few.err.startswith("there are more: --limit 4 shows further back\n")


def test_as_json_a_listed_delivery_is_an_object(known: CommandFolder) -> None:
    [unknown] = known.rows("--state", "unknown")
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
        (
            ("list", "--state", "lost"),
            "--state is 'lost': choose open, planned, sending, retry, ambiguous, delivered, ",
        ),
        (("show", "t.9"), "there is no delivery 't.9'. Did you mean t."),
        (("show", "t"), "t is a turn; its deliveries are t.1, t.2, t.0, t.3, t.4"),
        (("show", "zzzzzz"), "there is no delivery 'zzzzzz'. `tailrace deliveries list` shows those there are."),
        (("resend",), "say what to send again: either deliveries by ID, or options such as --state open or --turn ID"),
        (("resend", "t.2", "--state", "unknown"), "say what to send again"),
        (("resend", "t.9"), "there is no delivery 't.9'. Did you mean t."),
        (("resume", "--channel", "simulatd"), "there is no channel 'simulatd'. Did you mean 'simulated'?"),
        (("purge",), "say what to delete: --older-than 30d, --turn ID, or --all for everything that is finished;"),
        (("purge", "--state", "failed"), "say what to delete: --older-than 30d"),
        (("purge", "--all", "--older-than", "1d"), "--all and --older-than contradict each other: leave one out"),
        (("purge", "--all", "--state", "open"), "open deliveries are never deleted"),
    ],
)
def test_wrong_use_is_one_line_and_changes_nothing(
    known: CommandFolder, arguments: tuple[str, ...], complaint: str
) -> None:
    before = known.states()
    done = known.deliveries(*arguments)
    assert done.exit_code == 2
    assert complaint in done.err
    assert "Traceback" not in done.err
    assert known.states() == before


def test_show_prints_all_that_is_known(known: CommandFolder) -> None:
    done = known.deliveries("show", "t.2")
    facts, _, body = done.out.partition("\n\n")
    shown = {line[:9].strip(): line[10:] for line in facts.splitlines()}
    assert body == PARTS[1] + "\n"
    assert shown["state"] == "unknown"
    assert shown["to"] == "simulated:room"
    assert shown["error"] == "the connection was reset before the answer came"
    assert shown["policy"] == "unkeyed; on unknown hold, on dead skip"
    assert shown["made"].endswith(" ago)")
    assert "message" not in shown
    assert known.deliveries("show", "t.1").out.splitlines()[4] == "message   m1"
    [everything] = known.deliveries("show", "t.2", "--json").objects
    assert everything["operation"]["body"]["text"] == PARTS[1]
    assert everything["policy"]["idempotency"] == {"kind": "unkeyed"}
    assert (everything["receipt"], everything["key"] != "") == (None, True)
    assert everything["first_try_at"] == everything["last_try_at"] >= everything["created_at"]


def test_control_characters_are_shown_and_a_long_text_is_one_line_of_json(tmp_path: Path) -> None:
    folder = CommandFolder(tmp_path)
    given = lines(text("one\x1b[2J\ntwo\u202e " + ANSWER * 3), COMPLETED)
    folder.run("deliver", "--channel", "terminal", "--to", "me", "--turn", "t", given=given)
    assert "  one␛[2J two\\u202e Paragraph 1. " in folder.deliveries("list").out.splitlines()[1]
    assert "\n\none␛[2J\ntwo\\u202e Paragraph 1. " in folder.deliveries("show", "t.1").out
    [line] = folder.deliveries("list", "--json").out.splitlines()
    assert json.loads(line)["text"].endswith((ANSWER * 3).strip())


def test_an_unknown_part_is_sent_again_once_and_then_only_by_its_new_id(
    sendable: CommandFolder, unkeyed: PlatformProcess
) -> None:
    first = sendable.run("deliveries", "resend", "--state", "unknown")
    assert (first.exit_code, first.err) == (0, "")
    assert first.out == "sent t.2 again, as t/resend.2 (message m1)\n"
    assert unkeyed.texts("room") == [PARTS[1]]
    second = sendable.run("deliveries", "resend", "t.2")
    assert (second.exit_code, second.out) == (0, "")
    assert second.err == (
        "t.2 was sent again already, as t/resend.2, which is delivered; "
        f"`tailrace deliveries resend t/resend.2 --ledger {sendable.ledger}` sends it once more\n"
    )
    assert len(unkeyed.history("room")) == 1
    third = sendable.run("deliveries", "resend", "t/resend.2", "--json")
    [row] = third.objects
    assert (row["id"], row["again_of"], row["state"]) == ("t/resend/resend.2", "t/resend.2", "delivered")
    assert "may not have arrived" not in sendable.deliveries("list", "--state", "unknown").err


def test_what_cannot_be_sent_again_is_explained(sendable: CommandFolder, unkeyed: PlatformProcess) -> None:
    unkeyed.add_faults(Refuse(reason="the chat is gone"))
    refused = sendable.run("deliveries", "resend", "t.2")
    assert refused.exit_code == 1
    assert refused.err.splitlines() == [
        "tried to send t.2 again, as t/resend.2, which is failed: the chat is gone",
        "tailrace: 1 of 1 may not have arrived",
    ]
    unkeyed.close_port()
    unreachable = sendable.run("deliveries", "resend", "t/resend.2")
    assert unreachable.exit_code == 1
    assert unreachable.err.splitlines() == [
        "tailrace: the channel 'simulated' cannot be started: the platform could not be reached",
        "tailrace: 1 of 1 may not have arrived",
    ]
    unkeyed.open_port()
    sendable.deliveries("purge", "--all", "--bodies")
    deleted = sendable.run("deliveries", "resend", "t/resend.2")
    assert deleted.exit_code == 1
    assert deleted.err.startswith("t/resend.2 cannot be sent again: its text was deleted")
    assert sendable.deliveries("show", "t.2").out.endswith("\n(its text was deleted)\n")


def test_nothing_to_send_again_is_no_failure(known: CommandFolder) -> None:
    done = known.deliveries("resend", "--state", "dead")
    assert (done.exit_code, done.err) == (0, "no delivery matches: nothing was sent\n")


def test_open_ones_are_finished(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(Rule(fault=NoAnswer(), kind="post", at=2))
    process = folder.start_deliver("--turn", "t")
    write_input(process, INPUT)
    keyed.wait(calls=2)
    process.kill()
    finish(process)
    assert list(folder.states("--state", "open").values()) == ["sending", "planned", "planned"]
    done = folder.run("deliveries", "resend", "--state", "open")
    assert done.out.splitlines() == [f"sent t.{number} (message m{number})" for number in (2, 3, 4)]
    assert (done.exit_code, keyed.texts("room")) == (0, PARTS)


def test_what_is_not_due_yet_stays_open(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(WAITS_20_MIN)
    interrupted(folder, "--turn", "t", waits_for="part 1")
    done = folder.run("deliveries", "resend", "t.1")
    assert (done.exit_code, keyed.texts("room")) == (1, [])
    assert done.err.startswith("t.1 still waits until ")
    assert ", as retry: too many requests\n" in done.err
    waits, summary = folder.deliveries("resume").err.splitlines()
    assert (waits.startswith("simulated:room still waits until "), waits.endswith(", as retry")) == (True, True)
    assert summary == "tailrace: 1 conversation is not finished; the same command goes on later"
    elsewhere = folder.deliveries("resume", "--channel", "terminal")
    assert (elsewhere.exit_code, elsewhere.err) == (0, "nothing is left open\n")
    keyed.close_port()
    unreachable = folder.deliveries("resume")
    assert (unreachable.exit_code, "the platform could not be reached" in unreachable.err) == (1, True)


def test_resume_waits_for_retries_and_sends_what_is_open(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(Rule(fault=TooMany(retry_after=6), kind="post", at=2))
    interrupted(folder, "--turn", "t", waits_for="part 2")
    done = folder.deliveries("resume", "--json")
    assert [row["id"] for row in done.objects] == ["t.2", "t.3", "t.4"]
    assert (done.exit_code, keyed.texts("room")) == (0, PARTS)


def test_conversations_are_sent_at_the_same_time_and_stopped(sendable: CommandFolder, unkeyed: PlatformProcess) -> None:
    for thread in range(3):
        unkeyed.add_faults(Refuse())
        sendable.deliver("--turn", f"u{thread}", "--thread", str(thread), given=lines(text("x"), COMPLETED))
    unkeyed.add_faults(Rule(fault=WAITS_20_MIN, times=3))
    process = sendable.start("deliveries", "resend", "--state", "failed")
    for _ in range(3):
        assert "/resend.1 is tried again in 20 min: too many requests" in read_until(process, "tried again")
    process.terminate()
    done = finish(process)
    assert done.exit_code == 1
    assert done.err.endswith("tailrace: 3 of 3 may not have arrived\n")
    assert len(sendable.states("--state", "retry")) == 3


def test_reading_works_while_another_process_has_the_ledger_and_writing_does_not(
    sendable: CommandFolder, unkeyed: PlatformProcess
) -> None:
    unkeyed.add_faults(NoAnswer())
    process = sendable.start_deliver("--turn", "u")
    write_input(process, INPUT)
    unkeyed.wait(calls=1, kind="post")
    assert sendable.states("--turn", "u")["u.1"] == "sending"
    assert sendable.deliveries("show", "u.1").exit_code == 0
    assert sendable.deliveries("purge", "--all", "--dry-run").exit_code == 0
    in_use = f"tailrace: {sendable.ledger} is in use by process {process.pid}"
    done = sendable.deliver("--turn", "v")
    assert done.exit_code == 1
    assert done.err.startswith(f"{in_use}, such as a gateway. Nothing was sent: name another ledger")
    for command in (("resend", "t.2"), ("resend", "--adopt"), ("resume",), ("purge", "--all")):
        done = sendable.deliveries(*command)
        assert done.exit_code == 1
        assert done.err.startswith(f"{in_use}, and no gateway answers at {sendable.ledger}.sock. ")
        assert done.err.count("\n") == 1
    process.kill()
    finish(process)


def dump(ledger: Path) -> list[str]:
    with sqlite3.connect(ledger) as connection:
        return list(connection.iterdump())


def test_a_dry_run_counts_and_changes_nothing(known: CommandFolder) -> None:
    before = dump(known.ledger)
    for command, answer in [
        (("--all",), "would delete 5 deliveries; nothing was changed\n"),
        (("--all", "--state", "unknown"), "would delete 1 delivery; nothing was changed\n"),
        (("--older-than", "1h"), "would delete 0 deliveries; nothing was changed\n"),
        (("--turn", "t", "--bodies"), "would delete the text of 5 deliveries; nothing was changed\n"),
    ]:
        assert known.deliveries("purge", *command, "--dry-run").out == answer
    assert dump(known.ledger) == before


def test_what_is_finished_is_deleted_and_what_is_open_stays(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    folder.deliver("--turn", "t")
    keyed.add_faults(WAITS_20_MIN)
    interrupted(folder, "--turn", "u", waits_for="part 1")
    assert folder.deliveries("purge", "--all", "--dry-run").out.startswith("would delete 4 deliveries;")
    assert folder.deliveries("purge", "--older-than", "1d").out == "deleted 0 deliveries\n"
    assert folder.deliveries("purge", "--all").out == "deleted 4 deliveries\n"
    assert set(folder.states().values()) <= {"retry", "planned"}
    assert "u.1" in folder.states()


def test_the_texts_alone_are_deleted(known: CommandFolder) -> None:
    assert known.deliveries("purge", "--turn", "t", "--bodies").out == "deleted the text of 5 deliveries\n"
    again = known.deliveries("purge", "--turn", "t", "--bodies", "--dry-run")
    assert again.out.startswith("would delete the text of 0")
    assert {row["text"] for row in known.rows()} == {""}
    assert "wheel" not in "".join(dump(known.ledger))


def test_a_restored_ledger_is_refused_until_it_is_adopted(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(Rule(fault=WAITS_20_MIN, kind="post", at=2))
    interrupted(folder, "--turn", "t", waits_for="part 2")
    copy = shutil.copy(folder.ledger, tmp_path / "copy.db")
    folder.deliver("--turn", "u", "--thread", "1")
    shutil.copy(copy, folder.ledger)
    refused = folder.deliver("--turn", "t")
    assert refused.exit_code == 1
    assert "run `tailrace deliveries resend --adopt` to use what is left" in refused.err
    adopted = folder.run("deliveries", "resend", "--adopt")
    assert adopted.err.startswith(f"{folder.ledger} can be used again; its open deliveries may have been sent\n")
    assert folder.deliver("--turn", "t").exit_code == 0
    assert [message.text for message in keyed.history("room") if message.thread is None] == PARTS
    again = folder.run("deliveries", "resend", "--adopt")
    assert (again.exit_code, again.err.splitlines()[1:]) == (0, ["no delivery matches: nothing was sent"])


def test_a_file_that_is_no_ledger_is_not_touched(tmp_path: Path) -> None:
    folder = CommandFolder(tmp_path)
    folder.ledger.write_bytes(b"something else entirely" * 100)
    for command in (("list",), ("resend", "--adopt"), ("resume",), ("purge", "--all")):
        done = folder.deliveries(*command)
        assert (done.exit_code, done.err.count("\n"), "Traceback" in done.err) == (1, 1, False)
        assert done.err.startswith(f"tailrace: {folder.ledger} is damaged or not a ledger")
    assert "Traceback" in folder.deliveries("list", "--debug").err
    assert folder.ledger.read_bytes() == b"something else entirely" * 100


def test_a_damaged_row_is_reported_and_the_others_are_listed(known: CommandFolder) -> None:
    before = known.rows()
    damaged = before[0]["id"]
    with sqlite3.connect(known.ledger) as connection:
        turn_id, _, ordinal = damaged.rpartition(".")
        connection.execute("UPDATE delivery SET operation = '{' WHERE turn_id = ? AND ordinal = ?", (turn_id, ordinal))
    connection.close()
    for options in ((), ("--json",)):
        done = known.deliveries("list", *options)
        assert done.exit_code == 1
        complaint = f"tailrace: {known.ledger}: the row of delivery {damaged} is damaged and is not sent."
        assert done.err.splitlines()[-1].startswith(complaint)
    assert [row["id"] for row in done.objects[::-1]] == [row["id"] for row in before[1:]]


def test_at_a_terminal_the_list_is_a_table_that_fits(known: CommandFolder) -> None:
    command = (TAILRACE, "deliveries", "list", "--ledger", str(known.ledger))
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
