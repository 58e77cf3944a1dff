"""The words of a chat that the gateway itself understands, such as `/stop`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailrace.gateway.schedule import schedule_of
from tailrace.operations import Button

if TYPE_CHECKING:
    from tailrace.inbound import InboundMessage

WORDS: dict[str, str] = {
    "stop": "stop the answer that is being written",
    "new": "begin a new conversation; the agent forgets the earlier one",
    "retry": "answer your last message again",
    "resend": "send what may be missing",
    "status": "show what runs and what waits",
    "help": "show these words",
}
"""The words, and what each does. They are also the menu of the platform, where it has one."""

QUEUED = frozenset({"new", "retry"})
"""The words that take effect after the messages before them. The others take effect at once."""

STOP_BUTTON = Button(label="Stop", value="/stop")
WORD_BUTTONS = tuple(Button(label=word.capitalize(), value=f"/{word}") for word in WORDS if word != "help")

HELP = "\n".join(
    ["Write what you want to say. These words are for me, not for the agent:", ""]
    + [f"- `/{word}` – {meaning}" for word, meaning in WORDS.items()]
)


def word_of(message: InboundMessage) -> str:
    """The word of the message; "" if it is for the agent. `/start`, which Telegram sends first, is `help`."""
    if schedule_of(message):
        return ""
    command = message.command
    if not command and message.text.startswith("/"):
        command = message.text[1:].split(maxsplit=1)[0] if message.text[1:].strip() else ""
    command = command.lower()
    if command == "start":
        return "help"
    return command if command in WORDS else ""


def rest_of(message: InboundMessage) -> str:
    """The text behind the word."""
    if message.command:
        return message.text.strip()
    return message.text.partition(" ")[2].strip()


def prompt_of(message: InboundMessage) -> str:
    """The text for the agent. A command that is none of our words is passed on with its slash."""
    if message.command:
        return f"/{message.command} {message.text}".strip()
    return message.text.strip()


def files_of(message: InboundMessage) -> str:
    """The names of the files of a message, for people."""
    return ", ".join(attachment.name or attachment.mime or "a file" for attachment in message.attachments)
