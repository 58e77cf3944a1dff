"""A simulated Telegram: an HTTP server on this machine that unmodified SDKs of bots talk to.

    async with TelegramSimulator() as telegram:
        session = AiohttpSession(api=TelegramAPIServer.from_base(telegram.url))  # of aiogram
        bot = Bot(telegram.token, session=session)
        ...  # start your bot
        await telegram.act(WriteMessage(text="/start"))
        await telegram.wait_until(lambda: telegram.texts() == ["Hello!"])

    tailrace simulate telegram  # the same, with a page to type in

docs/testing-your-bot.md has a pytest fixture for tests of your own bot.

The simulator refuses what Telegram refuses. Each refusal names its source (`rules.RULES`), and numbers that no source
states are marked as unverified (`rules.unverified_settings`). It needs aiohttp: install `tailrace[telegram]`.
"""

from tailrace.testing.platforms.simulator import ActionProblem
from tailrace.testing.platforms.telegram.actions import (
    Action,
    AddTopic,
    ChangeBotStatus,
    EditMessage,
    JoinChat,
    LeaveChat,
    MigrateGroup,
    PressButton,
    SendFile,
    ShowReactions,
    StopDraft,
    WriteMessage,
)
from tailrace.testing.platforms.telegram.rules import TelegramSettings, unverified_settings
from tailrace.testing.platforms.telegram.simulator import (
    CHANNEL,
    DEFAULT_TOKEN,
    FORUM,
    GROUP,
    PRIVATE,
    TelegramSimulator,
)

__all__ = [
    "CHANNEL",
    "DEFAULT_TOKEN",
    "FORUM",
    "GROUP",
    "PRIVATE",
    "Action",
    "ActionProblem",
    "AddTopic",
    "ChangeBotStatus",
    "EditMessage",
    "JoinChat",
    "LeaveChat",
    "MigrateGroup",
    "PressButton",
    "SendFile",
    "ShowReactions",
    "StopDraft",
    "TelegramSettings",
    "TelegramSimulator",
    "WriteMessage",
    "unverified_settings",
]
