"""The handlers of the control socket: what `approve`, `revoke`, `resend`, `resume` and `purge` do in a gateway."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from tailrace.delivery.operator import Operator, Purge, Resend, Resume
from tailrace.gateway.control import Approve, Revoke

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tailrace.deliveries import Delivery, OpenConversation
    from tailrace.delivery import Courier
    from tailrace.delivery.operator import Resent
    from tailrace.gateway.access import AccessList, Approved
    from tailrace.gateway.control import Handler, Report, Request
    from tailrace.ports import Clock

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


def access_handlers(
    access: AccessList, clock: Clock, on_approved: Callable[[Approved], None] = lambda _: None
) -> dict[type[Request], Handler]:
    """The handlers that change who may talk to the bot. `on_approved` is called with each person who is let in."""

    async def approve(request: Approve, _: Report) -> Approved:
        approved = await access.approve(request.code, clock.wall())
        on_approved(approved)
        return approved

    async def revoke(request: Revoke, _: Report) -> Approved:
        return await access.revoke(request.person)

    return {Approve: approve, Revoke: revoke}


class DeliveryRequests:
    """Sends, finishes and deletes deliveries with the courier of the gateway.

    The gateway passes each changed delivery to `on_change`, so that `resume` can report what it sends.
    """

    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self._reports: list[tuple[Report, set[str]]] = []
        self._working: set[asyncio.Future[Any]] = set()

    def handlers(self) -> dict[type[Request], Handler]:
        """The handlers of the requests about deliveries."""
        return {Resend: self._resend, Resume: self._resume, Purge: self._purge}

    def on_change(self, delivery: Delivery) -> None:
        """Report a changed delivery to each `resume` that found its conversation open."""
        for report, conversations in self._reports:
            if delivery.conversation in conversations:
                report(delivery)

    async def _resend(self, request: Resend, report: Report) -> list[Resent]:
        operator = Operator(self._courier, _not_connected)
        return await self._result(operator, operator.resend(request, report))

    async def _resume(self, request: Resume, report: Report) -> list[OpenConversation]:
        operator = Operator(self._courier, _not_connected)
        reported = (report, {left.name for left in await operator.left_open()})
        self._reports.append(reported)
        try:
            return await self._result(operator, operator.resume(request))
        finally:
            self._reports.remove(reported)

    async def _purge(self, request: Purge, report: Report) -> int:
        return await Operator(self._courier, _not_connected).purge(request, report)

    async def _result(self, operator: Operator, work: Coroutine[Any, Any, Result]) -> Result:
        """Wait for the work. If the client ends first, the work begins nothing new and ends by itself."""
        working = asyncio.ensure_future(work)
        self._working.add(working)
        working.add_done_callback(self._forget)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            operator.stop()
            raise

    def _forget(self, working: asyncio.Future[Any]) -> None:
        self._working.discard(working)
        if not working.cancelled() and (error := working.exception()) is not None:
            _log.debug("a request ended with an error", exc_info=error)  # its client has the error, or has ended


async def _not_connected(name: str) -> str:
    return f"the channel {name!r} is not connected in the gateway"
