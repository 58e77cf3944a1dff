"""The form in which a simulator writes down what its platform enforces: refusals with their sources, and numbers.

A number that no source states is a setting with the type `UnverifiedFloat`, `UnverifiedInt` or `UnverifiedBool`.
"""

from __future__ import annotations

from typing import Annotated, get_args, get_origin, get_type_hints

import msgspec

UNVERIFIED = msgspec.Meta(description="unverified")
# Numbers that no source states. They can be changed, and `unverified_fields` names them.
UnverifiedFloat = Annotated[float, UNVERIFIED]
UnverifiedInt = Annotated[int, UNVERIFIED]
UnverifiedBool = Annotated[bool, UNVERIFIED]


def unverified_fields(settings: type[msgspec.Struct]) -> list[str]:
    """The names of the settings whose values are guesses, because no source states them."""
    hints = get_type_hints(settings, include_extras=True)
    return [name for name, hint in hints.items() if get_origin(hint) is Annotated and UNVERIFIED in get_args(hint)]


class PlatformRule(msgspec.Struct, frozen=True):
    """A refusal of the platform: its HTTP status and words, its source, and how sure the rule and the words are."""

    status: int
    description: str
    fact: str
    confidence: str
    worded: str = "V"
