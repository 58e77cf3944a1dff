"""The contract of a channel, in a private chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telegram_setup import TelegramSetup

from tailrace.testing.channel_contract import ChannelContract

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.testing.channel_scenarios import ChannelSetup


class TestTelegramChannel(ChannelContract):
    def setup_in(self, _: Path) -> ChannelSetup:
        return TelegramSetup()
