"""A world with a few messages, and short ways to call a method and to let people act in it."""

from __future__ import annotations

from typing import Any

from tailrace.testing.platforms.api_server import Upload
from tailrace.testing.platforms.telegram import FORUM, PRIVATE, TelegramSettings, TelegramSimulator, actions, people
from tailrace.testing.platforms.telegram.calls import method_named, perform
from tailrace.testing.platforms.telegram.world import TelegramWorld

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
OWN, OF_ADA, WITH_FILE, GONE = 1, 2, 3, 4  # the messages of the private chat
TOPIC, CLOSED_TOPIC = 4, 7  # those of the forum
NOW = 1_800_000_000.0


def new_world(*, paced: bool = False, **settings: Any) -> TelegramWorld:
    """The world of a simulator, with some messages. Without `paced`, calls need no pauses."""
    return TelegramSimulator(settings=TelegramSettings(enforces_pace=paced, **settings)).world


def filled_world() -> TelegramWorld:
    """A world with the messages `OWN`, `OF_ADA`, `WITH_FILE` and `GONE` in the private chat, and a file."""
    world = new_world()
    call(world, "sendMessage", chat_id=PRIVATE, text="own", reply_markup=buttons("data"))
    people.act(world, actions.WriteMessage(text="of Ada"), NOW)
    call(world, "sendDocument", chat_id=PRIVATE, document=world.store("a.txt", b"text").file_id, caption="caption")
    call(world, "sendMessage", chat_id=PRIVATE, text="gone")
    call(world, "deleteMessage", chat_id=PRIVATE, message_id=GONE)
    world.chats[FORUM].topics[CLOSED_TOPIC].is_closed = True
    world.store("photo.png", PNG, is_photo=True)
    return world


def call(
    world: TelegramWorld, method: str, *, now: float = NOW, uploads: dict[str, Upload] | None = None, **fields: Any
) -> Any:
    """Call the method with these fields."""
    return perform(world, method_named(method), fields, uploads or {}, now)


def buttons(data: str, text: str = "Yes") -> dict[str, Any]:
    return {"inline_keyboard": [[{"text": text, "callback_data": data}]]}
