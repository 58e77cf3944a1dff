"""Texts from outside on one line, safe to show and without secrets."""

from __future__ import annotations

import pytest

from tailrace.contract import ADAPTER_FAULTS
from tailrace.events import Error, TurnFailed
from tailrace.projector.wording import failure_text, main_argument

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz123456"


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (Error(message="slow down", code="rate"), "slow down [rate]"),
        (TurnFailed(message="no answer\n  from the model"), "no answer from the model"),
        (TurnFailed(message="postgresql://app:hunter22@db is down"), "postgresql://app:[redacted]@db is down"),
        (TurnFailed(message="x" * 600), "x" * 499 + "…"),
    ],
)
def test_message_of_a_failure_is_one_line_without_secrets(failure: Error | TurnFailed, text: str) -> None:
    assert failure_text(failure) == text


@pytest.mark.parametrize("code", sorted(ADAPTER_FAULTS))
def test_faults_of_the_adapter_are_not_shown_to_people(code: str) -> None:
    assert (
        failure_text(TurnFailed(message="a str is no event. Yield the classes of …", code=code)) == "The answer failed."
    )


def test_main_argument_of_a_tool_has_no_secrets() -> None:
    command = f"curl -H 'Authorization: Bearer {TOKEN}' https://api.example"
    assert main_argument({"command": command}) == "curl -H 'Authorization: Bearer [redacted]' https://api.exam…"
