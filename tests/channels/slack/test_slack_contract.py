"""The contract of a channel, in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slack_setup import SlackSetup

from tailrace.testing.channel_contract import ChannelContract

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.testing.channel_scenarios import ChannelSetup


class TestSlackChannel(ChannelContract):
    def setup_in(self, _: Path) -> ChannelSetup:
        return SlackSetup()
