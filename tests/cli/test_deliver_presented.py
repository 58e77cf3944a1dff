"""`tailrace deliver --presentation`: the answer seen while it comes, from real processes killed in the middle."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from command_runs import (
    ANSWER,
    COMPLETED,
    INPUT,
    KEYED,
    PARTS,
    CommandFolder,
    finish,
    lines,
    text,
    write_input,
)
from tailrace.capabilities import Capabilities, EditRules
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = Capabilities(idempotency=KEYED, limit=120, edits=EditRules(every_s=0.05), deletes=True)


@pytest.fixture
def chat() -> Iterator[PlatformProcess]:
    with PlatformProcess(LIMITS) as platform:
        yield platform


@pytest.mark.parametrize("presentation", ["live", "processing", "blocks"])
def test_the_answer_stands_whole_in_each_presentation(tmp_path: Path, chat: PlatformProcess, presentation: str) -> None:
    done = CommandFolder(tmp_path, chat).deliver("--turn", "t", "--presentation", presentation)
    assert done.exit_code == 0, done.err
    assert chat.texts("room") == PARTS
    calls = chat.account().counts
    again = CommandFolder(tmp_path, chat).deliver("--turn", "t", "--presentation", presentation)
    assert (again.exit_code, chat.account().counts) == (0, calls), "it is not sent again"


def test_the_same_input_sends_nothing_and_another_one_is_refused(tmp_path: Path, chat: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, chat)
    for _ in range(2):
        done = folder.deliver("--turn", "t")
        assert done.exit_code == 0, done.err
    refused = folder.deliver("--turn", "t", given=INPUT.replace(b"river", b"water"))
    assert "was delivered with another text" in refused.err
    assert (chat.texts("room"), chat.account().counts) == (PARTS, {"post": len(PARTS)})


def test_a_live_answer_grows_in_the_chat_while_the_input_still_comes(tmp_path: Path, chat: PlatformProcess) -> None:
    process = CommandFolder(tmp_path, chat).start_deliver("--turn", "t", "--presentation", "live")
    write_input(process, lines(text(ANSWER[:40])))
    assert chat.wait(messages=1).messages[0].text == ANSWER[:40].rstrip()
    write_input(process, lines(text(ANSWER[40:60])))
    chat.wait(calls=1, kind="edit")
    assert chat.texts("room") == [ANSWER[:60].rstrip()]
    assert finish(process, lines(text(ANSWER[60:]), COMPLETED)).exit_code == 0
    assert chat.texts("room") == PARTS


def test_killed_while_a_message_grows_the_same_message_is_finished(tmp_path: Path, chat: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, chat)
    process = folder.start_deliver("--turn", "t", "--presentation", "live")
    write_input(process, lines(text(ANSWER[:40])))
    first = chat.wait(messages=1).messages[0]
    write_input(process, lines(text(ANSWER[40:150])))
    chat.wait(messages=2)
    process.kill()
    finish(process)
    done = folder.deliver("--turn", "t", "--presentation", "live")
    assert done.exit_code == 0, done.err
    assert chat.texts("room") == PARTS
    assert chat.history("room")[0].message_id == first.message_id
    assert len(chat.history("room")) == len(PARTS), "no orphan, no second copy"


def test_a_delivered_turn_that_took_text_back_is_not_refused(tmp_path: Path, chat: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, chat)
    process = folder.start_deliver("--turn", "t")
    write_input(process, lines(text(ANSWER)))
    chat.wait(messages=1)
    rest = lines({"type": "text_retracted"}, text("Instead."), COMPLETED)
    assert finish(process, rest).exit_code == 0
    assert chat.texts("room") == ["Instead."]
    assert folder.deliver("--turn", "t", given=lines(text(ANSWER)) + rest).exit_code == 0
    assert chat.texts("room") == ["Instead."]


def test_stopped_by_a_signal_it_can_be_resumed(tmp_path: Path, chat: PlatformProcess) -> None:
    folder = CommandFolder(tmp_path, chat)
    process = folder.start_deliver("--turn", "t", "--presentation", "live")
    write_input(process, lines(text(ANSWER[:150])))
    chat.wait(messages=2)
    process.send_signal(signal.SIGTERM)
    stopped = finish(process)
    assert stopped.exit_code == 1
    assert "--presentation live --turn t" in stopped.err
    assert folder.deliver("--turn", "t", "--presentation", "live").exit_code == 0
    assert chat.texts("room") == PARTS
