"""`tailrace deliver` and `tailrace deliveries resume` after a turn was interrupted: by kill -9, or by a cut input."""

from __future__ import annotations

import os
import subprocess
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
    Done,
    finish,
    lines,
    platform_with,
    read_until,
    text,
    write_input,
)
from tailrace.capabilities import Readback
from tailrace.testing.faults import LoseAccess, NoAnswer, Reset, Rule, TooMany
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INTERRUPTED = "⚠️ The answer was interrupted here."
TWO_PARTS = lines(text(ANSWER[:250]))  # and some text of the third
SHORT = lines(text("Another answer."), COMPLETED)


@pytest.fixture
def keyed() -> Iterator[PlatformProcess]:
    with platform_with(KEYED) as platform:
        yield platform


def deliver(folder: CommandFolder, *arguments: str, given: bytes = INPUT) -> Done:
    """Run `tailrace deliver` in a process of its own."""
    return finish(folder.start_deliver(*arguments), given)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    finish(process)


def interrupt_after_two_parts(folder: CommandFolder, turn: str) -> None:
    """Kill a turn that is idle after its second part."""
    process = folder.start_deliver("--turn", turn)
    write_input(process, TWO_PARTS)
    read_until(process, "part 2 sent")
    kill(process)


def test_a_turn_that_was_killed_while_a_retry_waits_is_resumed(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(Rule(fault=TooMany(retry_after=6), kind="post", at=2))
    process = folder.start_deliver("--turn", "t")
    write_input(process, INPUT)
    read_until(process, "part 2 is tried again")
    kill(process)
    assert deliver(folder, "--turn", "t").exit_code == 0
    assert keyed.texts("room") == PARTS


def test_a_turn_that_was_killed_while_a_part_is_looked_up_is_resumed(tmp_path: Path) -> None:
    with platform_with(Readback()) as platform:
        folder = CommandFolder(tmp_path, platform)
        platform.add_faults(Rule(fault=Reset(), kind="post", at=2), Rule(fault=NoAnswer(), kind="find"))
        process = folder.start_deliver("--turn", "t")
        write_input(process, INPUT)
        platform.wait(calls=1, kind="find")
        kill(process)
        assert deliver(folder, "--turn", "t").exit_code == 0
        assert platform.texts("room") == PARTS


def test_the_next_turn_closes_a_killed_one_which_then_stays_closed(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    interrupt_after_two_parts(folder, "t")
    other = deliver(folder, "--turn", "u", given=SHORT)
    assert other.exit_code == 0
    assert other.err.splitlines()[-3:] == [
        "the line about the interrupted turn t sent",
        "part 1 sent",
        "1 part delivered to simulated:room",
    ]
    shown = keyed.texts("room")
    assert (shown[:2], shown[-2:]) == (PARTS[:2], [INTERRUPTED, "Another answer."])
    assert all(PARTS[2].startswith(rest) for rest in shown[2:-2]), "the text that was saved"
    again = deliver(folder, "--turn", "t")
    assert again.exit_code == 1
    assert again.err == (
        "tailrace: turn t was interrupted, and a line in the chat says so: nothing more of it is sent. "
        "Choose another turn id.\n"
    )
    assert keyed.texts("room") == shown


def test_a_killed_turn_is_resumed_after_a_turn_elsewhere(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    interrupt_after_two_parts(folder, "t")
    assert deliver(folder, "--turn", "u", "--thread", "7", given=SHORT).exit_code == 0
    assert deliver(folder, "--turn", "t").exit_code == 0
    assert [message.text for message in keyed.history("room") if message.thread is None] == PARTS


def test_a_cut_input_leaves_the_turn_open_and_the_complete_one_continues_it(
    tmp_path: Path, keyed: PlatformProcess
) -> None:
    folder = CommandFolder(tmp_path, keyed)
    cut = deliver(folder, "--turn", "cut1", given=TWO_PARTS)
    assert (cut.exit_code, keyed.texts("room")) == (1, PARTS[:2])
    command = f"tailrace deliver --channel simulated --to room --turn cut1 --ledger {folder.ledger}"
    assert cut.err.splitlines()[-1] == (
        f"the input ended before the turn was over, so the turn stays open. Give the complete input to: {command}; "
        f"or close it: tailrace deliveries resume --ledger {folder.ledger}"
    )
    assert deliver(folder, "--turn", "cut1").exit_code == 0
    assert keyed.texts("room") == PARTS


def test_resume_closes_a_cut_turn_with_the_text_that_came(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    deliver(folder, "--turn", "t", given=TWO_PARTS)
    assert folder.deliveries("list", "--state", "open").out == ""
    done = finish(folder.start("deliveries", "resume"))
    assert done.exit_code == 0
    assert done.out.splitlines() == ["sent t.3 (message m3)", "sent t/interrupted.1 (message m4)"]
    assert keyed.texts("room") == [*PARTS[:2], ANSWER[:250].rpartition("\n\n")[2], INTERRUPTED]
    assert deliver(folder, "--turn", "t").exit_code == 1
    assert len(keyed.texts("room")) == 4


def test_the_turn_id_of_the_input_makes_the_same_file_one_answer(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    given = lines({"type": "turn_started", "turn_id": "from-input"}) + INPUT
    for _ in range(2):
        done = deliver(folder, given=given)
        assert (done.exit_code, "resumes it" in done.err) == (0, False)
    assert keyed.texts("room") == PARTS
    assert deliver(folder, "--turn", "other", given=given).exit_code == 0
    assert {row["turn_id"] for row in folder.rows()} == {"from-input", "other"}


def test_secrets_in_the_error_of_an_agent_reach_neither_chat_nor_ledger(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    message = "cannot connect to postgresql://app:hunter2@db/main\n  with sk-abcdefghijklmnopqrstu,\n  tried 3 times"
    given = lines({"type": "error", "message": message}, {"type": "turn_failed", "message": message, "code": "db"})
    done = deliver(folder, "--turn", "t", "--json", given=given)
    shown = "⚠️ cannot connect to postgresql://app:[redacted]@db/main with [redacted], tried 3 times"
    assert keyed.texts("room") == [shown, f"{shown} [db]"]
    written = done.out + done.err + "".join(path.read_bytes().decode("latin-1") for path in tmp_path.glob("ledger*"))
    assert "hunter2" not in written
    assert "sk-abc" not in written


def test_what_is_wrong_with_the_input_is_not_posted(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    done = deliver(folder, "--turn", "t", given=lines(text("So far.")) + b"not JSON\n" + lines(COMPLETED))
    assert keyed.texts("room") == ["So far.", "⚠️ The answer failed."]
    assert (done.exit_code, "line 2 of the input: this is not one JSON object: " in done.err) == (2, True)


def test_a_connection_that_is_lost_for_good_ends_the_command(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(Rule(fault=LoseAccess(everywhere=True), kind="poll", times=None))
    process = folder.start_deliver("--turn", "t")
    assert process.wait(timeout=30) == 1
    lost = "tailrace: the channel 'simulated' has lost its connection: the token was revoked\n"
    assert finish(process).err == lost


def test_a_reader_who_has_left_is_no_traceback(tmp_path: Path) -> None:
    with platform_with(UNKEYED) as platform:
        folder = CommandFolder(tmp_path, platform)
        platform.add_faults(Rule(fault=Reset(), kind="post", at=2))
        deliver(folder, "--turn", "t")
        deliver(folder, "--turn", "cut", given=TWO_PARTS)
        for command in (
            *("list", "list --json", "show t.2", "resume", "resend t.2", "resend t/resend.2 --json", "purge --all"),
        ):
            reading, writing = os.pipe()
            os.close(reading)
            process = folder.start("deliveries", *command.split(), output=writing)
            os.close(writing)
            done = finish(process)
            assert (done.exit_code, done.err in {"", "nothing is left open\n"}) == (1, True), f"{command}: {done.err}"
        assert platform.texts("room").count(PARTS[1]) == 4, "what was to be sent was sent"
