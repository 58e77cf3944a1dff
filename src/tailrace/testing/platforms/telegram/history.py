"""What people see in the chats of the simulated Telegram, at any time."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from tailrace.testing.platforms.visible import (
    SeenButton,
    SeenChat,
    SeenDraft,
    SeenMessage,
    SeenNotice,
    SeenVersion,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tailrace.testing.platforms.telegram.entities import MessageEntity
    from tailrace.testing.platforms.telegram.rules import TelegramSettings
    from tailrace.testing.platforms.telegram.world import (
        DraftVersion,
        TelegramChat,
        TelegramContent,
        TelegramMessage,
        TelegramWorld,
    )

_TAGS = {
    "bold": "b",
    "italic": "i",
    "underline": "u",
    "strikethrough": "s",
    "code": "code",
    "blockquote": "blockquote",
    "expandable_blockquote": "blockquote",
    "spoiler": 'span class="spoiler"',
    "mention": 'span class="link"',
    "bot_command": 'span class="link"',
    "text_mention": 'span class="link"',
}


def seen_chat(world: TelegramWorld, chat: TelegramChat, at: float) -> SeenChat:
    """The chat as its members saw it at that time."""
    return SeenChat(
        id=chat.id,
        type=chat.type,
        title=chat.title,
        members=tuple((user.id, user.first_name) for user in chat.members.values()),
        topics=tuple((thread, topic.title) for thread, topic in chat.topics.items()),
        commands=_commands(world, chat),
        messages=tuple(_seen(world, chat, message, at) for message in chat.messages.values() if message.at <= at),
        drafts=tuple(_draft(chat, draft) for draft in chat.drafts if draft.at <= at < draft.until),
        doing=tuple(sorted({action.action for action in chat.actions if action.at <= at < action.until})),
        notices=tuple(
            SeenNotice(query.answered_at, query.user.first_name, query.answer, query.is_alert)
            for query in chat.queries.values()
            if query.answer and query.answered_at <= at
        ),
    )


def formatted(text: str, entities: Iterable[MessageEntity]) -> str:
    """The text with its entities, as HTML. The text is escaped, so the HTML is safe inside a page."""
    units = text.encode("utf-16-le", "surrogatepass")
    open_entities: list[MessageEntity] = []
    parts: list[str] = []
    waiting = sorted(entities, key=lambda entity: (entity.offset, -entity.length))
    edges = sorted({edge for entity in waiting for edge in (entity.offset, entity.end)} | {0, len(units) // 2})
    for index, edge in enumerate(edges):
        # Entities that overlap without nesting are closed together and opened again.
        if any(entity.end == edge for entity in open_entities):
            parts += [_end(entity) for entity in reversed(open_entities)]
            open_entities = [entity for entity in open_entities if entity.end != edge]
            parts += [_begin(entity, units) for entity in open_entities]
        while waiting and waiting[0].offset == edge:
            parts.append(_begin(waiting[0], units))
            open_entities.append(waiting.pop(0))
        end = edges[index + 1] if index + 1 < len(edges) else edge
        shown = units[2 * edge : 2 * end].decode("utf-16-le", "replace")
        if parts and parts[-1] in {"</code></pre>", "</blockquote>"}:
            shown = shown.removeprefix("\n")  # the block itself ends the line
        parts.append(html.escape(shown))
    return "".join(parts)


def _begin(entity: MessageEntity, units: bytes) -> str:
    if entity.type == "pre":
        language = f'<span class="language">{html.escape(entity.language)}</span>' if entity.language else ""
        return f"<pre>{language}<code>"
    if entity.type in {"url", "text_link"}:
        shown = units[2 * entity.offset : 2 * entity.end].decode("utf-16-le", "replace")
        return f'<a rel="noreferrer" title="{html.escape(entity.url or shown)}">'
    return f"<{_TAGS.get(entity.type, 'span')}>"


def _end(entity: MessageEntity) -> str:
    if entity.type == "pre":
        return "</code></pre>"
    name = "a" if entity.type in {"url", "text_link"} else _TAGS.get(entity.type, "span").partition(" ")[0]
    return f"</{name}>"


def _seen(world: TelegramWorld, chat: TelegramChat, message: TelegramMessage, at: float) -> SeenMessage:
    versions = [version for version in message.versions if version.at <= at]
    content = versions[-1].content
    rows = (content.keyboard or {}).get("inline_keyboard", ())
    changes = {user: emoji for changed_at, user, emoji in message.reactions if changed_at <= at}
    return SeenMessage(
        id=message.message_id,
        sender=chat.title if chat.type == "channel" else message.sender.first_name,
        is_bot=message.sender == world.bot,
        at=message.at,
        text=_text(content),
        html=_html(content),
        service=_service(message),
        topic=_topic(chat, message.thread),
        reply_to=message.reply_to,
        file=content.file.name if content.file is not None else "",
        file_url=f"/simulator/files/{content.file.file_id}" if content.file is not None else "",
        is_photo=content.file is not None and content.file.is_photo,
        buttons=tuple(tuple(SeenButton(b["text"], str(b.get("url", ""))) for b in row) for row in rows),
        reactions=tuple(emoji for shown in changes.values() for emoji in shown),
        edits=tuple(SeenVersion(v.at, _text(v.content), _html(v.content)) for v in versions[:-1]),
        deleted_at=message.deleted_at if message.deleted_at is not None and message.deleted_at <= at else None,
        notified=_notified(world, message, at),
    )


def _notified(world: TelegramWorld, message: TelegramMessage, at: float) -> tuple[str, ...]:
    """The first lines of the notifications about a message.

    Empty for a silent message, although it notifies without sound.
    """
    if message.sender != world.bot or message.is_silent or message.service:
        return ()
    settings: TelegramSettings = world.settings
    notifying = message.versions if settings.edits_notify else message.versions[:1]
    return tuple(
        (_text(version.content).partition("\n")[0] or _file_name(version.content))[: settings.notification_limit]
        for version in notifying
        if version.at <= at
    )


def _file_name(content: TelegramContent) -> str:
    return "" if content.file is None else "Photo" if content.file.is_photo else content.file.name


def _service(message: TelegramMessage) -> str:
    for name, value in message.service.items():
        if name == "forum_topic_created":
            return f"created the topic {value['name']}"
        if name == "new_chat_members":
            return "joined"
        return {"left_chat_member": "left"}.get(name, name.replace("_", " "))
    return ""


def _topic(chat: TelegramChat, thread: int | None) -> str:
    return chat.topics[thread].title if thread in chat.topics else ""


def _commands(world: TelegramWorld, chat: TelegramChat) -> tuple[tuple[str, str], ...]:
    """The commands in the menu of the bot: those for this kind of chat, or else those for all chats.

    Channels have none.
    """
    scope = "all_private_chats" if chat.type == "private" else "all_group_chats"
    commands = [] if chat.type == "channel" else world.commands.get(scope, world.commands.get("default", []))
    return tuple((command["command"], command["description"]) for command in commands)


def _text(content: TelegramContent) -> str:
    return content.text if content.rich is None else content.rich.text


def _html(content: TelegramContent) -> str:
    if content.rich is not None:
        return f'<div class="rich">{content.rich.html}</div>'
    return formatted(content.text, content.entities)


def _draft(chat: TelegramChat, draft: DraftVersion) -> SeenDraft:
    return SeenDraft(
        id=draft.draft_id,
        text=_text(draft.content),
        html=_html(draft.content),
        topic=_topic(chat, draft.thread),
        can_stop=draft.can_stop,
    )
