"""Real runs of gemini-cli, with the scripted model. Needs: npm @google/gemini-cli@0.61.0"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from command_lines import command
from command_turns import BreakingTurns
from playing import play, said, shown, terminal, tools

from tailrace.events import Event, Notice, TextDelta, TurnCompleted
from tailrace.runtimes.gemini import GeminiRuntime
from tailrace.runtimes.restart_detector import MAY_BE_RESTARTED
from tailrace.testing.scripted_scenarios import Fail, Shell, say

if TYPE_CHECKING:
    from command_lines import Place


def gemini(place: Place, *options: str) -> GeminiRuntime:
    named = (command("gemini"), "-m", "gemini-2.5-flash", *(options or ("--approval-mode", "yolo")))
    return GeminiRuntime(named, env=place.gemini(), cwd=place.work)


class TestGemini(BreakingTurns):
    shell = "run_shell_command"
    thoughts = None
    broken = ""
    refused_status = 400

    def runtime(self, place: Place) -> GeminiRuntime:
        return gemini(place)


def test_a_tool_that_its_mode_does_not_allow_is_not_run(place: Place) -> None:
    made = place.root / "made"
    place.model.scenarios["ask"] = ((say("I make a file."), Shell(f"touch {made}")), (say("That is that."),))
    events = play(gemini(place, "--approval-mode", "default"), "[[scenario:ask]]")
    assert not made.exists()
    assert tools(events) == {}
    assert said(events) == "I make a file.I have no tool for that."


@pytest.mark.parametrize(
    ("second", "texts"),
    [
        (("This is going ", "to break, but it holds."), ["This is going to break, but it holds."]),
        # If the second try sends other text, it is not known which of the two counts.
        (("This is going ", "to be whole."), ["This is going to break", "This is going to be whole."]),
    ],
)
def test_a_second_try_replaces_the_first_or_stands_apart(
    place: Place, second: tuple[str, ...], texts: list[str]
) -> None:
    place.model.scenarios["again"] = ((say("This is going ", "to break"), Fail()),)

    def mend(event: Event) -> None:
        if isinstance(event, TextDelta):
            place.model.scenarios["again"] = ((say(*second),),)

    events = play(gemini(place), "[[scenario:again]]", at_event=mend)
    assert shown(events) == texts
    assert (Notice(text=MAY_BE_RESTARTED) in events) == (len(texts) > 1)
    assert terminal(events) == TurnCompleted()
