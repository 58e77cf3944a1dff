"""Each line of the log has the names of what it is about, also in tasks that outlive a turn."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from delivery_setup import in_virtual_time

from gateway.gateway_setup import GatewaySetup
from tailrace.log_context import named
from tailrace.testing.faults import LoseAccess, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.testing.virtual_time import Simulation


class Listener(logging.Handler):
    """Keeps each message with the names of its line."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[tuple[str, dict[str, str]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), named()))

    def names(self, text: str) -> list[dict[str, str]]:
        return [names for message, names in self.lines if text in message]


@pytest.fixture
def listener() -> Iterator[Listener]:
    ours, handler = logging.getLogger("tailrace"), Listener()
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    yield handler
    ours.setLevel(logging.NOTSET)
    ours.removeHandler(handler)


@in_virtual_time
async def test_lines_of_turns_and_deliveries_have_their_names(simulation: Simulation, listener: Listener) -> None:
    setup = GatewaySetup(simulation)
    setup.platform.script.add(Rule(fault=LoseAccess(), kind="post"), Rule(fault=LoseAccess(), kind="post", at=2))
    async with setup.running():
        setup.say("slow")
        setup.say("two")
        setup.say("other", chat="8")
        setup.agent.go_on.set()
        await setup.until(lambda: len(setup.texts()) == 2 and len(setup.texts("8")) == 1, within_s=600)
        await setup.until(lambda: len(listener.names("the turn has ended")) == 3)
    ended = listener.names("the turn has ended")
    assert sorted(names["conversation"] for names in ended) == ["simulated:7", "simulated:7", "simulated:8"]
    assert len({names["turn"] for names in ended}) == 3
    lost = listener.names("access is lost")
    turns = {names["turn"]: names["conversation"] for names in ended}
    assert len(lost) == 2
    for names in lost:
        assert names["conversation"] == turns[names["turn"]]
        assert names["delivery"] == f"{names['turn']}.1"
    assert len({names["turn"] for names in lost}) == 2
