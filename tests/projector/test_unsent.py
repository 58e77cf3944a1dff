"""The text that is kept for a crash is not repeated from messages that carry it, or may carry it."""

from __future__ import annotations

from tailrace.capabilities import Capabilities, EditRules, Unkeyed
from tailrace.events import BlockFinal, TextDelta
from tailrace.operations import Ambiguous, Post, Target
from tailrace.projector import Projector, ProjectorSettings

LIMITS = Capabilities(idempotency=Unkeyed(), limit=100, edits=EditRules(every_s=1.0))
HERE = Target(channel="here", chat="1")
SENTENCE = "This sentence is long enough for a first message."


def test_text_that_may_have_been_posted_is_not_unsent() -> None:
    projector = Projector(HERE, LIMITS, ProjectorSettings(presentation="live"))
    projector.feed(TextDelta(text=SENTENCE), 0.0)
    post = projector.next(2.0)
    assert isinstance(post, Post)
    projector.receipt(post, Ambiguous("no answer"), 3.0)
    projector.feed(TextDelta(text=" And more."), 4.0)
    assert projector.unsent.text == " And more."


def test_replaced_text_is_unsent_once() -> None:
    projector = Projector(HERE, LIMITS, ProjectorSettings(presentation="final"))
    replaced = " ".join([SENTENCE] * 5)
    projector.feed(TextDelta(text="Something else."), 0.0)
    projector.feed(BlockFinal(text=replaced), 1.0)
    assert projector.unsent.text == replaced
