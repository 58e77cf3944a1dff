"""The channel Telegram, by the Bot API. It sends texts with styles, live edits, drafts, files, buttons and reactions.

It receives messages, files, commands, presses of buttons, and changes of the bot's rights in a chat.
"""

from tailrace.channels.telegram.channel import TelegramChannel
from tailrace.channels.telegram.settings import BotSettings

__all__ = ["BotSettings", "TelegramChannel"]
