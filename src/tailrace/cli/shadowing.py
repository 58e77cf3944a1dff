"""The shadow of a turn that `tailrace deliver` sends, and how comparisons are told to people and to programs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailrace.cli.delivery_format import one_line
from tailrace.cli.presentation_options import settings_of
from tailrace.delivery.sender_context import SystemClock
from tailrace.shadow.comparison import Kind
from tailrace.shadow.live import Shadow
from tailrace.shadow.replay import Variant
from tailrace.shadow.shadow_turn import ShadowTurn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tailrace.capabilities import Capabilities
    from tailrace.cli.progress import Progress
    from tailrace.deliveries import Delivery
    from tailrace.operations import Target
    from tailrace.projector import ProjectorSettings
    from tailrace.shadow.comparison import Comparison
    from tailrace.shadow.live import Report

_WAIT_S = 15.0

ShadowSetOption = Annotated[
    list[str] | None,
    typer.Option("--shadow-set", metavar="NAME=VALUE", help="A setting as it would be; again for more."),
]


def shadow_settings(wishes: Sequence[str] | None, presentation: str | None) -> ProjectorSettings | None:
    """What a shadow shall present with; None where none is wished for."""
    if not wishes and presentation is None:
        return None
    return settings_of(wishes or (), presentation=presentation)


@asynccontextmanager
async def shadow_beside(
    settings: ProjectorSettings | None, capabilities: Capabilities, progress: Progress
) -> AsyncIterator[Shadow | None]:
    """A shadow for what is delivered meanwhile, and what it would have done, told at the end; None for none."""
    if settings is None:
        yield None
        return
    reports: list[Report] = []
    way = Variant(capabilities=capabilities, settings=settings, name="shadow")
    shadow = Shadow(way, clock=SystemClock(), reported=reports.append)
    try:
        yield shadow
    finally:
        await asyncio.to_thread(shadow.close, within_s=_WAIT_S)
        for report in reports:
            _tell(report, progress)


def watched_by(shadow: Shadow | None, turn_id: str, target: Target) -> ShadowTurn:
    """The turn as the shadow sees it; let alone where there is none."""
    return ShadowTurn(turn_id, target, SystemClock()) if shadow is None else shadow.beside(turn_id, target)


def hearing(first: Callable[[Delivery], None], shadow: Shadow | None) -> Callable[[Delivery], None]:
    """Whoever is told of deliveries, and the shadow with them."""
    if shadow is None:
        return first

    def tell(delivery: Delivery) -> None:
        first(delivery)
        shadow.told(delivery)

    return tell


def _tell(report: Report, progress: Progress) -> None:
    progress.say(f"shadow: {report}")
    found = report.comparison
    for kind in Kind:
        if found is not None and kind in found.examples:
            progress.say(f"  {kind}: {one_line(found.examples[kind])}")
    told = {"given_up": report.given_up} if found is None else comparison_record(found)
    progress.put({"shadow": {"turn": report.turn_id, **told}})


def comparison_record(comparison: Comparison) -> dict[str, Any]:
    """How a turn differs, for a program."""
    return {
        "same": comparison.is_same,
        "counts": {str(kind): count for kind, count in comparison.counts.items()},
        "first_s": round(comparison.first_s, 3),
        "later_s": round(comparison.later_s, 3),
        "apart_s": round(comparison.apart_s, 3),
        "examples": {str(kind): example for kind, example in comparison.examples.items()},
    }
