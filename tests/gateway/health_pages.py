"""Asks a gateway for its health pages."""

from __future__ import annotations

import http.client
import socket
from typing import NamedTuple


class Page(NamedTuple):
    status: int
    text: str


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def fetch(port: int, path: str, method: str = "GET") -> Page:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path)
    answer = connection.getresponse()
    return Page(answer.status, answer.read().decode())
