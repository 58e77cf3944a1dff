"""The channel Telegram: texts with entities, live edits, drafts, files, buttons, and what people do, by the Bot API."""

from tailrace.channels.telegram.channel import TelegramChannel
from tailrace.channels.telegram.settings import BotSettings

__all__ = ["BotSettings", "TelegramChannel"]
