"""The platform in memory: what people see with each fault, and which mistakes of callers it notices."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from msgspec.structs import replace

from tailrace.capabilities import Capabilities, DraftRules, Keyed, Rate, Repeatable, StreamRules, Unkeyed
from tailrace.inbound import InboundMessage
from tailrace.operations import (
    AppendStream,
    Body,
    CloseStream,
    Delete,
    Draft,
    Edit,
    OpenStream,
    Operation,
    Post,
    PostMedia,
    Target,
    Task,
    Typing,
)
from tailrace.testing.faults import (
    Cut,
    Delayed,
    Fault,
    Late,
    LoseAccess,
    NoAnswer,
    Refuse,
    Reset,
    Rule,
    ServerError,
    SlowBody,
    TooMany,
    Unreachable,
)
from tailrace.testing.platform import SimulatedPlatform
from tailrace.testing.wire import Absent, Answer, Arrived, Denied, Done, Find, Reply, Request, capabilities_of

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
    return platform.handle(Request(operation=operation, key=key, scope=scope), now)


def id_of(answer: Answer) -> str:
    assert isinstance(answer, Done)
    return answer.message_id


def status_of(answer: Answer) -> int:
    assert isinstance(answer, Denied)
    return answer.status


def test_messages_keep_their_order_chat_and_thread() -> None:
    platform = platform_of("unkeyed")
    for operation in (post("one"), post("two", THERE), post("three")):
        ask(platform, operation)
    assert platform.texts("here") == ["one", "three"]
    assert [(message.text, message.thread) for message in platform.history("there")] == [("two", "7")]
    assert len({message.message_id for message in platform.history()}) == 3


def test_only_an_edit_that_changes_the_message_is_counted() -> None:
    platform = platform_of("unkeyed")
    message_id = id_of(ask(platform, post("one")).answer)
    assert ask(platform, Edit(target=HERE, message_id=message_id, body=Body(text="two"))).answer == Done(message_id)
    again = ask(platform, Edit(target=HERE, message_id=message_id, body=Body(text="two")))
    assert status_of(again.answer) == 304
    assert [(message.text, message.edits) for message in platform.history()] == [("two", 1)]


def test_deleted_message_stays_in_the_history_and_cannot_be_edited() -> None:
    platform = platform_of("unkeyed")
    message_id = id_of(ask(platform, post("one")).answer)
    ask(platform, Delete(target=HERE, message_id=message_id))
    assert platform.texts("here") == []
    assert [message.deleted for message in platform.history()] == [True]
    assert status_of(ask(platform, Edit(target=HERE, message_id=message_id, body=Body(text="two"))).answer) == 404
    assert status_of(ask(platform, Delete(target=HERE, message_id=message_id)).answer) == 404
    assert status_of(ask(platform, Edit(target=THERE, message_id=message_id, body=Body(text="two"))).answer) == 404


def test_closed_stream_refuses_appends_and_takes_another_body() -> None:
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


def streaming(**rules: Any) -> SimulatedPlatform:
    return SimulatedPlatform(Capabilities(idempotency=Unkeyed(), limit=20, native=StreamRules(every_s=1.0, **rules)))


def test_stream_shows_each_task_in_its_latest_state() -> None:
    platform = streaming(tasks=True)
    stream_id = id_of(ask(platform, OpenStream(target=HERE, body=Body(text="a"))).answer)
    read, write = Task(id="1", title="read"), Task(id="2", title="write")
    done = Task(id="1", title="read all", status="complete")
    ask(platform, AppendStream(target=HERE, stream_id=stream_id, tasks=(read, write)))
    ask(platform, AppendStream(target=HERE, stream_id=stream_id, text="b", tasks=(done,)))
    assert [(message.text, message.tasks) for message in platform.history()] == [("ab", (done, write))]
    failed = Task(id="2", title="write", status="error")
    ask(platform, CloseStream(target=HERE, stream_id=stream_id, body=Body(text="all"), tasks=(failed,)))
    assert [(message.text, message.tasks) for message in platform.history()] == [("all", (done, failed))]


def test_stream_ends_after_its_lifetime_and_takes_another_body() -> None:
    platform = streaming(lifetime_s=300.0)
    stream_id = id_of(ask(platform, OpenStream(target=HERE, body=Body(text="a")), now=10.0).answer)
    append = AppendStream(target=HERE, stream_id=stream_id, text="b")
    assert ask(platform, append, now=309.0).answer == Done(stream_id)
    assert platform.advance(309.5) == 310.0
    assert status_of(ask(platform, append, now=310.0).answer) == 409
    assert [(message.text, message.streaming) for message in platform.history()] == [("ab", False)]
    close = CloseStream(target=HERE, stream_id=stream_id, body=Body(text="all"))
    assert ask(platform, close, now=400.0).answer == Done(stream_id)
    assert platform.texts("here") == ["all"]
    assert platform.advance(400.0) is None


def test_closed_stream_does_not_end_again() -> None:
    platform = streaming(lifetime_s=300.0)
    stream_id = id_of(ask(platform, OpenStream(target=HERE, body=Body(text="a"))).answer)
    ask(platform, CloseStream(target=HERE, stream_id=stream_id, body=Body(text="all")), now=5.0)
    platform.advance(1000.0)
    assert [version.at for version in platform.versions(stream_id)] == [0.0, 5.0]


def test_streams_start_only_where_the_platform_allows_them() -> None:
    platform = streaming(in_threads_only=True)
    assert status_of(ask(platform, OpenStream(target=HERE, body=Body(text="a"))).answer) == 400
    assert ask(platform, OpenStream(target=THERE, body=Body(text="a"))).answer == Done("m1")
    assert len(platform.history()) == 1


def test_text_above_the_limit_of_a_stream_call_is_refused() -> None:
    platform = streaming(per_call=5)
    stream_id = id_of(ask(platform, OpenStream(target=HERE, body=Body(text="12345"))).answer)
    for operation in (
        OpenStream(target=HERE, body=Body(text="123456")),
        AppendStream(target=HERE, stream_id=stream_id, text="123456"),
        CloseStream(target=HERE, stream_id=stream_id, body=Body(text="123456")),
    ):
        assert status_of(ask(platform, operation).answer) == 413
    assert ask(platform, AppendStream(target=HERE, stream_id=stream_id, text="67890")).answer == Done(stream_id)
    assert ask(platform, post("123456")).answer == Done("m2")  # the limit is that of streams only
    assert [complaint.about for complaint in platform.complaints] == ["size"] * 3


def draft(text: str, draft_id: int = 1, target: Target = HERE) -> Draft:
    return Draft(target=target, draft_id=draft_id, body=Body(text=text))


def drafted(platform: SimulatedPlatform, chat: str, now: float) -> list[str]:
    return [seen.text for seen in platform.drafts(chat, now)]


def test_draft_is_no_message_and_the_same_id_replaces_it() -> None:
    platform = platform_of("unkeyed")
    for now, shown in ((0.0, draft("a")), (1.0, draft("ab")), (2.0, draft("other", 2)), (3.0, draft("x", 1, THERE))):
        assert ask(platform, shown, now=now).answer == Done()
    assert (drafted(platform, "here", 3.0), drafted(platform, "there", 3.0)) == (["ab", "other"], ["x"])
    assert platform.history() == []
    assert platform.counts == {"draft": 4}


def test_draft_is_removed_after_its_lifetime_or_by_a_message() -> None:
    rules = DraftRules(lifetime_s=10.0, every_s=1.0)
    platform = SimulatedPlatform(Capabilities(idempotency=Unkeyed(), native=rules))
    elsewhere = Target(channel="simulated", chat="here", thread="8")
    ask(platform, draft("a"), now=0.0)
    ask(platform, draft("b", target=elsewhere), now=5.0)
    assert (drafted(platform, "here", 9.9), drafted(platform, "here", 10.0)) == (["a", "b"], ["b"])
    ask(platform, draft("c", 3), now=11.0)
    ask(platform, post("message"), now=12.0)
    assert (drafted(platform, "here", 11.9), drafted(platform, "here", 12.0)) == (["b", "c"], ["b"])
    assert drafted(platform_of("unkeyed"), "here", 0.0) == []
    unruled = platform_of("unkeyed")
    ask(unruled, draft("a"))
    assert (drafted(unruled, "here", 29.9), drafted(unruled, "here", 30.0)) == (["a"], [])


@pytest.mark.parametrize(
    ("rules", "status"),
    [
        (None, 400),
        (DraftRules(lifetime_s=30.0, every_s=1.0), 400),
        (DraftRules(lifetime_s=30.0, every_s=1.0, in_groups=True), None),
    ],
)
def test_groups_have_drafts_only_if_the_rules_say_so(rules: DraftRules | None, status: int | None) -> None:
    platform = SimulatedPlatform(Capabilities(idempotency=Unkeyed(), native=rules))
    group = Target(channel="simulated", chat="group", group=True)
    answer = ask(platform, draft("a", target=group)).answer
    assert (answer == Done()) if status is None else (status_of(answer) == status)
    assert ask(platform, draft("a")).answer == Done()


def test_draft_above_the_limit_is_refused_and_not_shown() -> None:
    platform = SimulatedPlatform(Capabilities(idempotency=Unkeyed(), limit=3))
    assert status_of(ask(platform, draft("abcd")).answer) == 413
    assert drafted(platform, "here", 0.0) == []
    assert [complaint.about for complaint in platform.complaints] == ["size"]


def test_seen_is_what_a_person_saw_at_any_time() -> None:
    platform = platform_of("unkeyed")
    ask(platform, draft("thin"), now=1.0)
    message_id = id_of(ask(platform, post("think"), now=2.0).answer)
    ask(platform, Edit(target=HERE, message_id=message_id, body=Body(text="thought")), now=3.0)
    ask(platform, post("more"), now=4.0)
    ask(platform, Delete(target=HERE, message_id=message_id), now=5.0)
    seen = {at: platform.seen("here", at) for at in (0.5, 1.5, 2.5, 3.5, 4.0, 5.0)}
    assert seen == {
        0.5: [],
        1.5: ["thin"],
        2.5: ["think"],
        3.5: ["thought"],
        4.0: ["thought", "more"],
        5.0: ["more"],
    }
    assert [(version.at, version.message.text) for version in platform.versions(message_id)] == [
        (2.0, "think"),
        (3.0, "thought"),
        (5.0, "thought"),
    ]


def test_without_keeps_calls_only_the_messages_are_kept() -> None:
    platform = SimulatedPlatform(capabilities_of("unkeyed"), keeps_calls=False)
    ask(platform, draft("a"), now=0.0)
    message_id = id_of(ask(platform, post("one"), now=1.0).answer)
    assert (platform.calls, platform.versions(message_id), platform.drafts("here", 0.5)) == ([], [], [])
    assert platform.texts("here") == ["one"]


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


def test_key_is_bound_to_its_chat_and_its_scope() -> None:
    platform = platform_of("keyed")
    for target, scope in ((HERE, ""), (THERE, ""), (HERE, "device"), (HERE, "")):
        ask(platform, post("one", target), "k", scope=scope)
    assert len(platform.history()) == 3


def test_key_is_forgotten_after_its_window() -> None:
    platform = platform_of("keyed:60")
    for now in (0.0, 59.0, 60.0, 119.0, 120.0):
        ask(platform, post("one"), "k", now)
    assert [message.at for message in platform.history()] == [0.0, 60.0, 120.0]


def test_key_with_another_content_is_a_complaint() -> None:
    for kind, seen in (("keyed", ["one"]), ("repeatable", ["two"])):
        platform = platform_of(kind)
        ask(platform, post("one"), "k")
        ask(platform, post("two"), "k")
        assert platform.texts("here") == seen
        assert [complaint.about for complaint in platform.complaints] == ["key"]


def test_message_is_found_by_its_key_if_the_platform_looks_up_keys() -> None:
    platform = platform_of("readback")
    message_id = id_of(ask(platform, post("one"), "k").answer)
    assert ask(platform, Find(target=HERE), "k").answer == Done(message_id)
    assert ask(platform, Find(target=HERE), "other").answer == Absent()
    assert ask(platform, Find(target=THERE), "k").answer == Absent()
    assert status_of(ask(platform_of("keyed"), Find(target=HERE), "k").answer) == 501


@pytest.mark.parametrize(("unit", "fits"), [("code_points", 4), ("utf16", 2), ("utf8_bytes", 1)])
def test_body_above_the_limit_is_refused(unit: Literal["code_points", "utf16", "utf8_bytes"], fits: int) -> None:
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
        (LoseAccess(), False, "whole", 401),
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
        (SlowBody(3.0), True, "whole", None),
    ],
)
def test_what_people_see_and_what_the_caller_gets(fault: Fault, seen: bool, ending: str, status: int | None) -> None:
    platform = platform_of("unkeyed", fault)
    reply = ask(platform, post("one"))
    assert platform.texts("here") == ["one"] * seen
    assert reply.ending == ending
    assert (reply.answer == Done("m1")) if status is None else (status_of(reply.answer) == status)
    assert reply.delay_s == (3.0 if isinstance(fault, Delayed | SlowBody) else 0.0)
    assert [call.fault for call in platform.calls] == [str(type(fault).__struct_config__.tag)]
    assert ask(platform, post("two")).ending == "whole", "without a rule a fault applies to one call"


@pytest.mark.parametrize("header", [None, 30.0, 1e9, -5.0, "soon"])
def test_header_of_status_429_is_passed_on_unchanged(header: float | str | None) -> None:
    platform = platform_of("unkeyed", TooMany(header, everywhere=True))
    assert ask(platform, post("one")).answer == Denied(429, "too many requests", header, True)


def test_503_cannot_be_applied() -> None:
    with pytest.raises(ValueError, match="not performed"):
        ServerError(503, applied=True)


def test_late_message_is_visible_and_found_when_it_is_due() -> None:
    platform = platform_of("readback", Late(10.0))
    reply = ask(platform, post("one"), "k", 5.0)
    assert (reply.ending, platform.advance(14.0)) == ("never", 15.0)
    assert ask(platform, Find(target=HERE), "k", 14.0).answer == Absent()
    assert ask(platform, Find(target=HERE), "k", 15.0).answer == reply.answer == Done("m1")
    assert [message.at for message in platform.history()] == [15.0]
    assert platform.advance(16.0) is None


def test_late_message_may_be_answered_at_once() -> None:
    platform = platform_of("unkeyed", Late(10.0, answered=True))
    assert ask(platform, post("one")) == Reply(Done("m1"))
    assert platform.texts("here") == []


def test_late_message_is_behind_those_that_came_before_it_was_visible() -> None:
    platform = platform_of("unkeyed", Late(10.0))
    ask(platform, post("one"), now=0.0)
    ask(platform, post("two"), now=1.0)
    platform.advance(10.0)
    assert platform.texts("here") == ["two", "one"]


@pytest.mark.parametrize("kind", ["keyed", "repeatable"])
def test_key_of_a_late_post_is_known_at_once(kind: str) -> None:
    platform = platform_of(kind, Late(10.0))
    ask(platform, post("one"), "k", 0.0)
    assert ask(platform, post("one"), "k", 1.0).answer == Done("m1")
    platform.advance(20.0)
    assert [(message.text, message.edits) for message in platform.history()] == [("one", 0)]


def test_late_edit_overwrites_a_newer_one() -> None:
    platform = platform_of("unkeyed", Rule(fault=Late(10.0), kind="edit"))
    message_id = id_of(ask(platform, post("one")).answer)
    for now, text in ((1.0, "old"), (2.0, "new")):
        ask(platform, Edit(target=HERE, message_id=message_id, body=Body(text=text)), now=now)
    assert platform.texts("here") == ["new"]
    platform.advance(11.0)
    assert platform.texts("here") == ["old"]


def faults_of(platform: SimulatedPlatform, *calls: Operation, now: float = 0.0) -> list[str]:
    """The tags of the faults of these calls."""
    before = len(platform.calls)
    for operation in calls:
        ask(platform, operation, now=now)
    return [call.fault for call in platform.calls[before:]]


def test_bare_faults_are_consumed_in_order() -> None:
    platform = platform_of("unkeyed", TooMany(), ServerError(), Refuse())
    assert faults_of(platform, *[post("x")] * 4) == ["too_many", "server_error", "refuse", ""]
    assert platform.script.unspent == ()


def test_rule_applies_to_the_nth_call_of_a_kind_or_chat() -> None:
    platform = platform_of(
        "unkeyed",
        Rule(fault=TooMany(), at=2),
        Rule(fault=Reset(), at=4, times=2),
        Rule(fault=Refuse(), chat="there", kind="post"),
    )
    typing_there = Typing(target=THERE)
    assert faults_of(platform, *[post("x")] * 6) == ["", "too_many", "", "reset", "reset", ""]
    assert faults_of(platform, typing_there, post("x"), post("x", THERE), post("x", THERE)) == ["", "", "refuse", ""]


def test_rule_ends_when_it_is_cleared_or_at_its_time() -> None:
    platform = platform_of("unkeyed", Rule(fault=TooMany(), times=None))
    assert faults_of(platform, *[post("x")] * 3) == ["too_many"] * 3
    platform.script.clear()
    platform.script.add(Rule(fault=ServerError(), times=None, until=60.0))
    assert faults_of(platform, post("x"), now=59.0) == ["server_error"]
    assert faults_of(platform, post("x"), now=60.0) == [""]
    assert platform.script.unspent == ()


def test_same_seed_gives_the_same_chances() -> None:
    def run(seed: int) -> list[str]:
        platform = SimulatedPlatform(capabilities_of("unkeyed"), seed=seed)
        platform.script.add(Rule(fault=Reset(), times=None, chance=0.3))
        return faults_of(platform, *[post("x")] * 200)

    assert run(1) == run(1) != run(2)
    assert 30 < run(1).count("reset") < 90


LIMITED = capabilities_of("unkeyed", per_chat=Rate(calls=2, per_s=10.0))


def test_calls_above_the_rate_are_complaints() -> None:
    platform = SimulatedPlatform(LIMITED)
    for now in (0.0, 1.0, 10.0, 10.5):
        ask(platform, post("x"), now=now)
    ask(platform, Typing(target=HERE), now=10.5)
    ask(platform, post("x", THERE), now=10.5)
    assert [(complaint.about, complaint.chat, complaint.at) for complaint in platform.complaints] == [
        ("pace", "here", 10.5)
    ]
    assert len(platform.history()) == 5


def test_calls_above_the_rate_are_refused_if_the_platform_enforces_it() -> None:
    platform = SimulatedPlatform(LIMITED, enforces_rates=True)
    replies = [ask(platform, post("x"), now=now) for now in (0.0, 1.0, 4.0, 10.0)]
    assert replies[2].answer == Denied(429, "too many requests", 6.0)
    assert len(platform.history()) == 3


def test_all_chats_share_the_overall_rate() -> None:
    overall = Capabilities(idempotency=Keyed(window_s=1.0), overall=Rate(calls=1, per_s=5.0))
    platform = SimulatedPlatform(overall, enforces_rates=True, slack_s=0.1)
    ask(platform, post("x"), now=0.0)
    assert ask(platform, post("x", THERE), now=1.0).answer == Denied(429, "too many requests", 4.0, True)
    assert ask(platform, post("x", THERE), now=4.95).answer == Done("m2")


def test_group_has_its_own_rate_and_that_of_a_chat() -> None:
    limits = Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=1, per_s=1.0), per_group=Rate(calls=2, per_s=60.0))
    platform = SimulatedPlatform(limits, enforces_rates=True)
    group = Target(channel="simulated", chat="group", group=True)
    for target, now in ((group, 0.0), (group, 1.0), (HERE, 0.0), (HERE, 1.0), (HERE, 2.0)):
        assert isinstance(ask(platform, post("x", target), now=now).answer, Done)
    assert ask(platform, post("x", group), now=2.0).answer == Denied(429, "too many requests", 58.0)
    assert ask(platform, post("x", replace(group, group=False)), now=3.0).answer == Denied(
        429, "too many requests", 57.0
    )
    assert isinstance(ask(platform, draft("x"), now=3.0).answer, Done)
    assert status_of(ask(platform, draft("x"), now=3.5).answer) == 429  # a draft counts like any call
    assert len(platform.complaints) == 3


def test_refused_call_counts_for_no_rate() -> None:
    limits = Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=1, per_s=10.0), overall=Rate(calls=1, per_s=2.0))
    platform = SimulatedPlatform(limits, enforces_rates=True)
    ask(platform, post("x"), now=0.0)
    assert ask(platform, post("x", THERE), now=1.0).answer == Denied(429, "too many requests", 1.0, True)
    assert isinstance(ask(platform, post("x", THERE), now=2.0).answer, Done)


def test_caption_has_its_own_limit() -> None:
    platform = SimulatedPlatform(Capabilities(idempotency=Unkeyed(), caption_limit=3))
    media = PostMedia(target=HERE, url="x:picture", caption="abcd")
    assert status_of(ask(platform, media).answer) == 413
    assert ask(platform, replace(media, caption="abc")).answer == Done("m1")


def test_clear_forgets_everything_and_uses_no_id_again() -> None:
    platform = platform_of("keyed")
    ask(platform, post("one"), "k")
    platform.clear()
    assert (platform.history(), platform.calls, dict(platform.counts)) == ([], [], {})
    assert ask(platform, post("one"), "k").answer == Done("m2")


def test_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match=r"'magic'.*keyed"):
        capabilities_of("magic")


def test_events_of_people_wait_until_they_are_taken() -> None:
    platform = platform_of("unkeyed", LoseAccess(everywhere=True))
    assert platform.poll(0, 0.0) is None, "a rule without a kind does not apply to polls"
    first, second = (InboundMessage(channel="simulated", event_id=id_, target=HERE, text="hi") for id_ in "ab")
    woken: list[bool] = []
    platform.on_inbound.add(lambda: woken.append(True))
    platform.add_inbound(first, second)
    assert platform.poll(0, 0.0) == platform.poll(0, 1.0) == Arrived(1, first)
    assert platform.poll(1, 0.0) == platform.poll(0, 0.0) == Arrived(2, second)
    platform.script.add(Rule(fault=LoseAccess(everywhere=True), kind="poll"))
    assert platform.poll(2, 0.0) == Denied(401, "the token was revoked", everywhere=True)
    assert (platform.poll(2, 0.0), woken) == (None, [True])
