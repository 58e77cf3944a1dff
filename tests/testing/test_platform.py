"""The platform in memory: what people see under every fault, and what it notices about its callers."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from msgspec.structs import replace

from tailrace.capabilities import Capabilities, DraftRules, Keyed, Rate, Repeatable, StreamRules, Unkeyed
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
GROUP = Target(channel="simulated", chat="group", group=True)


def platform_of(kind: str, *rules: Rule | Fault) -> SimulatedPlatform:
    platform = SimulatedPlatform(capabilities_of(kind))
    platform.script.add(*rules)
    return platform


def unkeyed(**capabilities: Any) -> SimulatedPlatform:
    return SimulatedPlatform(Capabilities(idempotency=Unkeyed(), **capabilities))


def post(text: str, target: Target = HERE) -> Post:
    return Post(target=target, body=Body(text=text))


def edit(message_id: str, text: str, target: Target = HERE) -> Edit:
    return Edit(target=target, message_id=message_id, body=Body(text=text))


def open_stream(text: str, target: Target = HERE) -> OpenStream:
    return OpenStream(target=target, body=Body(text=text))


def append(stream_id: str, text: str = "", *tasks: Task) -> AppendStream:
    return AppendStream(target=HERE, stream_id=stream_id, text=text, tasks=tasks)


def close_stream(stream_id: str, text: str, *tasks: Task) -> CloseStream:
    return CloseStream(target=HERE, stream_id=stream_id, body=Body(text=text), tasks=tasks)


def draft(text: str, draft_id: int = 1, target: Target = HERE) -> Draft:
    return Draft(target=target, draft_id=draft_id, body=Body(text=text))


def reply_to(platform: SimulatedPlatform, operation: Operation | Find, key: str = "", now: float = 0.0) -> Reply:
    return platform.handle(Request(operation=operation, key=key), now)


def ask(platform: SimulatedPlatform, operation: Operation | Find, key: str = "", now: float = 0.0) -> Answer:
    return reply_to(platform, operation, key, now).answer


def sent(platform: SimulatedPlatform, operation: Operation, key: str = "", now: float = 0.0) -> str:
    """Make a call that succeeds. Returns the id of the message."""
    answer = ask(platform, operation, key, now)
    assert isinstance(answer, Done)
    return answer.message_id


def refused(platform: SimulatedPlatform, operation: Operation | Find, key: str = "", now: float = 0.0) -> int:
    """Make a call that is refused. Returns the status."""
    answer = ask(platform, operation, key, now)
    assert isinstance(answer, Denied)
    return answer.status


def complaints(platform: SimulatedPlatform) -> list[str]:
    return [complaint.about for complaint in platform.complaints]


def drafted(platform: SimulatedPlatform, chat: str, now: float) -> list[str]:
    return [seen.text for seen in platform.drafts(chat, now)]


def test_messages_keep_their_order_chat_and_thread() -> None:
    platform = platform_of("unkeyed")
    for operation in (post("one"), post("two", THERE), post("three")):
        sent(platform, operation)
    assert platform.texts("here") == ["one", "three"]
    assert [(message.text, message.thread) for message in platform.history("there")] == [("two", "7")]
    assert len({message.message_id for message in platform.history()}) == 3


def test_an_edit_is_counted_unless_it_changes_nothing() -> None:
    platform = platform_of("unkeyed")
    message_id = sent(platform, post("one"))
    assert sent(platform, edit(message_id, "two")) == message_id
    assert refused(platform, edit(message_id, "two")) == 304
    assert [(message.text, message.edits) for message in platform.history()] == [("two", 1)]


def test_a_deleted_message_stays_in_the_history_and_cannot_be_edited() -> None:
    platform = platform_of("unkeyed")
    message_id = sent(platform, post("one"))
    delete = Delete(target=HERE, message_id=message_id)
    sent(platform, delete)
    assert platform.texts("here") == []
    assert [message.deleted for message in platform.history()] == [True]
    for operation in (edit(message_id, "two"), delete, edit(message_id, "two", THERE)):
        assert refused(platform, operation) == 404


def test_a_stream_grows_until_it_is_closed_and_can_be_closed_again() -> None:
    platform = platform_of("unkeyed")
    stream_id = sent(platform, open_stream("a"))
    for _ in range(2):
        sent(platform, append(stream_id, "b"))
    assert [(message.text, message.streaming) for message in platform.history()] == [("abb", True)]
    for text in ("all", "all of it"):
        assert sent(platform, close_stream(stream_id, text)) == stream_id
        assert [(message.text, message.streaming) for message in platform.history()] == [(text, False)]
    assert refused(platform, append(stream_id, "b")) == 409
    assert refused(platform, close_stream("m99", "")) == 404


def streaming(**rules: Any) -> SimulatedPlatform:
    return unkeyed(limit=20, native=StreamRules(every_s=1.0, **rules))


def test_a_stream_shows_the_latest_state_of_each_task() -> None:
    platform = streaming(tasks=True)
    stream_id = sent(platform, open_stream("a"))
    read, write = Task(id="1", title="read"), Task(id="2", title="write")
    done = Task(id="1", title="read all", status="complete")
    sent(platform, append(stream_id, "", read, write))
    sent(platform, append(stream_id, "b", done))
    assert [(message.text, message.tasks) for message in platform.history()] == [("ab", (done, write))]
    failed = Task(id="2", title="write", status="error")
    sent(platform, close_stream(stream_id, "all", failed))
    assert [(message.text, message.tasks) for message in platform.history()] == [("all", (done, failed))]


def test_a_stream_ends_after_its_lifetime_and_can_be_closed_after_that() -> None:
    platform = streaming(lifetime_s=300.0)
    stream_id = sent(platform, open_stream("a"), now=10.0)
    assert sent(platform, append(stream_id, "b"), now=309.0) == stream_id
    assert platform.advance(309.5) == 310.0
    assert refused(platform, append(stream_id, "b"), now=310.0) == 409
    assert [(message.text, message.streaming) for message in platform.history()] == [("ab", False)]
    assert sent(platform, close_stream(stream_id, "all"), now=400.0) == stream_id
    assert platform.texts("here") == ["all"]
    assert platform.advance(1000.0) is None
    assert [version.at for version in platform.versions(stream_id)] == [10.0, 309.0, 310.0, 400.0]


def test_a_closed_stream_does_not_end_again_after_its_lifetime() -> None:
    platform = streaming(lifetime_s=300.0)
    stream_id = sent(platform, open_stream("a"))
    sent(platform, close_stream(stream_id, "all"), now=5.0)
    platform.advance(1000.0)
    assert [version.at for version in platform.versions(stream_id)] == [0.0, 5.0]


def test_a_stream_outside_of_a_thread_is_refused_where_threads_are_needed() -> None:
    platform = streaming(in_threads_only=True)
    assert refused(platform, open_stream("a")) == 400
    assert sent(platform, open_stream("a", THERE)) == "m1"
    assert len(platform.history()) == 1


def test_a_stream_call_over_the_limit_of_a_call_is_refused() -> None:
    platform = streaming(per_call=5)
    stream_id = sent(platform, open_stream("12345"))
    for operation in (open_stream("123456"), append(stream_id, "123456"), close_stream(stream_id, "123456")):
        assert refused(platform, operation) == 413
    assert sent(platform, append(stream_id, "67890")) == stream_id
    assert sent(platform, post("123456")) == "m2"  # a post is no stream
    assert complaints(platform) == ["size"] * 3


def test_a_draft_is_no_message_and_replaces_the_draft_with_its_id() -> None:
    platform = platform_of("unkeyed")
    for now, shown in ((0.0, draft("a")), (1.0, draft("ab")), (2.0, draft("other", 2)), (3.0, draft("x", 1, THERE))):
        assert ask(platform, shown, now=now) == Done()
    assert (drafted(platform, "here", 3.0), drafted(platform, "there", 3.0)) == (["ab", "other"], ["x"])
    assert platform.history() == []
    assert platform.counts == {"draft": 4}


def test_a_draft_ends_after_its_lifetime_or_with_a_message_in_its_thread() -> None:
    platform = unkeyed(native=DraftRules(lifetime_s=10.0, every_s=1.0))
    sent(platform, draft("a"), now=0.0)
    sent(platform, draft("b", target=replace(HERE, thread="8")), now=5.0)
    assert (drafted(platform, "here", 9.9), drafted(platform, "here", 10.0)) == (["a", "b"], ["b"])
    sent(platform, draft("c", 3), now=11.0)
    sent(platform, post("message"), now=12.0)
    assert (drafted(platform, "here", 11.9), drafted(platform, "here", 12.0)) == (["b", "c"], ["b"])
    without_rules = platform_of("unkeyed")
    assert drafted(without_rules, "here", 0.0) == []
    sent(without_rules, draft("a"))
    assert (drafted(without_rules, "here", 29.9), drafted(without_rules, "here", 30.0)) == (["a"], [])


@pytest.mark.parametrize("in_groups", [None, False, True])
def test_a_draft_in_a_group_is_refused_unless_the_rules_allow_it(in_groups: bool | None) -> None:
    rules = None if in_groups is None else DraftRules(lifetime_s=30.0, every_s=1.0, in_groups=in_groups)
    platform = unkeyed(native=rules)
    answer = ask(platform, draft("a", target=GROUP))
    assert answer == Done() if in_groups else isinstance(answer, Denied) and answer.status == 400
    assert ask(platform, draft("a")) == Done()


def test_a_draft_over_the_limit_is_refused_and_not_shown() -> None:
    platform = unkeyed(limit=3)
    assert refused(platform, draft("abcd")) == 413
    assert drafted(platform, "here", 0.0) == []
    assert complaints(platform) == ["size"]


def test_the_platform_knows_what_people_saw_at_any_time() -> None:
    platform = platform_of("unkeyed")
    sent(platform, draft("thin"), now=1.0)
    message_id = sent(platform, post("think"), now=2.0)
    sent(platform, edit(message_id, "thought"), now=3.0)
    sent(platform, post("more"), now=4.0)
    sent(platform, Delete(target=HERE, message_id=message_id), now=5.0)
    seen = [platform.seen("here", at) for at in (0.5, 1.5, 2.5, 3.5, 4.0, 5.0)]
    assert seen == [[], ["thin"], ["think"], ["thought"], ["thought", "more"], ["more"]]
    versions = [(version.at, version.message.text) for version in platform.versions(message_id)]
    assert versions == [(2.0, "think"), (3.0, "thought"), (5.0, "thought")]


def test_without_the_calls_only_the_messages_are_kept() -> None:
    platform = SimulatedPlatform(capabilities_of("unkeyed"), keeps_calls=False)
    sent(platform, draft("a"), now=0.0)
    message_id = sent(platform, post("one"), now=1.0)
    assert (platform.calls, platform.versions(message_id), platform.drafts("here", 0.5)) == ([], [], [])
    assert platform.texts("here") == ["one"]


def test_media_are_messages_and_typing_is_none() -> None:
    platform = platform_of("unkeyed")
    sent(platform, PostMedia(target=HERE, url="x:picture", caption="look"))
    assert ask(platform, Typing(target=HERE)) == Done()
    assert [(message.text, message.media) for message in platform.history()] == [("look", "x:picture")]
    assert platform.counts == {"post_media": 1, "typing": 1}


@pytest.mark.parametrize(("kind", "messages"), [("keyed", 1), ("readback", 2), ("repeatable", 1), ("unkeyed", 2)])
def test_the_same_post_twice_by_kind_of_platform(kind: str, messages: int) -> None:
    platform = platform_of(kind)
    ids = {sent(platform, post("one"), "k") for _ in range(2)}
    assert platform.texts("here") == ["one"] * messages
    assert len(ids) == messages
    assert [bool(message.key) for message in platform.history()] == [kind != "unkeyed"] * messages
    assert complaints(platform) == []


def test_a_key_is_bound_to_its_chat_and_its_scope() -> None:
    platform = platform_of("keyed")
    for target, scope in ((HERE, ""), (THERE, ""), (HERE, "device"), (HERE, "")):
        platform.handle(Request(operation=post("one", target), key="k", scope=scope), 0.0)
    assert len(platform.history()) == 3


def test_a_key_is_forgotten_after_its_window() -> None:
    platform = platform_of("keyed:60")
    for now in (0.0, 59.0, 60.0, 119.0, 120.0):
        sent(platform, post("one"), "k", now)
    assert [message.at for message in platform.history()] == [0.0, 60.0, 120.0]


@pytest.mark.parametrize(("kind", "shown"), [("keyed", "one"), ("repeatable", "two")])
def test_a_key_with_another_text_is_a_complaint(kind: str, shown: str) -> None:
    platform = platform_of(kind)
    for text in ("one", "two"):
        sent(platform, post(text), "k")
    assert platform.texts("here") == [shown]
    assert complaints(platform) == ["key"]


def test_a_message_is_found_by_its_key_on_a_platform_with_readback() -> None:
    platform = platform_of("readback")
    message_id = sent(platform, post("one"), "k")
    assert ask(platform, Find(target=HERE), "k") == Done(message_id)
    assert ask(platform, Find(target=HERE), "other") == Absent()
    assert ask(platform, Find(target=THERE), "k") == Absent()
    assert refused(platform_of("keyed"), Find(target=HERE), "k") == 501


@pytest.mark.parametrize(("unit", "fits"), [("code_points", 4), ("utf16", 2), ("utf8_bytes", 1)])
def test_a_text_over_the_limit_is_refused(unit: Literal["code_points", "utf16", "utf8_bytes"], fits: int) -> None:
    platform = SimulatedPlatform(Capabilities(idempotency=Repeatable(), limit=4, unit=unit))
    message_id = sent(platform, post("😀" * fits), "k")
    long = "😀" * (fits + 1)
    for operation in (post(long), open_stream(long), edit(message_id, long), close_stream(message_id, long)):
        assert refused(platform, operation, "other") == 413
    assert platform.texts("here") == ["😀" * fits]
    assert complaints(platform) == ["size"] * 4


def test_a_caption_has_its_own_limit() -> None:
    platform = unkeyed(caption_limit=3)
    media = PostMedia(target=HERE, url="x:picture", caption="abcd")
    assert refused(platform, media) == 413
    assert sent(platform, replace(media, caption="abc")) == "m1"


@pytest.mark.parametrize(
    ("fault", "is_shown", "ending", "status"),
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
def test_what_each_fault_shows_to_people_and_to_the_caller(
    fault: Fault, is_shown: bool, ending: str, status: int | None
) -> None:
    platform = platform_of("unkeyed", fault)
    reply = reply_to(platform, post("one"))
    assert platform.texts("here") == ["one"] * is_shown
    assert reply.ending == ending
    assert (reply.answer.status if isinstance(reply.answer, Denied) else reply.answer) == (
        Done("m1") if status is None else status
    )
    assert reply.delay_s == (3.0 if isinstance(fault, Delayed) else 0.0)
    assert [call.fault for call in platform.calls] == [str(type(fault).__struct_config__.tag)]
    assert reply_to(platform, post("two")).ending == "whole", "by default a fault is for one call"


@pytest.mark.parametrize("header", [None, 30.0, 1e9, -5.0, "soon"])
def test_the_header_of_a_429_is_passed_on_unchanged(header: float | str | None) -> None:
    platform = platform_of("unkeyed", TooMany(header, everywhere=True))
    assert ask(platform, post("one")) == Denied(429, "too many requests", header, True)


def test_a_503_after_the_call_was_applied_cannot_be_scripted() -> None:
    with pytest.raises(ValueError, match="took nothing"):
        ServerError(503, applied=True)


def test_a_late_message_is_shown_and_found_only_when_it_is_due() -> None:
    platform = platform_of("readback", Late(10.0))
    reply = reply_to(platform, post("one"), "k", 5.0)
    assert (reply.ending, platform.advance(14.0)) == ("never", 15.0)
    assert ask(platform, Find(target=HERE), "k", 14.0) == Absent()
    assert ask(platform, Find(target=HERE), "k", 15.0) == reply.answer == Done("m1")
    assert [message.at for message in platform.history()] == [15.0]
    assert platform.advance(16.0) is None


def test_a_late_message_can_be_answered_at_once() -> None:
    platform = platform_of("unkeyed", Late(10.0, answered=True))
    assert reply_to(platform, post("one")) == Reply(Done("m1"))
    assert platform.texts("here") == []


def test_a_late_message_comes_after_those_sent_meanwhile() -> None:
    platform = platform_of("unkeyed", Late(10.0))
    for now, text in ((0.0, "one"), (1.0, "two")):
        ask(platform, post(text), now=now)
    platform.advance(10.0)
    assert platform.texts("here") == ["two", "one"]


@pytest.mark.parametrize("kind", ["keyed", "repeatable"])
def test_the_key_of_a_late_post_is_known_at_once(kind: str) -> None:
    platform = platform_of(kind, Late(10.0))
    ask(platform, post("one"), "k", 0.0)
    assert sent(platform, post("one"), "k", 1.0) == "m1"
    platform.advance(20.0)
    assert [(message.text, message.edits) for message in platform.history()] == [("one", 0)]


def test_a_late_edit_overwrites_a_newer_one() -> None:
    platform = platform_of("unkeyed", Rule(fault=Late(10.0), kind="edit"))
    message_id = sent(platform, post("one"))
    for now, text in ((1.0, "old"), (2.0, "new")):
        ask(platform, edit(message_id, text), now=now)
    assert platform.texts("here") == ["new"]
    platform.advance(11.0)
    assert platform.texts("here") == ["old"]


def faults_of(platform: SimulatedPlatform, *calls: Operation, now: float = 0.0) -> list[str]:
    """Make the calls. Returns the tag of the fault of each."""
    before = len(platform.calls)
    for operation in calls:
        ask(platform, operation, now=now)
    return [call.fault for call in platform.calls[before:]]


def test_faults_without_a_rule_are_used_in_order() -> None:
    platform = platform_of("unkeyed", TooMany(), ServerError(), Refuse())
    assert faults_of(platform, *[post("x")] * 4) == ["too_many", "server_error", "refuse", ""]
    assert platform.script.unspent == ()


def test_a_rule_names_the_number_the_kind_and_the_chat_of_a_call() -> None:
    platform = platform_of(
        "unkeyed",
        Rule(fault=TooMany(), at=2),
        Rule(fault=Reset(), at=4, times=2),
        Rule(fault=Refuse(), chat="there", kind="post"),
    )
    there = post("x", THERE)
    assert faults_of(platform, *[post("x")] * 6) == ["", "too_many", "", "reset", "reset", ""]
    assert faults_of(platform, Typing(target=THERE), post("x"), there, there) == ["", "", "refuse", ""]


def test_a_rule_without_an_end_ends_when_cleared_or_at_its_time() -> None:
    platform = platform_of("unkeyed", Rule(fault=TooMany(), times=None))
    assert faults_of(platform, *[post("x")] * 3) == ["too_many"] * 3
    platform.script.clear()
    platform.script.add(Rule(fault=ServerError(), times=None, until=60.0))
    assert faults_of(platform, post("x"), now=59.0) == ["server_error"]
    assert faults_of(platform, post("x"), now=60.0) == [""]
    assert platform.script.unspent == ()


def test_a_seed_repeats_the_faults_that_come_by_chance() -> None:
    def run(seed: int) -> list[str]:
        platform = SimulatedPlatform(capabilities_of("unkeyed"), seed=seed)
        platform.script.add(Rule(fault=Reset(), times=None, chance=0.3))
        return faults_of(platform, *[post("x")] * 200)

    assert run(1) == run(1) != run(2)
    assert 30 < run(1).count("reset") < 90


PER_CHAT = capabilities_of("unkeyed", per_chat=Rate(calls=2, per_s=10.0))


def test_calls_above_the_rate_are_a_complaint() -> None:
    platform = SimulatedPlatform(PER_CHAT)
    for now in (0.0, 1.0, 10.0, 10.5):
        sent(platform, post("x"), now=now)
    for operation in (Typing(target=HERE), post("x", THERE)):
        sent(platform, operation, now=10.5)
    found = [(complaint.about, complaint.chat, complaint.at) for complaint in platform.complaints]
    assert found == [("pace", "here", 10.5)]
    assert len(platform.history()) == 5


def test_calls_above_the_rate_can_be_refused() -> None:
    platform = SimulatedPlatform(PER_CHAT, refuses_pace=True)
    answers = [ask(platform, post("x"), now=now) for now in (0.0, 1.0, 4.0, 10.0)]
    assert answers[2] == Denied(429, "too many requests", 6.0)
    assert len(platform.history()) == 3


def test_the_rate_of_all_chats_is_shared() -> None:
    overall = Capabilities(idempotency=Keyed(window_s=1.0), overall=Rate(calls=1, per_s=5.0))
    platform = SimulatedPlatform(overall, refuses_pace=True, slack_s=0.1)
    sent(platform, post("x"), now=0.0)
    assert ask(platform, post("x", THERE), now=1.0) == Denied(429, "too many requests", 4.0, True)
    assert sent(platform, post("x", THERE), now=4.95) == "m2"


def test_a_group_has_its_own_rate_besides_that_of_a_chat() -> None:
    limits = Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=1, per_s=1.0), per_group=Rate(calls=2, per_s=60.0))
    platform = SimulatedPlatform(limits, refuses_pace=True)
    for target, now in ((GROUP, 0.0), (GROUP, 1.0), (HERE, 0.0), (HERE, 1.0), (HERE, 2.0)):
        sent(platform, post("x", target), now=now)
    assert ask(platform, post("x", GROUP), now=2.0) == Denied(429, "too many requests", 58.0)
    assert ask(platform, post("x", replace(GROUP, group=False)), now=3.0) == Denied(429, "too many requests", 57.0)
    sent(platform, draft("x"), now=3.0)
    assert refused(platform, draft("x"), now=3.5) == 429  # a draft is a call, too
    assert len(platform.complaints) == 3


def test_a_call_that_one_rate_refuses_does_not_count_for_another() -> None:
    limits = Capabilities(idempotency=Unkeyed(), per_chat=Rate(calls=1, per_s=10.0), overall=Rate(calls=1, per_s=2.0))
    platform = SimulatedPlatform(limits, refuses_pace=True)
    sent(platform, post("x"), now=0.0)
    assert ask(platform, post("x", THERE), now=1.0) == Denied(429, "too many requests", 1.0, True)
    sent(platform, post("x", THERE), now=2.0)


def test_clearing_forgets_everything_but_the_ids() -> None:
    platform = platform_of("keyed")
    sent(platform, post("one"), "k")
    platform.clear()
    assert (platform.history(), platform.calls, dict(platform.counts)) == ([], [], {})
    assert sent(platform, post("one"), "k") == "m2"


def test_an_unknown_kind_of_platform_is_named() -> None:
    with pytest.raises(ValueError, match=r"'magic'.*keyed"):
        capabilities_of("magic")
