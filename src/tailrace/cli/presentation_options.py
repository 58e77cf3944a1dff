"""The options for how an answer is shown: `--presentation`, and settings of the projector as `name=value`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
import typer

from tailrace.errors import UsageError, did_you_mean
from tailrace.projector import Presentation, ProjectorSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

PresentationOption: TypeAlias = Annotated[
    Presentation | None,
    typer.Option("--presentation", help="Show the answer in this presentation.", show_default="the channel's"),
]
SettingsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of presentations, such as edit_every_s=3; repeat it for more.",
    ),
]
GroupOption: TypeAlias = Annotated[bool, typer.Option("--group", help="Show it in a group chat.")]

_NAMES = ProjectorSettings.__struct_fields__


def projector_settings(assignments: Iterable[str], *, presentation: str | None = None) -> ProjectorSettings:
    """Make the projector's settings from these assignments `name=value`.

    A value is read as JSON; if it is not JSON, it is a text. Raises `UsageError`, which names the wrong assignment and
    the allowed values.
    """
    values: dict[str, Any] = {} if presentation is None else {"presentation": presentation}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise UsageError(f"--set {assignment}: write name=value, such as --set edit_every_s=3")
        if name not in _NAMES:
            raise UsageError(
                f"there is no setting {name!r}.{did_you_mean(name, _NAMES)} Settings: {', '.join(_NAMES)}."
            )
        values[name] = _value(value)
    try:
        return msgspec.convert(values, ProjectorSettings)
    except msgspec.ValidationError as error:
        reason, _, name = str(error).partition(" - at `$.")
        raise UsageError(f"--set {name.rstrip('`')}: {reason}") from error


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
