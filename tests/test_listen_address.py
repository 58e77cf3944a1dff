"""The addresses to listen at."""

from __future__ import annotations

import pytest

from tailrace.listen_address import listen_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8766", ("127.0.0.1", 8766)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:65535", ("::1", 65_535)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["", "8766", ":8766", "127.0.0.1", "127.0.0.1:", "h:65536", "h:-1", "h:x", "h:٣"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port, such as"):
        listen_address(text)
