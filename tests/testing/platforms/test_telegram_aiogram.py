"""Unmodified aiogram with the simulated Telegram: every method, both ways to get updates, and its errors."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiogram import Bot, Dispatcher, F
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    TelegramAPIError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.filters import CommandStart
from aiogram.types import (
    BotCommand,
    BufferedInputFile,
    CallbackQuery,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    InputRichBlockParagraph,
    InputRichMessage,
    Message,
    MessageEntity,
    MessageGenerationStopped,
    ReactionTypeEmoji,
    ReplyParameters,
)
from aiogram.webhook.aiohttp_server import SimpleRequestHandler
from aiohttp import web
from telegram_world import PNG

from tailrace.testing.faults import Fault, LoseAccess, Refuse, Reset, ServerError, TooMany
from tailrace.testing.platforms.telegram import (
    FORUM,
    GROUP,
    PRIVATE,
    MigrateGroup,
    PressButton,
    SendFile,
    StopDraft,
    TelegramSettings,
    TelegramSimulator,
    WriteMessage,
)

FREE = TelegramSettings(enforces_pace=False, upload_bytes=100_000)


def with_bot(main: Callable[[TelegramSimulator, Bot], Awaitable[None]]) -> None:
    """Run this with a simulator and a bot that talks to it."""

    async def run() -> None:
        async with TelegramSimulator(settings=FREE) as telegram:
            session = AiohttpSession(api=TelegramAPIServer.from_base(telegram.url))
            async with Bot(telegram.token, session=session) as bot:
                await main(telegram, bot)

    asyncio.run(run())


def test_messages_and_drafts() -> None:
    async def main(telegram: TelegramSimulator, bot: Bot) -> None:
        bold = MessageEntity(type="bold", offset=0, length=5)
        markup = InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text="Yes", callback_data="y")]])
        sent = await bot.send_message(PRIVATE, "hello 😀", entities=[bold], reply_markup=markup)
        assert sent.html_text == "<b>hello</b> 😀"
        assert sent.reply_markup is not None
        assert sent.reply_markup.inline_keyboard[0][0].callback_data == "y"
        edited = await bot.edit_message_text(
            "*new*", chat_id=PRIVATE, message_id=sent.message_id, parse_mode="MarkdownV2"
        )
        assert isinstance(edited, Message)
        assert (edited.html_text, edited.reply_markup) == ("<b>new</b>", None)
        assert await bot.edit_message_reply_markup(chat_id=PRIVATE, message_id=sent.message_id, reply_markup=markup)
        reply = await bot.send_message(
            PRIVATE, "reply", reply_parameters=ReplyParameters(message_id=sent.message_id), disable_notification=True
        )
        assert reply.reply_to_message is not None
        assert reply.reply_to_message.text == "new"
        assert await bot.set_message_reaction(PRIVATE, sent.message_id, reaction=[ReactionTypeEmoji(emoji="👀")])
        assert await bot.delete_message(PRIVATE, reply.message_id)
        assert await bot.send_message_draft(PRIVATE, 5, text="wri", can_stop=True)
        assert await bot.send_rich_message_draft(PRIVATE, 6, InputRichMessage(html="<tg-thinking>a</tg-thinking>"))
        assert await bot.send_chat_action(PRIVATE, "typing")
        assert (len(telegram.seen().drafts), telegram.seen().doing) == (2, ("typing",))
        rich = await bot.send_rich_message(PRIVATE, InputRichMessage(blocks=[InputRichBlockParagraph(text="rich")]))
        assert rich.rich_message is not None
        topic = await bot.create_forum_topic(FORUM, "New")
        in_topic = await bot.send_message(FORUM, "in it", message_thread_id=topic.message_thread_id)
        assert in_topic.message_thread_id == topic.message_thread_id
        assert await bot.set_my_commands([BotCommand(command="stop", description="Stop the answer")])
        assert telegram.world.commands == {"default": [{"command": "stop", "description": "Stop the answer"}]}
        assert telegram.texts() == ["new", "rich"]

    with_bot(main)


def test_files_in_both_directions() -> None:
    async def main(telegram: TelegramSimulator, bot: Bot) -> None:
        sent = await bot.send_photo(PRIVATE, BufferedInputFile(PNG, "a.png"), caption="<i>a</i>", parse_mode="HTML")
        assert sent.photo is not None
        assert (sent.photo[0].width, sent.photo[0].height, sent.html_text) == (640, 480, "<i>a</i>")
        changed = await bot.edit_message_caption(chat_id=PRIVATE, message_id=sent.message_id, caption="b")
        assert isinstance(changed, Message)
        assert changed.caption == "b"
        document = await bot.send_document(PRIVATE, BufferedInputFile(b"text", "a.txt"))
        assert document.document is not None
        again = await bot.send_document(PRIVATE, document.document.file_id)
        assert again.document is not None
        assert again.document.file_id == document.document.file_id
        await telegram.act(SendFile(name="../b.txt", content=b"of Ada"))
        (update,) = await bot.get_updates()
        assert update.message is not None
        assert update.message.document is not None
        assert update.message.document.file_name == "../b.txt"
        content = await bot.download(update.message.document)
        assert content is not None
        assert content.read() == b"of Ada"
        with pytest.raises(TelegramEntityTooLarge):
            await bot.send_document(PRIVATE, BufferedInputFile(b"x" * 100_001, "large"))

    with_bot(main)


def dispatcher() -> Dispatcher:
    """A small bot: it greets with a button, and answers the button, texts and a stopped draft."""
    dispatch = Dispatcher()

    @dispatch.message(CommandStart())
    async def start(message: Message) -> None:
        button = InlineKeyboardButton(text="Go", callback_data="go")
        await message.answer("Hello!", reply_markup=InlineKeyboardMarkup(inline_keyboard=[[button]]))

    @dispatch.callback_query(F.data == "go")
    async def go(query: CallbackQuery, bot: Bot) -> None:
        await query.answer("going")
        await bot.send_message_draft(PRIVATE, 1, text="Going", can_stop=True)

    @dispatch.stopped_message_generation()
    async def stopped(event: MessageGenerationStopped, bot: Bot) -> None:
        await bot.send_message(event.chat.id, f"stopped {event.draft_id}")

    return dispatch


async def converse(telegram: TelegramSimulator) -> None:
    await telegram.act(WriteMessage(text="/start"))
    await telegram.wait_until(lambda: telegram.texts() == ["Hello!"])
    await telegram.act(PressButton(button="Go"))
    await telegram.wait_until(lambda: len(telegram.seen().drafts) == 1)
    assert [notice.text for notice in telegram.seen().notices] == ["going"]
    await telegram.act(StopDraft())
    await telegram.wait_until(lambda: telegram.texts() == ["Hello!", "stopped 1"])


def test_a_bot_that_polls() -> None:
    async def main(telegram: TelegramSimulator, bot: Bot) -> None:
        dispatch = dispatcher()
        polling = asyncio.create_task(dispatch.start_polling(bot, handle_signals=False))
        await converse(telegram)
        await dispatch.stop_polling()
        await polling

    with_bot(main)


def test_a_bot_with_a_webhook() -> None:
    async def main(telegram: TelegramSimulator, bot: Bot) -> None:
        application = web.Application()
        SimpleRequestHandler(dispatcher(), bot, secret_token="secret").register(application, "/hook")
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        await bot.set_webhook(f"http://127.0.0.1:{port}/hook", secret_token="secret", allowed_updates=[])
        await converse(telegram)
        assert (await bot.get_webhook_info()).last_error_message is None
        await bot.delete_webhook()
        await runner.cleanup()

    with_bot(main)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (TooMany(30), TelegramRetryAfter),
        (Refuse(403, "bot was blocked by the user"), TelegramForbiddenError),
        (Refuse(400, "message is too long"), TelegramBadRequest),
        (LoseAccess(), TelegramForbiddenError),
        (LoseAccess(everywhere=True), TelegramUnauthorizedError),
        (ServerError(500), TelegramServerError),
        (Refuse(409, "terminated by other getUpdates request"), TelegramConflictError),
        (Reset(), TelegramNetworkError),
    ],
)
def test_faults_become_the_errors_of_aiogram(fault: Fault, error: type[TelegramAPIError]) -> None:
    async def main(telegram: TelegramSimulator, bot: Bot) -> None:
        telegram.add_faults(fault)
        with pytest.raises(error) as raised:
            await bot.send_message(PRIVATE, "hello")
        assert getattr(raised.value, "retry_after", 30) == 30

    with_bot(main)


def test_a_migrated_group() -> None:
    async def main(telegram: TelegramSimulator, bot: Bot) -> None:
        new_id = await telegram.act(MigrateGroup(chat=GROUP))
        with pytest.raises(TelegramMigrateToChat) as raised:
            await bot.send_message(GROUP, "hello")
        assert raised.value.migrate_to_chat_id == new_id
        updates: list[Any] = await bot.get_updates()
        assert [update.message.migrate_to_chat_id for update in updates] == [new_id, None]

    with_bot(main)


def test_the_test_in_the_documentation_passes(tmp_path: Path) -> None:
    document = Path(__file__).parents[3] / "docs" / "testing-your-bot.md"
    [program] = re.findall(r"(?ms)^```python\n(.*?)^```$", document.read_text(encoding="utf-8"))
    (tmp_path / "test_my_bot.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in run.stdout, run.stdout + run.stderr
