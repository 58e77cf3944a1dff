"""What the translators of opencode make of single events. Turns are in `made_turns` and `recordings`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded_turns import OpencodeBus, lines_of

from tailrace.events import Event, TurnCompleted, TurnFailed
from tailrace.runtimes.opencode.translator import OpencodeRequest, OpencodeRunTranslator, OpencodeTranslator

CUT = TurnFailed(message="opencode stopped before the turn was complete", code="cut_off")


def event(kind: str, session: str = "own", **properties: Any) -> dict[str, Any]:
    return {"type": kind, "properties": {"sessionID": session, **properties}}


IDLE = event("session.idle")


def test_idle_before_the_turn_is_not_its_end() -> None:
    assert OpencodeTranslator("own").feed(IDLE) == []


def test_requests_wait_for_an_answer() -> None:
    bus = OpencodeBus("opencode_serve_permission")
    asked: list[OpencodeRequest] = []
    for line in lines_of("opencode_serve_permission"):
        bus.feed(line)
        asked += bus.translator.take_requests()
    (permission,) = asked
    assert permission.id == "per_1ee0042f4001ZWuGQLzfVgYpuZ"
    assert permission.question is not None
    assert permission.question.title == "bash echo tool-says-hi"
    translator = OpencodeTranslator("own")
    translator.feed(event("question.asked", id="que_1", questions=[]))
    translator.feed(event("permission.asked", "other", id="per_1", permission="bash"))
    translator.feed(event("permission.asked", id="per_2", permission="edit", patterns=["a.py", "b.py"]))
    question, edit = translator.take_requests()
    assert (question.id, question.question) == ("que_1", None)
    assert edit.question is not None
    assert edit.question.title == "edit a.py, b.py"
    assert translator.take_requests() == []


@pytest.mark.parametrize(
    ("reasons", "end"),
    [(("tool-calls", "stop"), TurnCompleted(stop_reason="stop")), (("stop", "tool-calls"), CUT)],
)
def test_run_is_complete_if_its_last_step_is(reasons: tuple[str, str], end: Event) -> None:
    translator = OpencodeRunTranslator()
    for reason in reasons:
        finish = {"id": "p", "type": "step-finish", "messageID": "m", "reason": reason}
        translator.feed(json.dumps({"type": "step_finish", "part": finish}).encode())
    assert translator.close() == [end]
