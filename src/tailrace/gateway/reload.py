"""Reads the settings again when the process gets SIGHUP: `allow` counts at once, everything else after a restart."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from tailrace.errors import UsageError
from tailrace.plugins import channel_settings
from tailrace.signals import wakes_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tailrace.config import Settings
    from tailrace.gateway.context import GatewayContext

_log = logging.getLogger(__name__)

_HANGUP = (signal.SIGHUP,) if hasattr(signal, "SIGHUP") else ()  # Windows has none


@contextmanager
def reloads_on_hangup(
    settings: Settings | None, read: Callable[[], Settings] | None, context: GatewayContext
) -> Iterator[None]:
    """Read the settings again on SIGHUP while the block runs. `settings` are those that count now."""
    if settings is None or read is None:
        yield
        return
    loop, reload = asyncio.get_running_loop(), Reload(settings, read, context)

    def ask(*_: object) -> None:
        loop.call_soon_threadsafe(reload)

    # Also if the process was started by nohup, which ignores the signal: it then comes from a person who sends it.
    before = {number: signal.signal(number, ask) for number in _HANGUP}
    try:
        with wakes_loop(_HANGUP):
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


class Reload:
    """Call it to read the settings again. It never raises: settings that are wrong are reported, and change nothing."""

    def __init__(self, settings: Settings, read: Callable[[], Settings], context: GatewayContext) -> None:
        self._values = _values(settings)
        self._read = read
        self._context = context

    def __call__(self) -> None:
        """Read the settings again."""
        try:
            settings = self._read()
            values = _values(settings)
        except (UsageError, OSError) as error:
            _log.error("the settings are wrong, so the old ones still count: %s", error)
            return
        for name, served in self._context.served.items():
            key = f"channels.{name}.allow"
            if key in self._values and key in values:
                allow = settings.channel(name, channel_settings).settings.allow
                served.settings = msgspec.structs.replace(served.settings, allow=allow)
                self._values[key] = values[key]
        if changed := changed_keys(self._values, values):
            _log.warning("the settings were read again; these count only after a restart: %s", ", ".join(changed))
        else:
            _log.info("the settings were read again")


def changed_keys(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """The keys with another value. A table that only one of the two has is named alone, without its keys."""
    tables = [{_table(key) for key in values} for values in (before, after)]
    changed = (key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    return sorted({key if all(_table(key) in known for known in tables) else _table(key) for key in changed})


def _table(key: str) -> str:
    return key.rpartition(".")[0]


def _values(settings: Settings) -> dict[str, object]:
    channels = (settings.channel(name, channel_settings).explained for name in settings.channels())
    return {each.key: each.value for values in (settings.explained(), *channels) for each in values}
