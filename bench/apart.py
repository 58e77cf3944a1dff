"""Measures an area in a process of its own.

Apart, because what one area leaves behind is another's cost: the libraries measured beside ours start threads and
grow the heap, and whoever hands work from thread to thread after them pays for it.
"""

from __future__ import annotations

import importlib
import multiprocessing
from typing import TYPE_CHECKING

from bench.rows import FULL, Row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection


def measured_apart(area: str) -> Iterator[Row]:
    """The rows of an area as a process of its own measures them."""
    processes = multiprocessing.get_context("spawn")
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=_measure, args=(area, sender))
    process.start()
    sender.close()
    try:
        while True:
            yield receiver.recv()
    except EOFError:
        process.join()
    if process.exitcode:
        raise SystemExit(f"measuring {area} ended with exit code {process.exitcode}")


def _measure(area: str, sender: Connection) -> None:
    for row in importlib.import_module(f"bench.{area}").rows(FULL):
        sender.send(row)
