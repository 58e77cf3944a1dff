"""A process that cannot write files of more than a mebibyte: sends a larger picture with text around it."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from tailrace.delivery import Courier, Spool
from tailrace.ledger.sqlite import SqliteLedger
from tailrace.operations import Body, Post, PostMedia, Target
from tailrace.plugins import load

LARGEST = 1 << 20
HERE = Target(channel="terminal", chat="me")


async def main(folder: Path) -> None:
    ledger = await SqliteLedger.open(folder / "ledger.db")
    async with Courier(ledger, spool=Spool(folder / "spool")) as courier:
        courier.connect(load("channel", "terminal")())
        turn = await courier.begin("t", HERE)
        ended = await turn.end(
            Post(target=HERE, body=Body(text="before")),
            PostMedia(target=HERE, path=str(folder / "picture")),
            Post(target=HERE, body=Body(text="after")),
        )
        for delivery in ended:
            print(f"{delivery.state}: {delivery.error}")
    await ledger.close()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, LARGEST))
    asyncio.run(main(Path(sys.argv[1])))
