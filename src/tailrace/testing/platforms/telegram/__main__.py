"""Start a simulated Telegram and print where it is: `python -m tailrace.testing.platforms.telegram --port N`."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys

import msgspec

from tailrace.testing.platforms.telegram.rules import TelegramSettings
from tailrace.testing.platforms.telegram.simulator import DEFAULT_TOKEN, TelegramSimulator


async def simulate(*, port: int, token: str, settings: TelegramSettings, seed: int) -> None:
    """Serve until SIGTERM or Ctrl-C. The first line printed is JSON: the address, the port and the token."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with TelegramSimulator(port=port, token=token, settings=settings, seed=seed) as simulator:
        place = {"url": simulator.url, "port": simulator.port, "token": simulator.token}
        sys.stdout.write(json.dumps(place) + "\n")
        sys.stdout.flush()
        await ended.wait()


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tailrace.testing.platforms.telegram")
    parser.add_argument("--port", type=int, default=0, help="the port of 127.0.0.1; without it any free port")
    parser.add_argument("--token", default=DEFAULT_TOKEN, help="the token of the bot")
    parser.add_argument("--settings", default="{}", help="numbers of the platform to change, as JSON")
    parser.add_argument("--seed", type=int, default=0, help="seed of the faults by chance and of the update ids")
    options = parser.parse_args()
    try:
        settings = msgspec.json.decode(options.settings, type=TelegramSettings)
    except msgspec.DecodeError as error:
        parser.error(f"--settings: {error}")
    try:
        asyncio.run(simulate(port=options.port, token=options.token, settings=settings, seed=options.seed))
    except ValueError as error:
        parser.error(str(error))
    except OSError as error:
        sys.exit(f"Cannot listen on port {options.port} ({error.strerror}): name another one with --port.")


if __name__ == "__main__":
    main()
