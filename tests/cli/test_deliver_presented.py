"""`tailrace deliver --presentation`: the answer seen while it comes, from real processes killed in the middle."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from command_runs import ANSWER, COMPLETED, INPUT, KEYED, PARTS, House, ended, give, lines, said
from tailrace.capabilities import Capabilities, EditRules
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = Capabilities(idempotency=KEYED, limit=120, edits=EditRules(every_s=0.05), deletes=True)


@pytest.fixture
def chat() -> Iterator[PlatformProcess]:
    with PlatformProcess(LIMITS) as at:
        yield at


@pytest.mark.parametrize("presentation", ["live", "processing", "blocks", "final", "native", "tokens"])
def test_the_answer_stands_whole_however_it_is_presented(
    tmp_path: Path, chat: PlatformProcess, presentation: str
) -> None:
    done = House(tmp_path, chat).deliver("--turn", "t", "--presentation", presentation)
    assert done.exit_code == 0, done.err
    assert chat.texts("room") == PARTS


def test_a_live_answer_grows_in_the_chat_while_the_input_still_comes(tmp_path: Path, chat: PlatformProcess) -> None:
    process = House(tmp_path, chat).start_deliver("--turn", "t", "--presentation", "live")
    give(process, lines(said(ANSWER[:40])))
    assert chat.wait(messages=1).messages[0].text == ANSWER[:40].rstrip()
    give(process, lines(said(ANSWER[40:60])))
    chat.wait(calls=1, kind="edit")
    assert chat.texts("room") == [ANSWER[:60].rstrip()]
    assert ended(process, lines(said(ANSWER[60:]), COMPLETED)).exit_code == 0
    assert chat.texts("room") == PARTS


def test_killed_while_a_message_grows_and_resumed_the_same_message_is_finished(
    tmp_path: Path, chat: PlatformProcess
) -> None:
    house = House(tmp_path, chat)
    process = house.start_deliver("--turn", "t", "--presentation", "live")
    give(process, lines(said(ANSWER[:40])))
    first = chat.wait(messages=1).messages[0]
    give(process, lines(said(ANSWER[40:150])))
    chat.wait(messages=2)
    process.kill()
    ended(process)
    done = house.deliver("--turn", "t", "--presentation", "live")
    assert done.exit_code == 0, done.err
    assert chat.texts("room") == PARTS
    assert chat.history("room")[0].message_id == first.message_id
    assert len(chat.history("room")) == len(PARTS), "no orphan, no second copy"


def test_a_turn_that_is_delivered_is_not_said_again(tmp_path: Path, chat: PlatformProcess) -> None:
    house = House(tmp_path, chat)
    assert house.deliver("--turn", "t", "--presentation", "live").exit_code == 0
    calls = chat.account().counts
    again = house.deliver("--turn", "t", "--presentation", "live")
    assert again.exit_code == 0, again.err
    assert chat.account().counts == calls


def test_asked_to_end_it_says_how_to_go_on_and_can_be_gone_on_with(tmp_path: Path, chat: PlatformProcess) -> None:
    house = House(tmp_path, chat)
    process = house.start_deliver("--turn", "t", "--presentation", "live")
    give(process, lines(said(ANSWER[:150])))
    chat.wait(messages=2)
    process.send_signal(signal.SIGTERM)
    stopped = ended(process)
    assert stopped.exit_code == 1
    assert "--presentation live --turn t" in stopped.err
    assert house.deliver("--turn", "t", "--presentation", "live").exit_code == 0
    assert chat.texts("room") == PARTS


@pytest.mark.parametrize(
    ("given", "complaint"), [(b"", "nothing came on standard input"), (b"{\n", "Nothing was sent.")]
)
def test_an_input_that_cannot_be_meant_sends_nothing_in_any_presentation(
    tmp_path: Path, chat: PlatformProcess, given: bytes, complaint: str
) -> None:
    done = House(tmp_path, chat).deliver("--presentation", "live", given=given)
    assert (done.exit_code, chat.texts("room")) == (2, [])
    assert complaint in done.err


def test_an_unknown_presentation_is_refused_by_the_names_there_are(tmp_path: Path, chat: PlatformProcess) -> None:
    done = House(tmp_path, chat).deliver("--presentation", "lively", given=INPUT)
    assert done.exit_code == 2
    assert "live" in done.err
    assert "processing" in done.err
