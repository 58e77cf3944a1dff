"""Presents a share of the live turns in a second way, without sending it, and compares the two.

`tailrace.shadow` does the work. This module chooses what each shadow presents: the capabilities of the chat and the
settings of its channel, with the presentation of the table `[shadow]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tailrace.shadow.live import Shadow, ShadowSettings
from tailrace.shadow.replay import Variant
from tailrace.shadow.shadow_turn import ShadowTurn

if TYPE_CHECKING:
    from tailrace.capabilities import Capabilities
    from tailrace.config import LiveShadowSettings
    from tailrace.deliveries import Delivery
    from tailrace.gateway.context import GatewayContext
    from tailrace.gateway.metrics import Labels
    from tailrace.operations import Target

_CLOSE_S = 2.0


class LiveShadows:
    """The shadows of a gateway: one for each channel and each kind of chat in it. Without settings, there are none."""

    def __init__(self, settings: LiveShadowSettings | None, context: GatewayContext) -> None:
        self._settings = settings
        self._context = context
        self._shadows: dict[tuple[str, Capabilities], Shadow] = {}
        context.metrics.read_from("tailrace_shadow_turns_total", self._results)

    def watch(self, turn_id: str, target: Target) -> ShadowTurn:
        """Watch a turn, see `Shadow.watch`. A channel that presents in its own way has no shadow."""
        if self._settings is None or self._context.served[target.channel].provider is not None:
            return ShadowTurn(turn_id, target, self._context.clock)
        return self._shadow(target, self._settings).watch(turn_id, target)

    def on_change(self, delivery: Delivery) -> None:
        """Take a delivery that is new or has changed."""
        for shadow in self._shadows.values():
            shadow.record(delivery)

    def close(self) -> None:
        """Wait a moment for the comparison of turns that have ended, and give up the others."""
        for shadow in self._shadows.values():
            shadow.close(timeout_s=_CLOSE_S)

    def _shadow(self, target: Target, settings: LiveShadowSettings) -> Shadow:
        key = target.channel, self._context.courier.capabilities(target)
        if (shadow := self._shadows.get(key)) is None:
            presented = replace(self._context.served[target.channel].projector, presentation=settings.presentation)
            variant = Variant(capabilities=key[1], settings=presented, name=f"{target.channel} {settings.presentation}")
            share = ShadowSettings(share=settings.share)
            shadow = self._shadows[key] = Shadow(variant, clock=self._context.clock, settings=share)
        return shadow

    def _results(self) -> dict[Labels, float]:
        summaries = [shadow.summary for shadow in list(self._shadows.values())]
        return {
            ("same",): float(sum(each.same for each in summaries)),
            ("different",): float(sum(each.turns - each.same for each in summaries)),
            ("given_up",): float(sum(each.given_up for each in summaries)),
            ("dropped",): float(sum(each.dropped for each in summaries)),
        }
