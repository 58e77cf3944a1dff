"""The provider's own error message, as people see it."""

from __future__ import annotations

import pytest

from tailrace.runtimes.provider_errors import provider_error_text

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
        # As SDKs in Python write it: openai's, Pydantic AI's and Google's.
        ("Error code: 400 - {'error': {'message': 'no such model', 'code': None}}", "no such model", 400),
        ("status_code: 500, model_name: m, body: {'code': 'x', 'message': 'it broke'}", "it broke", 500),
        ("429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'too often'}}", "too often", 429),
        ("""Error code: 400 - {'message': "it's {not} so"}""", "it's {not} so", 400),
        (r"Error code: 400 - {'message': 'a \'b\' \"c\"\n\\d \x07'}", "a 'b' \"c\"\n\\d \\x07", 400),
    ],
)
def test_message_is_taken_out_of_its_wrapping(message: str, reason: str, status: int | None) -> None:
    assert provider_error_text(message) == (reason, status)


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
        "404 pages are missing",
        "Error code: 503",
        "status_code: 500, model_name: m, body: None",
        "Error code: 400 - {'message': ''}",
        "Error code: 400 - {'message': 'never ends",
        "7 of 400 {'message': 'went'}",
    ],
)
def test_any_other_text_stays_unchanged(message: str) -> None:
    assert provider_error_text(message) == (message, None)
