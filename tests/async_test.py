"""Tests that are coroutine functions and run in real time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

P = ParamSpec("P")


def async_test(scene: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run the coroutine function as a test, on an event loop of its own."""

    @wraps(scene)
    def test(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(scene(*args, **kwargs))

    return test
