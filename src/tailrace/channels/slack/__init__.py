"""The channel Slack, by the Web API. It sends Markdown, live edits, streams with tasks, files, buttons and reactions.

It receives messages, files, slash commands, presses of buttons, and changes of the bot's membership, over a socket
(Socket Mode) or by HTTP.
"""

from tailrace.channels.slack.channel import SlackChannel
from tailrace.channels.slack.settings import SlackAppSettings

__all__ = ["SlackAppSettings", "SlackChannel"]
