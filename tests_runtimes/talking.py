"""A person who talks to an agent with `tailrace chat`, and the lines they see."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pseudo_terminal import CTRL_C, CTRL_D, TAILRACE, Person
from tailrace.testing.scripted_scenarios import Call, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tailrace.testing.scripted_model import ScriptedModel


class Talk:
    """A conversation at a terminal."""

    def __init__(self, person: Person) -> None:
        self.person = person

    def begin(self, text: str) -> None:
        """Type it at the prompt."""
        self.person.is_prompted()
        self.person.type(f"{text}\r")
        self.person.until(lambda: self.person.all_text().rpartition("\n> ")[2].startswith(text), f"> {text}")

    def answer(self, text: str) -> list[str]:
        """Type it. Returns the lines up to the next prompt."""
        self.begin(text)
        return self.ended()

    def ended(self) -> list[str]:
        """Wait for the next prompt. Returns the lines of the answer, with every duration as (T)."""
        self.person.is_prompted()
        lines = self.person.all_text().split("\n")[:-1]
        begin = max(number for number, line in enumerate(lines) if line.startswith("> "))
        shown = [re.sub(r"\(\d+\.\ds\)", "(T)", line) for line in lines[begin + 1 :]]
        assert shown[-1] == "", "a blank line is above the prompt"
        return shown[:-1]

    def chooses(self, key: str) -> None:
        """Answer the question on the screen."""
        self.person.until(lambda: self.person.all_text().endswith(", n:"), "choices")
        self.person.type(f"{key}\r")

    def stops(self) -> list[str]:
        """Press Ctrl-C. Returns the lines of the answer."""
        self.person.type(CTRL_C)
        return self.ended()

    def colours(self, text: str) -> set[str]:
        """The colours of the line that begins with this text."""
        (row,) = [y for y, line in enumerate(self.person.screen.display) if line.startswith(text)]
        cells = self.person.screen.buffer[row]
        return {cells[x].fg for x in range(self.person.screen.columns) if cells[x].data.strip()}


@contextmanager
def talk(agent: str, *options: str, cwd: Path, env: Mapping[str, str], columns: int = 130) -> Iterator[Talk]:
    """Run `tailrace chat`. At the end the person leaves, and no traceback may be on the screen."""
    with Person(TAILRACE, "chat", agent, *options, cwd=cwd, env=env, columns=columns, rows=60) as person:
        yield Talk(person)
        person.is_prompted()
        assert "Traceback" not in person.all_text()
        person.type(CTRL_D)
        assert person.leaves() == 0


def without_notices(lines: list[str]) -> list[str]:
    """The answer without the notices before it: codex warns that it does not know the model."""
    begin = next(number for number, line in enumerate(lines) if not line.startswith(("· ", "  ")))
    return lines[begin + 1 :] if begin and lines[begin] == "" else lines[begin:]


ASKED = ["Let me look.", "", '◌ weather: {"city":"Oslo"}', "", "? AGENT wants to call weather"]
CHOICES = ['    {"city":"Oslo"}', "  1  Allow", "  2  Deny"]
MADE = '✓ weather: {"city":"Oslo"} (T)'
THAT_IS_THAT = ["", "That is that."]


@contextmanager
def talk_to_forecaster(program: str, folder: Path, model: ScriptedModel) -> Iterator[Talk]:
    """Talk to the agent of this program. Its tool `weather` writes a file `asked`."""
    (folder / "my_app.py").write_text(program)
    model.scenarios["weather"] = ((say("Let me look."), Call("weather", {"city": "Oslo"})), (say("That is that."),))
    env = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": "nobody-checks-it"}
    with talk("my_app:agent", cwd=folder, env=env) as forecaster:
        assert forecaster.answer("[[scenario:hello]]") == ["Hello from the scripted model."]
        yield forecaster


def asks_before_it_calls(forecaster: Talk, folder: Path, *, name: str, denied: str) -> None:
    """The agent asks before it calls its tool. A denied call fails, an allowed one runs."""
    for key, ended in (("n", f"✗{MADE[1:]} · {denied}"), ("y", MADE)):
        forecaster.begin("[[scenario:weather]]")
        forecaster.chooses(key)
        asked = [line.replace("AGENT", name) for line in ASKED]
        assert forecaster.ended() == [*asked, *CHOICES, f"  1-2, y, n: {key}", ended, *THAT_IS_THAT]
        assert (folder / "asked").exists() == (key == "y")


def is_stopped_and_fails(forecaster: Talk) -> list[str]:
    """Stop the agent in the middle of a text, then let its model refuse. Returns the lines before that failure."""
    forecaster.begin("[[scenario:stall]]")
    forecaster.person.sees("Before the silence")
    assert forecaster.stops() == ["Before the silence", "", "cancelled"]
    *before, failed = forecaster.answer("[[scenario:http400]]")
    assert failed.startswith("failed: ")
    assert "the scripted model refuses this request" in failed
    assert forecaster.colours("failed: ") == {"red"}
    return before
