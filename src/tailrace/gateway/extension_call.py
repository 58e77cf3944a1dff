"""Calls the code of an extension. It may raise any error, never return, or ignore that it is cancelled."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from tailrace.errors import ExtensionFault
from tailrace.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable


async def call_extension(name: str, method: Callable[..., Any], *arguments: Any, timeout_s: float) -> None:
    """Call a method or a handler of the extension, which may be a plain function or a coroutine function.

    Raises `ExtensionFault` if that fails or takes too long. The method runs in a task of its own, so that the caller
    can go on even if the method ignores that it is cancelled.
    """
    what = f"the extension {name}: {getattr(method, '__name__', type(method).__name__)}"
    task = asyncio.create_task(_error_of(method, arguments), name=what)
    try:
        await asyncio.wait({task}, timeout=timeout_s)
    finally:
        task.cancel()
    if not task.done():
        raise ExtensionFault(f"{what} did not return within {timeout_s:g} s", hangs=True)
    if (error := task.result()) is not None:
        raise ExtensionFault(f"{what} failed: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """The type and the text of an error on one line, without secrets."""
    return f"{type(error).__name__}: {' '.join(redact(str(error)).split())}".removesuffix(": ")


async def _error_of(method: Callable[..., Any], arguments: tuple[Any, ...]) -> BaseException | None:
    try:
        result = method(*arguments)
        if inspect.isawaitable(result):
            await result
    except BaseException as error:  # noqa: BLE001 -- the extension's code: sys.exit must not end the process either
        return error
    return None
