"""A process that listens at a control socket until it is ended: `python control_process.py PATH`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.gateway.control import Approve, ControlServer

if TYPE_CHECKING:
    from tailrace.gateway.control import Report


async def _approve(request: Approve, _: Report) -> str:
    return request.code


async def _listen(path: Path) -> None:
    await ControlServer(path, {Approve: _approve}).start()
    print("listening", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(_listen(Path(sys.argv[1])))
