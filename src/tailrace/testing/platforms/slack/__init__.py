"""A simulated Slack: an HTTP and WebSocket server on this machine that unmodified SDKs of apps talk to.

    async with SlackSimulator() as slack:
        client = AsyncWebClient(token=slack.token, base_url=slack.api_base)  # of slack-sdk
        socket = SocketModeClient(app_token=slack.app_token, web_client=client)
        ...  # start your app
        await slack.act(WriteInSlack(text="hello"))
        await slack.wait_until(lambda: slack.texts() == ["Hello!"])

    tailrace simulate slack  # the same, with a page to type in

The simulator refuses what Slack refuses. Each refusal names its source (`rules.RULES`), and numbers that no source
states are marked as unverified (`rules.unverified_settings`). It needs aiohttp: install `tailrace[slack]`.
"""

from tailrace.testing.platforms.simulator import ActionProblem
from tailrace.testing.platforms.slack.actions import (
    Action,
    ChangeBotMembership,
    EditInSlack,
    PressInSlack,
    RunSlashCommand,
    SendFileInSlack,
    WriteInSlack,
)
from tailrace.testing.platforms.slack.rules import SlackSettings, unverified_settings
from tailrace.testing.platforms.slack.simulator import (
    CHANNEL,
    DEFAULT_APP_TOKEN,
    DEFAULT_SIGNING_SECRET,
    DEFAULT_TOKEN,
    DIRECT,
    PRIVATE_CHANNEL,
    SlackSimulator,
)

__all__ = [
    "CHANNEL",
    "DEFAULT_APP_TOKEN",
    "DEFAULT_SIGNING_SECRET",
    "DEFAULT_TOKEN",
    "DIRECT",
    "PRIVATE_CHANNEL",
    "Action",
    "ActionProblem",
    "ChangeBotMembership",
    "EditInSlack",
    "PressInSlack",
    "RunSlashCommand",
    "SendFileInSlack",
    "SlackSettings",
    "SlackSimulator",
    "WriteInSlack",
    "unverified_settings",
]
