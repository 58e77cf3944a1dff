"""The command `tailrace`. Its commands are in `tailrace.cli.commands`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _open_closed_streams()
    try:
        # The import takes a moment. A Ctrl-C during the import must not show a traceback.
        from tailrace.cli.commands import run  # noqa: PLC0415 -- the reason is above
    except KeyboardInterrupt:
        sys.exit(1)
    sys.exit(run())


def _open_closed_streams() -> None:
    """Open standard streams that were closed before the start.

    Python has None for them, so writing to them would fail.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r+"))  # noqa: SIM115 -- open as long as the process is
