"""The calls of the Bot API for each operation; aiogram says whether Telegram has such fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from aiogram import methods

from tailrace.capabilities import TELEGRAM, TELEGRAM_RICH
from tailrace.channels.telegram import calls
from tailrace.channels.telegram.client import MethodCall
from tailrace.channels.telegram.limits import ChatLimits
from tailrace.channels.telegram.updates import KINDS
from tailrace.errors import SendRefused
from tailrace.operations import Body, Button, Draft, Edit, Entity, Post, PostMedia, Target
from tailrace.ports import MenuCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC = Target(channel="telegram", chat="-1001234", thread="77", group=True)
STYLED = Body(
    text="Hello, here: x = 1",
    entities=(
        Entity(type="text_link", offset=7, length=4, url="https://example.org"),
        Entity(type="pre", offset=13, length=5, language="python"),
    ),
    html="<p>Hello</p>",
)
ADDRESS = {"chat_id": -1001234, "message_thread_id": 77}
ENTITIES = [
    {"type": "text_link", "offset": 7, "length": 4, "url": "https://example.org"},
    {"type": "pre", "offset": 13, "length": 5, "language": "python"},
]


def fields(call: MethodCall) -> dict[str, Any]:
    """The fields of a call that aiogram accepts."""
    method = getattr(methods, f"{call.method[0].upper()}{call.method[1:]}")
    assert call.fields.keys() <= method.model_fields.keys()
    method.model_validate(call.fields)
    return dict(call.fields)


def buttons(*values: str) -> Body:
    return Body(text="Which?", buttons=tuple(Button(label=f"Button {value}", value=value) for value in values))


def keyboard(values: Sequence[str]) -> Any:
    call = calls.post_call(Post(target=TOPIC, body=buttons(*values)), TOPIC.chat, rich=False)
    return fields(call)["reply_markup"]["inline_keyboard"]


def test_a_text_goes_with_its_entities_and_without_previews() -> None:
    call = calls.post_call(Post(target=TOPIC, body=STYLED, reply_to="5"), TOPIC.chat, rich=False)
    assert call.method == "sendMessage"
    assert fields(call) == ADDRESS | {
        "text": STYLED.text,
        "entities": ENTITIES,
        "link_preview_options": {"is_disabled": True},
        "reply_parameters": {"message_id": 5, "allow_sending_without_reply": True},
    }


def test_an_edit_replaces_text_and_buttons() -> None:
    call = calls.edit_call(Edit(target=TOPIC, message_id="9", body=STYLED), TOPIC.chat, rich=False)
    assert call.method == "editMessageText"
    assert fields(call) == {
        "chat_id": -1001234,
        "message_id": 9,
        "text": STYLED.text,
        "entities": ENTITIES,
        "link_preview_options": {"is_disabled": True},
    }


def test_a_draft_can_be_stopped() -> None:
    draft = Draft(target=Target(channel="telegram", chat="7"), draft_id=3, body=Body(text="Hel"))
    call = calls.draft_call(draft, "7", rich=False)
    assert call.method == "sendMessageDraft"
    assert fields(call) == {"chat_id": 7, "draft_id": 3, "text": "Hel", "can_stop": True, "keep_on_stop": True}


def test_rich_messages_are_html_where_there_is_some() -> None:
    rich = {"rich_message": {"html": "<p>Hello</p>"}}
    post, draft = Post(target=TOPIC, body=STYLED), Draft(target=TOPIC, draft_id=3, body=STYLED)
    edit = Edit(target=TOPIC, message_id="9", body=STYLED)
    posted = calls.post_call(post, TOPIC.chat, rich=True)
    assert (posted.method, fields(posted)) == ("sendRichMessage", ADDRESS | rich)
    edited = calls.edit_call(edit, TOPIC.chat, rich=True)
    assert fields(edited) == {"chat_id": -1001234, "message_id": 9} | rich
    drafted = calls.draft_call(draft, TOPIC.chat, rich=True)
    assert drafted.method == "sendRichMessageDraft"
    assert fields(drafted) == ADDRESS | rich | {"draft_id": 3, "can_stop": True, "keep_on_stop": True}
    plain = calls.post_call(Post(target=TOPIC, body=Body(text="a line")), TOPIC.chat, rich=True)
    assert plain.method == "sendMessage"


def test_media() -> None:
    url, bold = "https://example.org/a.png", Entity(type="bold", offset=2, length=4)
    photo = calls.media_call(
        PostMedia(target=TOPIC, url=url, caption="A mill", entities=(bold,)), TOPIC.chat, as_photo=True
    )
    assert photo.method == "sendPhoto"
    caption = {"caption": "A mill", "caption_entities": [{"type": "bold", "offset": 2, "length": 4}]}
    assert fields(photo) == ADDRESS | {"photo": url} | caption
    file = calls.media_call(PostMedia(target=TOPIC, path="a.pdf"), TOPIC.chat, as_photo=False)
    assert file.method == "sendDocument"
    assert file.fields == ADDRESS  # the file itself goes beside the fields


def test_other_calls() -> None:
    assert fields(calls.reaction_call("7", "5", "👀"))["reaction"] == [{"type": "emoji", "emoji": "👀"}]
    assert fields(calls.reaction_call("7", "5", ""))["reaction"] == []
    assert fields(calls.answer_call("42", "x" * 300))["text"] == "x" * 200
    menu = fields(calls.commands_call([MenuCommand(name="stop", description="Stop the answer")]))
    assert menu == {"commands": [{"command": "stop", "description": "Stop the answer"}]}
    methods.GetUpdates(timeout=30, allowed_updates=list(KINDS))
    assert calls.chat_fields("@news") == {"chat_id": "@news"}


def test_buttons_take_one_row_if_they_fit() -> None:
    assert [len(row) for row in keyboard(["1", "2"])] == [2]
    assert [len(row) for row in keyboard(["1", "2", "3", "4"])] == [1, 1, 1, 1]
    assert keyboard(["✓" * 21])[0][0]["callback_data"] == "✓" * 21


@pytest.mark.parametrize("value", ["", "x" * 65, "✓" * 22])
def test_a_value_that_does_not_fit_is_refused(value: str) -> None:
    with pytest.raises(SendRefused, match="1 to 64 bytes"):
        keyboard([value])


@pytest.mark.parametrize("text", ["", "x", "5.0", "٣", "-", "9" * 30])
def test_ids_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(SendRefused, match="not a number"):
        calls.edit_call(Edit(target=TOPIC, message_id=text, body=STYLED), TOPIC.chat, rich=False)


def test_chats_differ() -> None:
    limits = ChatLimits(rich=False)
    private, group = limits.of("7", is_broadcast=False), limits.of("-7", is_broadcast=False)
    broadcast = limits.of("@news", is_broadcast=True)
    assert limits.account == TELEGRAM
    assert (private.per_group, group.per_group) == (None, TELEGRAM.per_group)
    assert group.native is None
    assert group.edits is not None
    assert group.edits.every_s == 4.0
    assert (private.typing_s, group.typing_s, broadcast.typing_s) == (5.0, 5.0, None)
    assert ChatLimits(rich=True).account == TELEGRAM_RICH
