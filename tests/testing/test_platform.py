"""The platform in memory: what people see under every fault, and what it notices about its callers."""

from __future__ import annotations

from typing import Literal

import pytest

from tailrace.capabilities import Capabilities, Keyed, Rate, Repeatable
from tailrace.operations import (
    AppendStream,
    Body,
    CloseStream,
    Delete,
    Edit,
    OpenStream,
    Operation,
    Post,
    PostMedia,
    Target,
    Typing,
)
from tailrace.testing.faults import (
    Cut,
    Delayed,
    Fault,
    Late,
    NoAnswer,
    Refuse,
    Reset,
    Rule,
    ServerError,
    TooMany,
    Unreachable,
)
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.wire import Absent, Answer, Denied, Done, Find, Reply, Request, capabilities_of

HERE = Target(channel="simulated", chat="here")
THERE = Target(channel="simulated", chat="there", thread="7")


def platform_of(kind: str, *rules: Rule | Fault) -> SimulatedPlatform:
    platform = SimulatedPlatform(capabilities_of(kind))
    platform.script.add(*rules)
    return platform


def post(text: str, target: Target = HERE) -> Post:
    return Post(target=target, body=Body(text=text))


def ask(
    platform: SimulatedPlatform, operation: Operation | Find, key: str = "", now: float = 0.0, scope: str = ""
) -> Reply:
    return platform.take(Request(operation=operation, key=key, scope=scope), now)


def id_of(answer: Answer) -> str:
    assert isinstance(answer, Done)
    return answer.message_id


def status_of(answer: Answer) -> int:
    assert isinstance(answer, Denied)
    return answer.status


def test_messages_stand_in_the_order_they_came_with_chat_and_thread() -> None:
    platform = platform_of("unkeyed")
    for operation in (post("one"), post("two", THERE), post("three")):
        ask(platform, operation)
    assert platform.texts("here") == ["one", "three"]
    assert [(message.text, message.thread) for message in platform.history("there")] == [("two", "7")]
    assert len({message.message_id for message in platform.history()}) == 3


def test_an_edit_is_counted_and_one_that_changes_nothing_is_not() -> None:
    platform = platform_of("unkeyed")
    message_id = id_of(ask(platform, post("one")).answer)
    assert ask(platform, Edit(target=HERE, message_id=message_id, body=Body(text="two"))).answer == Done(message_id)
    again = ask(platform, Edit(target=HERE, message_id=message_id, body=Body(text="two")))
    assert status_of(again.answer) == 304
    assert [(message.text, message.edits) for message in platform.history()] == [("two", 1)]


def test_a_deleted_message_is_kept_in_the_history_and_cannot_be_edited() -> None:
    platform = platform_of("unkeyed")
    message_id = id_of(ask(platform, post("one")).answer)
    ask(platform, Delete(target=HERE, message_id=message_id))
    assert platform.texts("here") == []
    assert [message.deleted for message in platform.history()] == [True]
    assert status_of(ask(platform, Edit(target=HERE, message_id=message_id, body=Body(text="two"))).answer) == 404
    assert status_of(ask(platform, Delete(target=HERE, message_id=message_id)).answer) == 404
    assert status_of(ask(platform, Edit(target=THERE, message_id=message_id, body=Body(text="two"))).answer) == 404


def test_a_stream_grows_until_it_is_closed_and_can_be_set_after_that() -> None:
    platform = platform_of("unkeyed")
    stream_id = id_of(ask(platform, OpenStream(target=HERE, body=Body(text="a"))).answer)
    append = AppendStream(target=HERE, stream_id=stream_id, text="b")
    ask(platform, append)
    ask(platform, append)
    assert [(message.text, message.streaming) for message in platform.history()] == [("abb", True)]
    for text in ("all", "all of it"):
        assert ask(platform, CloseStream(target=HERE, stream_id=stream_id, body=Body(text=text))).answer == Done(
            stream_id
        )
        assert [(message.text, message.streaming) for message in platform.history()] == [(text, False)]
    assert status_of(ask(platform, append).answer) == 409
    assert status_of(ask(platform, CloseStream(target=HERE, stream_id="m99", body=Body(text=""))).answer) == 404


def test_media_and_typing() -> None:
    platform = platform_of("unkeyed")
    ask(platform, PostMedia(target=HERE, url="x:picture", caption="look"))
    assert ask(platform, Typing(target=HERE)).answer == Done()
    assert [(message.text, message.media) for message in platform.history()] == [("look", "x:picture")]
    assert platform.counts == {"post_media": 1, "typing": 1}


@pytest.mark.parametrize(
    ("kind", "seen"),
    [("keyed", ["one"]), ("readback", ["one", "one"]), ("repeatable", ["one"]), ("unkeyed", ["one", "one"])],
)
def test_the_same_post_twice_by_kind(kind: str, seen: list[str]) -> None:
    platform = platform_of(kind)
    first, second = (id_of(ask(platform, post("one"), "k").answer) for _ in range(2))
    assert platform.texts("here") == seen
    assert (first == second) is (len(seen) == 1)
    assert [bool(message.key) for message in platform.history()] == [kind != "unkeyed"] * len(seen)
    assert platform.complaints == []


def test_a_key_is_bound_to_its_chat_and_its_scope() -> None:
    platform = platform_of("keyed")
    for target, scope in ((HERE, ""), (THERE, ""), (HERE, "device"), (HERE, "")):
        ask(platform, post("one", target), "k", scope=scope)
    assert len(platform.history()) == 3


def test_a_key_is_forgotten_when_its_window_is_over() -> None:
    platform = platform_of("keyed:60")
    for now in (0.0, 59.0, 60.0, 119.0, 120.0):
        ask(platform, post("one"), "k", now)
    assert [message.at for message in platform.history()] == [0.0, 60.0, 120.0]


def test_a_key_used_for_another_content_is_complained_of() -> None:
    for kind, seen in (("keyed", ["one"]), ("repeatable", ["two"])):
        platform = platform_of(kind)
        ask(platform, post("one"), "k")
        ask(platform, post("two"), "k")
        assert platform.texts("here") == seen
        assert [complaint.about for complaint in platform.complaints] == ["key"]


def test_a_message_is_found_by_its_key_where_the_platform_can_be_asked() -> None:
    platform = platform_of("readback")
    message_id = id_of(ask(platform, post("one"), "k").answer)
    assert ask(platform, Find(target=HERE), "k").answer == Done(message_id)
    assert ask(platform, Find(target=HERE), "other").answer == Absent()
    assert ask(platform, Find(target=THERE), "k").answer == Absent()
    assert status_of(ask(platform_of("keyed"), Find(target=HERE), "k").answer) == 501


@pytest.mark.parametrize(("unit", "fits"), [("code_points", 4), ("utf16", 2), ("utf8_bytes", 1)])
def test_a_body_over_the_limit_is_refused(unit: Literal["code_points", "utf16", "utf8_bytes"], fits: int) -> None:
    platform = SimulatedPlatform(Capabilities(idempotency=Repeatable(), limit=4, unit=unit))
    message_id = id_of(ask(platform, post("😀" * fits), "k").answer)
    for operation in (
        post("😀" * (fits + 1)),
        OpenStream(target=HERE, body=Body(text="😀" * (fits + 1))),
        Edit(target=HERE, message_id=message_id, body=Body(text="😀" * (fits + 1))),
        CloseStream(target=HERE, stream_id=message_id, body=Body(text="😀" * (fits + 1))),
    ):
        assert status_of(ask(platform, operation, "other").answer) == 413
    assert platform.texts("here") == ["😀" * fits]
    assert [complaint.about for complaint in platform.complaints] == ["size"] * 4


@pytest.mark.parametrize(
    ("fault", "seen", "ending", "status"),
    [
        (Refuse(), False, "whole", 403),
        (Refuse(401, "revoked"), False, "whole", 401),
        (TooMany(), False, "whole", 429),
        (ServerError(), False, "whole", 503),
        (ServerError(500), False, "whole", 500),
        (ServerError(500, applied=True), True, "whole", 500),
        (Unreachable(), False, "unreachable", 0),
        (Reset(), True, "reset", None),
        (Reset(applied=False), False, "reset", 500),
        (Cut(), True, "cut", None),
        (Cut(applied=False), False, "cut", 500),
        (NoAnswer(), True, "never", None),
        (NoAnswer(applied=False), False, "never", 500),
        (Delayed(3.0), True, "whole", None),
    ],
)
def test_what_people_see_and_what_the_caller_gets(fault: Fault, seen: bool, ending: str, status: int | None) -> None:
    platform = platform_of("unkeyed", fault)
    reply = ask(platform, post("one"))
    assert platform.texts("here") == ["one"] * seen
    assert reply.ending == ending
    assert (reply.answer == Done("m1")) if status is None else (status_of(reply.answer) == status)
    assert reply.delay_s == (3.0 if isinstance(fault, Delayed) else 0.0)
    assert [call.fault for call in platform.calls] == [str(type(fault).__struct_config__.tag)]
    assert ask(platform, post("two")).ending == "whole", "a fault befalls one call unless told otherwise"


@pytest.mark.parametrize("header", [None, 30.0, 1e9, -5.0, "soon"])
def test_the_header_of_a_429_is_passed_on_as_it_stands(header: float | str | None) -> None:
    platform = platform_of("unkeyed", TooMany(header, everywhere=True))
    assert ask(platform, post("one")).answer == Denied(429, "too many requests", header, True)


def test_503_never_means_that_it_was_done() -> None:
    with pytest.raises(ValueError, match="took nothing"):
        ServerError(503, applied=True)


def test_what_is_late_is_seen_when_it_is_due_and_found_only_then() -> None:
    platform = platform_of("readback", Late(10.0))
    reply = ask(platform, post("one"), "k", 5.0)
    assert (reply.ending, platform.settle(14.0)) == ("never", 15.0)
    assert ask(platform, Find(target=HERE), "k", 14.0).answer == Absent()
    assert ask(platform, Find(target=HERE), "k", 15.0).answer == reply.answer == Done("m1")
    assert [message.at for message in platform.history()] == [15.0]
    assert platform.settle(16.0) is None


def test_what_is_late_may_be_answered_at_once() -> None:
    platform = platform_of("unkeyed", Late(10.0, answered=True))
    assert ask(platform, post("one")) == Reply(Done("m1"))
    assert platform.texts("here") == []


def test_what_is_late_stands_behind_what_came_meanwhile() -> None:
    platform = platform_of("unkeyed", Late(10.0))
    ask(platform, post("one"), now=0.0)
    ask(platform, post("two"), now=1.0)
    platform.settle(10.0)
    assert platform.texts("here") == ["two", "one"]


@pytest.mark.parametrize("kind", ["keyed", "repeatable"])
def test_the_key_of_a_late_post_is_known_from_the_beginning(kind: str) -> None:
    platform = platform_of(kind, Late(10.0))
    ask(platform, post("one"), "k", 0.0)
    assert ask(platform, post("one"), "k", 1.0).answer == Done("m1")
    platform.settle(20.0)
    assert [(message.text, message.edits) for message in platform.history()] == [("one", 0)]


def test_a_late_edit_overwrites_what_was_set_meanwhile() -> None:
    platform = platform_of("unkeyed", Rule(fault=Late(10.0), kind="edit"))
    message_id = id_of(ask(platform, post("one")).answer)
    for now, text in ((1.0, "old"), (2.0, "new")):
        ask(platform, Edit(target=HERE, message_id=message_id, body=Body(text=text)), now=now)
    assert platform.texts("here") == ["new"]
    platform.settle(11.0)
    assert platform.texts("here") == ["old"]


def faults_of(platform: SimulatedPlatform, *calls: Operation, now: float = 0.0) -> list[str]:
    """The tags of what befell these calls."""
    before = len(platform.calls)
    for operation in calls:
        ask(platform, operation, now=now)
    return [call.fault for call in platform.calls[before:]]


def test_bare_faults_are_consumed_in_order() -> None:
    platform = platform_of("unkeyed", TooMany(), ServerError(), Refuse())
    assert faults_of(platform, *[post("x")] * 4) == ["too_many", "server_error", "refuse", ""]
    assert platform.script.unspent == ()


def test_a_rule_names_the_nth_call_the_kind_and_the_chat() -> None:
    platform = platform_of(
        "unkeyed",
        Rule(fault=TooMany(), at=2),
        Rule(fault=Reset(), at=4, times=2),
        Rule(fault=Refuse(), chat="there", kind="post"),
    )
    typing_there = Typing(target=THERE)
    assert faults_of(platform, *[post("x")] * 6) == ["", "too_many", "", "reset", "reset", ""]
    assert faults_of(platform, typing_there, post("x"), post("x", THERE), post("x", THERE)) == ["", "", "refuse", ""]


def test_a_rule_for_ever_ends_when_it_is_cleared_and_one_until_a_time_then() -> None:
    platform = platform_of("unkeyed", Rule(fault=TooMany(), times=None))
    assert faults_of(platform, *[post("x")] * 3) == ["too_many"] * 3
    platform.script.clear()
    platform.script.add(Rule(fault=ServerError(), times=None, until=60.0))
    assert faults_of(platform, post("x"), now=59.0) == ["server_error"]
    assert faults_of(platform, post("x"), now=60.0) == [""]
    assert platform.script.unspent == ()


def test_chances_are_repeated_by_the_seed() -> None:
    def run(seed: int) -> list[str]:
        platform = SimulatedPlatform(capabilities_of("unkeyed"), seed=seed)
        platform.script.add(Rule(fault=Reset(), times=None, chance=0.3))
        return faults_of(platform, *[post("x")] * 200)

    assert run(1) == run(1) != run(2)
    assert 30 < run(1).count("reset") < 90


PACED = capabilities_of("unkeyed", per_chat=Rate(calls=2, per_s=10.0))


def test_calls_above_the_pace_are_complained_of() -> None:
    platform = SimulatedPlatform(PACED)
    for now in (0.0, 1.0, 10.0, 10.5):
        ask(platform, post("x"), now=now)
    ask(platform, Typing(target=HERE), now=10.5)
    ask(platform, post("x", THERE), now=10.5)
    assert [(complaint.about, complaint.chat, complaint.at) for complaint in platform.complaints] == [
        ("pace", "here", 10.5)
    ]
    assert len(platform.history()) == 5


def test_calls_above_the_pace_are_refused_where_the_platform_does() -> None:
    platform = SimulatedPlatform(PACED, refuses_pace=True)
    replies = [ask(platform, post("x"), now=now) for now in (0.0, 1.0, 4.0, 10.0)]
    assert replies[2].answer == Denied(429, "too many requests", 6.0)
    assert len(platform.history()) == 3


def test_all_chats_share_the_overall_pace() -> None:
    overall = Capabilities(idempotency=Keyed(window_s=1.0), overall=Rate(calls=1, per_s=5.0))
    platform = SimulatedPlatform(overall, refuses_pace=True, slack_s=0.1)
    ask(platform, post("x"), now=0.0)
    assert ask(platform, post("x", THERE), now=1.0).answer == Denied(429, "too many requests", 4.0, True)
    assert ask(platform, post("x", THERE), now=4.95).answer == Done("m2")


def test_clearing_forgets_everything_but_the_ids() -> None:
    platform = platform_of("keyed")
    ask(platform, post("one"), "k")
    platform.clear()
    assert (platform.history(), platform.calls, dict(platform.counts)) == ([], [], {})
    assert ask(platform, post("one"), "k").answer == Done("m2")


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match=r"'magic'.*keyed"):
        capabilities_of("magic")
