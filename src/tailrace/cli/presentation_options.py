"""How a person wishes an answer to look: a presentation, and settings as `name=value`, as a projector takes them."""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.errors import UsageError
from tailrace.projector import ProjectorSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = ProjectorSettings.__struct_fields__


class Presented(StrEnum):
    """How people see the answer while it comes."""

    LIVE = "live"
    NATIVE = "native"
    PROCESSING = "processing"
    PARTS = "parts"
    BLOCKS = "blocks"
    FINAL = "final"
    TOKENS = "tokens"


def settings_of(wishes: Iterable[str], *, presentation: str | None = None) -> ProjectorSettings:
    """The settings with these wishes; a value is JSON, or else the text it is.

    Raises `UsageError` that says which wish cannot be, and what could.
    """
    wished: dict[str, Any] = {} if presentation is None else {"presentation": presentation}
    for wish in wishes:
        name, equals, value = wish.partition("=")
        if not equals:
            raise UsageError(f"--set {wish}: write name=value, such as --set edit_every_s=3")
        if name not in _NAMES:
            near = get_close_matches(name, _NAMES, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"there is no setting {name!r}.{hint} Settings: {', '.join(_NAMES)}.")
        wished[name] = _value(value)
    try:
        return msgspec.convert(wished, ProjectorSettings)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        raise UsageError(f"--set {place.rstrip('`')}: {reason}") from error


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
