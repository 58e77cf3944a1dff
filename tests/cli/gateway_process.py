"""A process that uses a ledger as a gateway does: it sends its deliveries and listens at the control socket beside it.

`python gateway_process.py LEDGER [CHANNEL...]` connects these channels. It ends when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.cli.sending import load_channel, open_courier
from tailrace.delivery import CourierSettings
from tailrace.gateway.access import AccessList
from tailrace.gateway.control import ControlServer, control_path
from tailrace.gateway.handlers import DeliveryRequests, access_handlers
from tailrace.inbound import InboundMessage, Sender
from tailrace.operations import Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from tailrace.deliveries import Delivery


async def _serve(ledger: Path, channels: list[str]) -> None:
    listeners: list[Callable[[Delivery], None]] = []

    def on_change(delivery: Delivery) -> None:
        for listener in listeners:
            listener(delivery)

    async with open_courier(ledger, CourierSettings(), on_change) as connections:
        requests = DeliveryRequests(connections.courier)
        listeners.append(requests.on_change)
        for name in channels:
            await connections.connect(load_channel(name))
        clock = connections.courier.clock
        access = await AccessList.load(connections.courier.ledger)
        handlers = access_handlers(access, clock) | requests.handlers()
        path = control_path(ledger=ledger, data_dir=None, control=None)
        server = ControlServer(path, handlers)
        await server.start()
        loop = asyncio.get_running_loop()
        print("listening", flush=True)
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            name = line.strip()
            message = InboundMessage(
                channel="simulated",
                event_id="e",
                target=Target(channel="simulated", chat=name),
                text="hello",
                sender=Sender(id=name, name=f"{name} \x1b[31m"),
            )
            admitted = access.is_admitted(message, ())
            print("admitted" if admitted else await access.code_for(message, clock.wall()), flush=True)
        await server.stop()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2:]))
