"""Secrets are removed from texts; ordinary text stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailrace.redaction import REDACTED, Redaction, redact

TELEGRAM = "123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghi"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("key sk-abcdefghijklmnop1234 end", "sk-abcdefghijklmnop1234"),
        ("xoxb-1234567890-abcdef", "xoxb-1234567890-abcdef"),
        ("xapp-1-A0123456789-abcdef", "xapp-1-A0123456789-abcdef"),
        ("ghp_abcdefghijklmnopqrstuvwxyz123456", "ghp_abcdefghijklmnopqrstuvwxyz123456"),
        ("AKIAABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP"),
        (f"token {TELEGRAM}", TELEGRAM),
        (f"GET https://api.example/bot{TELEGRAM}/sendMessage failed", TELEGRAM),
        (f"see {JWT}.", JWT),
        ("postgresql://app:hunter22@db.example:5432/main", "hunter22"),
        ("redis://:hunter22@cache", "hunter22"),
        ("amqp://user:p@ss:w0rd@host/v", "p@ss:w0rd"),
        ("connection failed: password=hunter22 host=db", "hunter22"),
        ("DB_PASSWORD: hunter22", "hunter22"),
        ('{"api_key": "a1b2c3d4", "x": 1}', "a1b2c3d4"),
        ("https://host/path?access_token=abcd1234&x=1", "abcd1234"),
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEow and no end", "MIIEow"),
    ],
)
def test_secret_is_replaced(text: str, secret: str) -> None:
    redacted = redact(text)
    assert secret not in redacted
    assert REDACTED in redacted


ORDINARY = (
    *("The password is too short.", "https://user@example.com/a:b", "https://example.com:8080/path@2"),
    *("Meet at 12:30, room 123456789:5.", "max_tokens: 5", "sk-learn and task-based", "token = x"),
)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (
            "could not connect to postgresql://app:hunter22@db/main (5 tries)",
            f"could not connect to postgresql://app:{REDACTED}@db/main (5 tries)",
        ),
        ("api_key=sk-abcdefghijklmnop1234 is wrong", f"api_key={REDACTED} is wrong"),
        ("password=hunter22 host=db", f"password={REDACTED} host=db"),
        *((text, text) for text in ORDINARY),
    ],
)
def test_ordinary_text_and_the_rest_of_a_text_stay(text: str, redacted: str) -> None:
    assert redact(text) == redacted


def test_secret_environment_variables_are_replaced_the_longest_first() -> None:
    redaction = Redaction(
        {"MY_TOKEN": "open-sesame", "OTHER_KEY": "open-sesame-2", "HOME": "/somewhere", "PIN_KEY": "1"}
    )
    assert redaction.text("open-sesame-2, open-sesame, /somewhere, 1") == f"{REDACTED}, {REDACTED}, /somewhere, 1"


def test_values_are_redacted_inside_lists_and_mappings() -> None:
    redaction = Redaction({"MY_TOKEN": "open-sesame"})
    assert redaction.value({"a": ["open-sesame", 1], "open-sesame": None}) == {"a": [REDACTED, 1], REDACTED: None}


@given(st.text(alphabet="ab:/@=\"' -.passwordtokenskBEGIN0123456789\n", max_size=200))
def test_redacting_again_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once
