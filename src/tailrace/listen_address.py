"""The addresses to listen at, as the settings write them: `host:port`, such as `127.0.0.1:8766` or `[::1]:8766`."""

from __future__ import annotations


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of an address such as `127.0.0.1:8766`. Port 0 means any free port.

    Raises `ValueError`, which says what is expected.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise ValueError("expected host:port, such as 127.0.0.1:8766")
    return host.strip("[]"), int(port)
