"""Why a model refused, as people are told it."""

from __future__ import annotations

import pytest

from tailrace.runtimes.reasons import reason_of

NESTED = '{"error":{"message":"{\\"error\\":{\\"code\\":429,\\"message\\":\\"too often\\"}}","code":429}}'


@pytest.mark.parametrize(
    ("message", "reason", "status"),
    [
        ('{"error": {"message": "no such model", "code": "bad_model"}}', "no such model", None),
        ('{"message":"it broke","type":"server_error","code":500}', "it broke", 500),
        ('[API Error: {"error":{"code":400,"message":"refused","status":"X"}}]', "API Error: refused", 400),
        ("[API Error: terminated]", "API Error: terminated", None),
        ('unexpected status 400: {"error": "refused"}', "unexpected status 400: refused", None),
        (NESTED, "too often", 429),
    ],
)
def test_the_sentence_is_taken_out_of_what_it_is_wrapped_in(message: str, reason: str, status: int | None) -> None:
    assert reason_of(message) == (reason, status)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "plain words",
        "a { brace",
        '{"error": {}}',
        '{"error": {"message": ""}}',
        "{} and more",
        "[1, 2]",
        '{"a": 1}',
    ],
)
def test_anything_else_stays_as_it_is(message: str) -> None:
    assert reason_of(message) == (message, None)
