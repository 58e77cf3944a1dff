"""The numbers of a gateway: what it counts, how long things take, and how things are now.

The parts of the gateway add to them while they work. `health` shows them on the page `/metrics`. No label has the id of
a chat, a person or a turn, so the number of series is bounded.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Literal, NamedTuple

from tailrace.deliveries import FINAL
from tailrace.operations import Ambiguous, Delivered, NotNow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tailrace.deliveries import Delivery
    from tailrace.ledger.sqlite import LedgerActivity
    from tailrace.operations import Operation, Outcome

BOUNDS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""The upper bounds of the buckets of a histogram, in seconds."""

Labels = tuple[str, ...]


class Metric(NamedTuple):
    """One metric: its name, its kind, the names of its labels, and what it says."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: Labels
    meaning: str


METRICS = (
    Metric("tailrace_build", "gauge", ("version",), "Always 1; the label says which version runs."),
    Metric("tailrace_messages_total", "counter", ("channel", "result"), "Messages of people."),
    Metric("tailrace_queue_refusals_total", "counter", ("channel",), "Messages refused because a queue was full."),
    Metric("tailrace_queue_seconds", "histogram", ("channel",), "From the acceptance of a message to its turn."),
    Metric("tailrace_first_text_seconds", "histogram", ("channel",), "From the start of a turn to its first text."),
    Metric("tailrace_turn_seconds", "histogram", ("channel",), "From the start of a turn until it was delivered."),
    Metric("tailrace_turns_total", "counter", ("channel", "end"), "Turns that have ended."),
    Metric("tailrace_deliveries_total", "counter", ("channel", "state"), "Deliveries that became final."),
    Metric("tailrace_calls_total", "counter", ("channel", "operation", "outcome"), "Calls to the platform."),
    Metric("tailrace_conversations_active", "gauge", (), "Conversations that have something to do."),
    Metric("tailrace_turns_running", "gauge", (), "Turns that run now."),
    Metric("tailrace_messages_waiting", "gauge", (), "Messages that wait for their turn, in all conversations."),
    Metric("tailrace_queue_longest", "gauge", (), "Messages that wait in the longest queue."),
    Metric("tailrace_channel_up", "gauge", ("channel",), "1 if the channel is ready, as on /readyz; otherwise 0."),
    Metric("tailrace_channel_proof_age_seconds", "gauge", ("channel",), "Time since the last proof of life."),
    Metric("tailrace_channel_restarts_total", "counter", ("channel",), "How often the connection ended or failed."),
    Metric("tailrace_ledger_commits_total", "counter", (), "Commits of the ledger."),
    Metric("tailrace_ledger_commit_seconds_total", "counter", (), "Time in commits of the ledger."),
    Metric("tailrace_ledger_changes_waiting", "gauge", (), "Changes that wait to be written."),
    Metric("tailrace_loop_delay_seconds", "gauge", (), "How long the event loop took to answer just now."),
    Metric("tailrace_shadow_turns_total", "counter", ("result",), "Turns that were also presented another way."),
)
"""All metrics; those of the process come with them, see docs/operating.md."""


class Histogram:
    """How long something took, each time: the number of times up to each of `BOUNDS_S`."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        """Add one time."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum += seconds


class Metrics:
    """The numbers of one gateway.

    They may be read in other threads: a reader copies a dictionary in one step, because its keys are plain tuples.
    """

    def __init__(self) -> None:
        self._counts: dict[str, dict[Labels, float]] = {name: {} for name in _names("counter")}
        self._times: dict[str, dict[Labels, Histogram]] = {name: {} for name in _names("histogram")}
        self._sources: dict[str, Callable[[], Mapping[Labels, float]]] = {}

    def count(self, name: str, *labels: str) -> None:
        """Count one more."""
        counts = self._counts[name]
        counts[labels] = counts.get(labels, 0.0) + 1

    def add_time(self, name: str, *labels: str, seconds: float) -> None:
        """Add a time to a histogram."""
        times = self._times[name]
        if (histogram := times.get(labels)) is None:
            histogram = times[labels] = Histogram()
        histogram.add(max(seconds, 0.0))

    def read_from(self, name: str, source: Callable[[], Mapping[Labels, float]]) -> None:
        """Get the values of a gauge or a counter from this function, which is called in another thread."""
        self._sources[name] = source

    def read_ledger(self, activity: Callable[[], LedgerActivity]) -> None:
        """Get the numbers of the ledger from this function, which is called in another thread."""
        self.read_from("tailrace_ledger_commits_total", lambda: {(): activity().commits})
        self.read_from("tailrace_ledger_commit_seconds_total", lambda: {(): activity().commit_s})
        self.read_from("tailrace_ledger_changes_waiting", lambda: {(): activity().changes_waiting})

    def values(self, name: str) -> dict[Labels, float]:
        """The values of a counter or a gauge, by their labels."""
        source = self._sources.get(name)
        return dict(self._counts.get(name, {}) if source is None else source())

    def histograms(self, name: str) -> dict[Labels, Histogram]:
        """The histograms of this name, by their labels."""
        return dict(self._times[name])

    # What the gateway counts

    def on_change(self, delivery: Delivery) -> None:
        """Count a delivery that has become final."""
        if delivery.state in FINAL:
            self.count("tailrace_deliveries_total", delivery.channel, delivery.state.value)

    def on_call(self, channel: str, operation: Operation, outcome: Outcome) -> None:
        """Count a call to a platform."""
        self.count("tailrace_calls_total", channel, _tag(operation), _name_of(outcome))


def _names(kind: str) -> list[str]:
    return [metric.name for metric in METRICS if metric.kind == kind]


def _tag(operation: Operation) -> str:
    return str(type(operation).__struct_config__.tag)


def _name_of(outcome: Outcome) -> str:
    match outcome:
        case Delivered():
            return "delivered"
        case NotNow():
            return "rate_limited" if outcome.retry_after else "not_sent"
        case Ambiguous():
            return "unknown"
        case _:
            return "refused"
