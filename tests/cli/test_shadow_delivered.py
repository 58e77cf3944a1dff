"""`tailrace deliver --shadow-…`: a turn that is sent, and what another way would have made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from command_runs import ANSWER, KEYED, PARTS, House, ended, give, lines, said
from tailrace.capabilities import Capabilities, EditRules
from tailrace.testing.platform_process import PlatformProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = Capabilities(idempotency=KEYED, limit=120, edits=EditRules(every_s=0.05), deletes=True)


@pytest.fixture
def chat() -> Iterator[PlatformProcess]:
    with PlatformProcess(LIMITS) as at:
        yield at


@pytest.mark.parametrize("presented", [(), ("--presentation", "live"), ("--presentation", "final")])
def test_the_turn_is_sent_as_ever_and_its_shadow_told_at_the_end(
    tmp_path: Path, chat: PlatformProcess, presented: tuple[str, ...]
) -> None:
    done = House(tmp_path, chat).deliver("--turn", "t", *presented, "--shadow-presentation", "final")
    assert done.exit_code == 0, done.err
    assert chat.texts("room") == PARTS
    assert f"shadow: {len(PARTS)} identical" in done.err


def test_a_shadow_that_says_something_else_leaves_the_exit_code_alone(tmp_path: Path, chat: PlatformProcess) -> None:
    given = lines(said("Quiet"), {"type": "turn_completed"})
    house = House(tmp_path, chat)
    done = ended(house.start_deliver("--turn", "t", "--shadow-set", 'silent=["Quiet"]'), given)
    assert (done.exit_code, chat.texts("room")) == (0, ["Quiet"])
    assert "shadow: 1 lost, 1 calls" in done.err
    assert "  lost: 'Quiet'" in done.err


def test_as_json_the_shadow_is_the_last_object(tmp_path: Path, chat: PlatformProcess) -> None:
    done = House(tmp_path, chat).deliver("--turn", "t", "--shadow-presentation", "blocks", "--json")
    *deliveries, shadow = done.objects
    assert [each["state"] for each in deliveries] == ["delivered"] * len(PARTS)
    assert shadow["shadow"]["turn"] == "t"
    assert shadow["shadow"]["counts"]


def test_a_turn_that_is_gone_on_with_is_not_compared(tmp_path: Path, chat: PlatformProcess) -> None:
    house = House(tmp_path, chat)
    process = house.start_deliver("--turn", "t", "--presentation", "live")
    give(process, lines(said(ANSWER[:150])))
    chat.wait(messages=2)
    process.kill()
    ended(process)
    done = house.deliver("--turn", "t", "--presentation", "live", "--shadow-presentation", "final")
    assert done.exit_code == 0, done.err
    assert chat.texts("room") == PARTS
    assert "the shadow was given up: what a former process said of the turn has no times" in done.err


def test_a_setting_that_cannot_be_is_refused_before_anything_is_sent(tmp_path: Path, chat: PlatformProcess) -> None:
    done = House(tmp_path, chat).deliver("--turn", "t", "--shadow-set", "edit_evry_s=4")
    assert (done.exit_code, chat.texts("room")) == (2, [])
    assert "Did you mean 'edit_every_s'?" in done.err


def test_a_channel_that_cannot_be_used_is_told_as_ever(tmp_path: Path) -> None:
    done = House(tmp_path).run("deliver", "--channel", "nowhere", "--to", "me", "--shadow-presentation", "final")
    assert (done.exit_code, "nowhere" in done.err) == (2, True)
