"""Kills a gateway with 200 conversations: `make kills-gateway`.

    make kills-gateway [KILLS="--people 40 --kills 5 --kind unkeyed --seed 3"]

Exits with 1 if a message was not answered once, or something is left open.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from gateway_kills.trial import Plan, show, trial


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="make kills-gateway")
    parser.add_argument("--people", type=int, default=Plan().people)
    parser.add_argument("--messages", type=int, default=Plan().messages, help="how many each person writes")
    parser.add_argument("--kills", type=int, default=Plan().kills)
    parser.add_argument("--share", type=float, default=Plan().share, help="the share of the people on Telegram")
    parser.add_argument("--kind", default=Plan().kind, help="the kind of the other platform")
    parser.add_argument("--seed", type=int, default=Plan().seed)
    parser.add_argument("--keep", help="a folder for the ledger and the log, which stay there")
    options = vars(parser.parse_args())
    keep = options.pop("keep")
    with tempfile.TemporaryDirectory(prefix="tailrace-gateway-kills-") as temporary:
        result = asyncio.run(trial(Plan(**options), Path(keep or temporary)))
    show(result)
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
