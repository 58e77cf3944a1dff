"""Measures each area in its own process.

In one process, an area would make the next one slower: the compared libraries start threads and enlarge the heap.
"""

from __future__ import annotations

import importlib
import multiprocessing
from typing import TYPE_CHECKING

from bench.rows import FULL, Row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection


def measured_in_own_process(area: str) -> Iterator[Row]:
    """Yield the rows of an area, measured in a new process."""
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
