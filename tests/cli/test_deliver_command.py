"""`tailrace deliver`: what people see in the chat, what its caller reads, and that nothing is lost or doubled."""

from __future__ import annotations

import re
import signal
import subprocess
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
    CommandFolder,
    finish,
    lines,
    platform_with,
    read_until,
    text,
    write_input,
)
from pseudo_terminal import TAILRACE, Person
from tailrace.capabilities import Readback
from tailrace.testing.faults import NoAnswer, Refuse, Reset, Rule, TooMany
from tailrace.testing.platform_process import PlatformProcess

NO_ANSWER_TO_SECOND = Rule(fault=NoAnswer(), kind="post", at=2)


@pytest.fixture
def keyed() -> Iterator[PlatformProcess]:
    with platform_with(KEYED) as platform:
        yield platform


@pytest.fixture
def unkeyed() -> Iterator[PlatformProcess]:
    with platform_with(UNKEYED) as platform:
        yield platform


def test_an_answer_arrives_whole_and_in_order(tmp_path: Path, keyed: PlatformProcess) -> None:
    done = CommandFolder(tmp_path, keyed).deliver("--turn", "t")
    assert keyed.texts("room") == PARTS
    assert len(PARTS) == 4
    assert (done.exit_code, done.out) == (0, "")
    assert done.err.splitlines() == [
        *(f"part {number} sent" for number in range(1, 5)),
        "4 parts delivered to simulated:room",
    ]


def test_a_turn_without_an_id_gets_one_that_resumes_it(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    first = folder.deliver()
    named = re.match(r"turn (\w+) \(--turn \1 resumes it\)\n", first.err)
    assert named is not None
    again = folder.deliver("--turn", named[1])
    assert again.exit_code == 0
    assert again.err.splitlines() == [
        *(f"part {number} sent earlier" for number in range(1, 5)),
        "4 parts delivered to simulated:room",
    ]
    assert keyed.texts("room") == PARTS


def test_parts_are_sent_while_the_input_still_comes(tmp_path: Path, keyed: PlatformProcess) -> None:
    process = CommandFolder(tmp_path, keyed).start_deliver("--turn", "t")
    write_input(process, lines(text(ANSWER[:250])))
    assert keyed.wait(messages=1).messages[0].text == PARTS[0]
    assert finish(process, lines(text(ANSWER[250:]), COMPLETED)).exit_code == 0
    assert keyed.texts("room") == PARTS


def test_a_thread_is_a_conversation_of_its_own(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    done = folder.deliver("--thread", "7", "--turn", "t")
    assert done.err.endswith("4 parts delivered to simulated:room#7\n")
    assert {message.thread for message in keyed.history("room")} == {"7"}
    assert folder.rows()[0]["thread"] == "7"


def test_killed_in_the_middle_and_resumed_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    with platform_with(Readback()) as platform:
        folder = CommandFolder(tmp_path, platform)
        platform.add_faults(NO_ANSWER_TO_SECOND)
        process = folder.start_deliver("--turn", "t")
        write_input(process, INPUT)
        platform.wait(calls=2, kind="post")
        process.kill()
        finish(process)
        done = folder.deliver("--turn", "t")
        assert platform.texts("room") == PARTS
        assert (done.exit_code, platform.account().complaints) == (0, [])


def test_killed_without_keys_the_part_is_held_and_reported(tmp_path: Path, unkeyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, unkeyed)
    unkeyed.add_faults(NO_ANSWER_TO_SECOND)
    process = folder.start_deliver("--turn", "t")
    write_input(process, INPUT)
    unkeyed.wait(calls=2, kind="post")
    process.kill()
    finish(process)
    done = folder.deliver("--turn", "t")
    assert done.exit_code == 1
    assert [text for text in unkeyed.texts("room") if not text.startswith("⚠️")] == PARTS
    assert "part 2 may be missing: it is not known whether it arrived" in done.err
    assert f"tailrace deliveries resend t.2 --ledger {folder.ledger}" in done.err


def test_the_line_about_a_missing_part_is_sent_before_the_command_ends(
    tmp_path: Path, unkeyed: PlatformProcess
) -> None:
    unkeyed.add_faults(Rule(fault=Refuse(), kind="post", at=4))
    folder = CommandFolder(tmp_path, unkeyed)
    assert folder.deliver("--turn", "t").exit_code == 1
    assert unkeyed.texts("room") == [*PARTS[:3], "⚠️ Part 4 of this answer is missing."]
    assert folder.states()["t.0"] == "delivered"


def test_a_refused_part_is_reported_and_can_be_sent_again(tmp_path: Path, unkeyed: PlatformProcess) -> None:
    unkeyed.add_faults(Rule(fault=Refuse(reason="the bot was blocked"), kind="post", at=2))
    folder = CommandFolder(tmp_path, unkeyed)
    done = folder.deliver("--turn", "t")
    assert done.exit_code == 1
    assert "part 2 refused: the bot was blocked" in done.err.splitlines()
    assert "of 4 parts to simulated:room, part 2 was refused. Send again" in done.err
    again = folder.run("deliveries", "resend", "t.2")
    assert (again.exit_code, unkeyed.texts("room")[-1]) == (0, PARTS[1])


def test_with_on_unknown_resend_an_unknown_part_is_sent_again(tmp_path: Path, unkeyed: PlatformProcess) -> None:
    unkeyed.add_faults(Rule(fault=Reset(), kind="post", at=2))
    done = CommandFolder(tmp_path, unkeyed).deliver("--turn", "t", "--on-unknown", "resend")
    assert unkeyed.texts("room") == [PARTS[0], PARTS[1], *PARTS[1:]]
    assert done.exit_code == 0
    assert done.err.endswith("4 parts delivered to simulated:room; may be there twice: 2\n")


def test_with_on_dead_halt_nothing_is_sent_after_a_missing_part(tmp_path: Path, unkeyed: PlatformProcess) -> None:
    unkeyed.add_faults(Rule(fault=Refuse(), kind="post", at=2))
    folder = CommandFolder(tmp_path, unkeyed)
    done = folder.deliver("--turn", "t", "--on-dead", "halt")
    assert done.exit_code == 1
    assert unkeyed.texts("room") == [PARTS[0], "⚠️ Part 2 of this answer is missing."]
    assert "part 2 was refused; each of parts 3 to 4 was left out" in done.err
    assert "tailrace deliveries resend t.2 t.3 t.4" in done.err


def test_a_delivered_turn_refuses_another_text_and_another_chat(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    folder.deliver("--turn", "t")
    for other_text in ("Another answer.", ANSWER[: len(PARTS[0])], f"{ANSWER}\n\nAnd more."):
        other = folder.deliver("--turn", "t", given=lines(text(other_text), COMPLETED))
        assert (other.exit_code, "turn t was delivered with another text, or in" in other.err) == (2, True)
    elsewhere = folder.deliver("--turn", "t", "--thread", "9")
    assert elsewhere.exit_code == 2
    assert "turn t goes to simulated:room: name that chat, or choose another turn id" in elsewhere.err
    assert keyed.texts("room") == PARTS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_a_signal_stops_it_with_what_is_left_and_how_to_resume(
    tmp_path: Path, keyed: PlatformProcess, number: signal.Signals
) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(Rule(fault=TooMany(retry_after=1200), kind="post", at=2))
    process = folder.start_deliver("--turn", "t", "--json")
    write_input(process, INPUT)
    assert read_until(process, "part 2") == "part 2 is tried again in 20 min: too many requests"
    process.send_signal(number)
    done = finish(process)
    assert done.exit_code == 1
    assert "of 4 parts to simulated:room, each of parts 2 to 4 is not sent yet" in done.err
    resume = f"tailrace deliver --channel simulated --to room --turn t --ledger {folder.ledger}"
    assert done.err.endswith(f"to resume, give the same input to: {resume}\n")
    assert [row["state"] for row in done.objects] == ["delivered", "retry", "planned", "planned"]


def test_stopped_while_the_input_still_comes_it_can_be_resumed(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    process = folder.start_deliver("--turn", "t")
    write_input(process, lines(text(ANSWER[:250])))
    keyed.wait(messages=1)
    process.terminate()
    assert process.wait(timeout=30) == 1
    finish(process)
    assert folder.deliver("--turn", "t").exit_code == 0
    assert keyed.texts("room") == PARTS


def test_a_second_signal_ends_it_at_once_and_it_can_be_resumed(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(NO_ANSWER_TO_SECOND)
    process = folder.start_deliver("--turn", "t")
    write_input(process, INPUT)
    keyed.wait(calls=2, kind="post")
    process.terminate()
    read_until(process, "stopping")
    process.terminate()
    done = finish(process)
    assert (done.exit_code, "tailrace: ended at once; to resume, run again with the same input" in done.err) == (
        1,
        True,
    )
    assert folder.deliver("--turn", "t").exit_code == 0
    assert keyed.texts("room") == PARTS


def test_what_an_earlier_turn_left_open_in_the_chat_is_sent_first(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(Rule(fault=NoAnswer(applied=False), kind="post"))
    process = folder.start_deliver("--turn", "before")
    write_input(process, lines(text("The earlier answer."), COMPLETED))
    keyed.wait(calls=1)
    process.kill()
    finish(process)
    done = folder.deliver("--turn", "t", given=lines(text("The later one."), COMPLETED))
    assert keyed.texts("room") == ["The earlier answer.", "The later one."]
    assert done.exit_code == 0
    assert done.err.splitlines()[-3:] == [
        "before.1 (from before) sent",
        "part 1 sent",
        "1 part delivered to simulated:room",
    ]


def test_open_deliveries_of_other_conversations_are_mentioned(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    keyed.add_faults(NoAnswer(applied=False))
    process = folder.start_deliver("--turn", "before", "--thread", "2")
    write_input(process, INPUT)
    keyed.wait(calls=1)
    process.kill()
    finish(process)
    done = folder.deliver("--turn", "t")
    assert done.err.startswith(
        "another conversation has deliveries that are not finished; "
        f"`tailrace deliveries resume --ledger {folder.ledger}` finishes them\n"
    )
    assert keyed.texts("room") == PARTS
    assert folder.run("deliveries", "resend", "--state", "open").exit_code == 0
    assert keyed.texts("room") == [*PARTS, *PARTS]


def test_tools_are_not_posted_and_media_and_errors_keep_their_order(tmp_path: Path, keyed: PlatformProcess) -> None:
    events = lines(
        text("Looking."),
        {"type": "tool_started", "id": "1", "name": "grep"},
        {"type": "tool_finished", "id": "1", "result": "secret"},
        text("Here it is."),
        {"type": "media", "url": "https://example.org/a.png", "caption": "The mill"},
        {"type": "error", "message": "slow", "code": "busy"},
        text("That is all."),
        COMPLETED,
        {"type": "tool_output", "data": "late"},
    )
    assert CommandFolder(tmp_path, keyed).deliver("--turn", "t", given=events).exit_code == 0
    looking, here, media, *rest = keyed.history("room")
    assert [looking.text, here.text, media.text] == ["Looking.", "Here it is.", "The mill"]
    assert [message.text for message in rest] == ["⚠️ slow [busy]", "That is all."]
    assert "a.png" in media.media


def test_a_file_is_sent_from_a_copy_that_is_gone_afterwards(tmp_path: Path, keyed: PlatformProcess) -> None:
    picture = tmp_path / "mill.png"
    picture.write_bytes(b"picture")
    folder = CommandFolder(tmp_path, keyed)
    events = lines({"type": "media", "path": str(picture), "caption": "The mill"}, COMPLETED)
    assert folder.deliver("--turn", "t", given=events).exit_code == 0
    [message] = keyed.history("room")
    assert Path(message.media).parent == tmp_path / "ledger.db.spool"
    assert list((tmp_path / "ledger.db.spool").iterdir()) == []


@pytest.mark.parametrize(
    ("given", "chat", "exit_code", "last_line"),
    [
        (lines({"type": "turn_started"}, COMPLETED), "", 0, "nothing was sent to simulated:room: the answer is empty"),
        (
            lines(text("So far."), {"type": "turn_failed", "message": "no credit", "code": "quota"}),
            *("So far. ⚠️ no credit [quota]", 0, "2 parts delivered to simulated:room"),
        ),
        (
            lines(text("So far.")).rstrip(),
            *("", 1),
            "the input ended before the turn was over, so the turn stays open.* --to room --turn t --ledger .*",
        ),
        (
            lines(text("So far.")) + b"\n{]\n" + lines(COMPLETED),
            *("So far. ⚠️ The answer failed.", 2),
            "tailrace: line 3 of the input: this is not one JSON object: .* [malformed_json]",
        ),
        (INPUT + INPUT, " ".join(PARTS), 2, "tailrace: line 5 of the input: `text_delta` is out of order.*"),
    ],
    ids=["silent", "failed", "cut off", "bad line", "second turn"],
)
def test_the_end_of_the_input_decides_how_the_turn_ends(
    tmp_path: Path, keyed: PlatformProcess, given: bytes, chat: str, exit_code: int, last_line: str
) -> None:
    done = CommandFolder(tmp_path, keyed).deliver("--turn", "t", given=given)
    assert done.exit_code == exit_code
    assert matches(chat, " ".join(keyed.texts("room")))
    assert matches(last_line, done.err.splitlines()[-1])


def matches(pattern: str, found: str) -> bool:
    """Whether the text is this, where `.*` matches anything."""
    return re.fullmatch(re.escape(pattern).replace(r"\.\*", ".*"), found) is not None


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (b"", "nothing came on standard input: give it events, one JSON object per line"),
        (b"\n  \n", "nothing came on standard input: give it events, one JSON object per line"),
        (b"hello\n", "line 1 of the input: this is not one JSON object: "),
        (b'\xff\xfe"\n', "line 1 of the input: this is not one JSON object: "),
        (lines({"type": "turn_started"}, {"type": "text"}), "line 2 of the input: 'text' is no event type."),
    ],
    ids=["empty", "blank", "text", "bytes", "unknown"],
)
def test_an_input_that_is_wrong_from_the_start_sends_nothing(
    tmp_path: Path, keyed: PlatformProcess, given: bytes, complaint: str
) -> None:
    folder = CommandFolder(tmp_path, keyed)
    done = folder.deliver(given=given)
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.startswith(f"tailrace: {complaint}")
    assert done.err.count("\n") == 1
    assert (keyed.history(), folder.rows()) == ([], [])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--channel", "simulatd", "--to", "x"), "there is no channel 'simulatd'. Did you mean 'simulated'?"),
        (("--channel", "simulated", "--to", "x"), "TAILRACE_SIMULATOR is not the address of a platform"),
        (("--channel", "terminal", "--to", " "), "--to is ' ': use at least one visible character"),
        (("--channel", "terminal", "--to", "x", "--turn", "a\x1bb"), "--turn is 'a\\x1bb': use at least one visible"),
        (("--channel", "terminal"), "missing option '--to'"),
        (
            ("--channel", "terminal", "--to", "x", "--presentation", "lively"),
            "is not one of 'tokens', 'live'",
        ),
        (("--channel", "terminal", "--to", "x", "--on-unknown", "guess"), "invalid value for '--on-unknown'"),
    ],
)
def test_wrong_use_is_refused_and_no_ledger_is_made(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    folder = CommandFolder(tmp_path)
    done = folder.run("deliver", *arguments, given=INPUT)
    assert done.exit_code == 2
    assert complaint in " ".join(done.err.replace("│", " ").split())
    assert "Traceback" not in done.err
    assert not folder.ledger.exists()


PLUGIN = """
from tailrace.capabilities import Capabilities, Unkeyed
class Odd:
    name = "odd"
class Channel:
    capabilities = Capabilities(idempotency=Unkeyed())
    def __init__(self, name): self.name = name
    async def start(self, inbox):
        if self.name == "closed": raise RuntimeError("no session for token=abcd1234")
    async def stop(self): raise LookupError("already stopped")
    async def wait_closed(self): raise ValueError
    async def post(self, post, *, key): raise NotImplementedError
def broken(): raise KeyError("token")
def closed(): return Channel("closed")
def lost(): return Channel("lost")
"""


def test_a_plugin_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "odd.py").write_text(PLUGIN)
    meta = tmp_path / "odd-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    names = ("odd:Odd", "broken:broken", "closed:closed", "lost:lost")
    entries = "".join(f"{name.partition(':')[0]} = odd:{name.partition(':')[2]}\n" for name in names)
    (meta / "entry_points.txt").write_text(f"[tailrace.channels]\n{entries}")
    folder = CommandFolder(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, exit_code, error in (
        ("odd", 2, "the channel 'odd' cannot send: it must have all members of .*"),
        ("broken", 2, "the channel 'broken' cannot be created: KeyError: 'token'"),
        ("closed", 1, "the channel 'closed' cannot be started: RuntimeError: no session for token=[redacted]"),
        ("lost", 1, "the channel 'lost' has lost its connection: ValueError"),
    ):
        done = folder.run("deliver", "--channel", name, "--to", "x", given=INPUT)
        assert done.exit_code == exit_code
        assert matches(f"tailrace: {error}", done.err.splitlines()[-1])
        assert "Traceback" not in done.err


def test_a_platform_that_cannot_be_reached_at_the_start(tmp_path: Path, keyed: PlatformProcess) -> None:
    keyed.close_port()
    done = CommandFolder(tmp_path, keyed).deliver()
    expected = "tailrace: the channel 'simulated' cannot be started: the platform could not be reached\n"
    assert (done.exit_code, done.err) == (1, expected)
    shown = CommandFolder(tmp_path, keyed).deliver("--debug")
    assert "Traceback" in shown.err


def test_as_json_each_delivery_is_an_object(tmp_path: Path, unkeyed: PlatformProcess) -> None:
    unkeyed.add_faults(Rule(fault=Reset(), kind="post", at=2))
    folder = CommandFolder(tmp_path, unkeyed)
    done = folder.deliver("--turn", "t", "--json")
    assert done.exit_code == 1
    first, unknown, notice, *_ = done.objects
    assert first == {
        "id": "t.1",
        "state": "delivered",
        "attempt": 1,
        "message_id": "m1",
        "error": "",
        "may_be_double": False,
    }
    assert (unknown["id"], unknown["state"], unknown["message_id"]) == ("t.2", "unknown", None)
    assert unknown["error"] == "the connection was reset before the answer came"
    assert (notice["id"], notice["state"]) == ("t.0", "delivered")
    again = folder.deliver("--turn", "t", "--json")
    assert [row["state"] for row in again.objects] == ["delivered", "unknown", "delivered", "delivered"]


def test_a_reader_who_leaves_does_not_stop_the_deliveries(tmp_path: Path, keyed: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, keyed)
    command = f'"{TAILRACE}" deliver --channel simulated --to room --json --ledger l.db | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(
        ["bash", "-c", command], input=INPUT, env=folder.env, cwd=tmp_path, capture_output=True, check=False, timeout=60
    )
    assert keyed.texts("room") == PARTS
    assert (done.returncode, b"Traceback" in done.stderr, b"Exception" in done.stderr) == (1, False, False)


def test_the_terminal_as_a_channel_in_a_pipe(tmp_path: Path) -> None:
    folder = CommandFolder(tmp_path)
    done = folder.run(
        *("deliver", "--channel", "terminal", "--to", "me", "--turn", "t"),
        given=lines(text("A \x1b[31mred\x07 word."), {"type": "error", "message": "late"}, text("The end."), COMPLETED),
    )
    assert done.out == "A ␛[31mred␇ word.\n\n⚠️ late\n\nThe end.\n"
    assert done.exit_code == 0
    as_json = folder.run("deliver", "--channel", "terminal", "--to", "me", "--json", given=lines(text("x"), COMPLETED))
    assert [row["state"] for row in as_json.objects] == ["delivered"]


def test_the_terminal_as_a_channel_whose_reader_has_left(tmp_path: Path) -> None:
    folder = CommandFolder(tmp_path)
    command = f'"{TAILRACE}" deliver --channel terminal --to me --turn t --ledger "{folder.ledger}" | true'
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        input=INPUT,
        env=folder.env,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert b"part 1 refused: the reader of the output has closed it: Broken pipe" in done.stderr
    assert folder.states()["t.1"] == "failed"


def test_at_a_terminal_one_line_says_how_far_it_is(tmp_path: Path, unkeyed: PlatformProcess) -> None:
    (tmp_path / "in.ndjson").write_bytes(INPUT)
    folder = CommandFolder(tmp_path, unkeyed)
    unkeyed.add_faults(Rule(fault=TooMany(retry_after=1200), kind="post", at=2))
    command = f'"{TAILRACE}" deliver --channel simulated --to room --turn t --ledger l.db < in.ndjson'
    with Person("sh", "-c", f"exec {command}", env=folder.env, cwd=tmp_path) as person:
        person.until(lambda: person.lines() == ["part 2 is tried again in 20 min: too many requests"], "the wait")
        person.type("\x03")
        assert person.leaves() == 1
        assert person.all_text().startswith("stopping: an answer to what is being sent may take some seconds")
    unkeyed.add_faults(Rule(fault=Refuse(), kind="post", at=2))
    with Person("sh", "-c", f"exec {command.replace('turn t', 'turn u').replace('l.db', 'm.db')}",
                env=folder.env, cwd=tmp_path, columns=200) as person:  # fmt: skip
        assert person.leaves() == 1
        refused, summary = person.lines()
        assert refused == "part 2 refused: the bot was blocked"
        assert summary.startswith(
            "tailrace: of 4 parts to simulated:room, part 2 was refused. Send again what is missing:"
        )


def test_at_a_terminal_messages_to_it_are_all_that_is_seen(tmp_path: Path) -> None:
    (tmp_path / "in.ndjson").write_bytes(lines(text("First."), {"type": "error", "message": "late"}, COMPLETED))
    command = f'exec "{TAILRACE}" deliver --channel terminal --to me --turn t --ledger l.db < in.ndjson'
    with Person("sh", "-c", command, cwd=tmp_path) as person:
        assert person.leaves() == 0
        assert person.raw.decode() == "First.\r\n\r\n⚠️ late\r\n2 parts delivered to terminal:me\r\n"
