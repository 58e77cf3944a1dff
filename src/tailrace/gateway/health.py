"""The health pages of a gateway: `/healthz`, `/readyz` and `/metrics`, over HTTP.

They are served in threads of their own, so that they answer even if the event loop is blocked. A channel is ready only
if its platform has proved lately that the connection works; that it was connected once is not enough.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tailrace import __version__
from tailrace.gateway.metrics import BOUNDS_S, METRICS
from tailrace.ports import ProvesLife

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.core import Metric as MetricFamily

    from tailrace.gateway.metrics import Histogram, Labels, Metric, Metrics
    from tailrace.gateway.supervisor import ChannelSupervisor

_log = logging.getLogger(__name__)

_LATE_S = 5.0
_REQUEST_S = 10.0
_POLL_S = 0.2  # how long `close` may take


class Health(Collector):
    """What the health pages say about a gateway. Its methods are called in other threads than the event loop's.

    The loop must answer within `answer_s` seconds. `is_draining` says whether the gateway is about to end.
    """

    def __init__(
        self,
        metrics: Metrics,
        supervisors: Sequence[ChannelSupervisor],
        loop: asyncio.AbstractEventLoop,
        *,
        is_draining: Callable[[], bool],
        answer_s: float = 3.0,
    ) -> None:
        self._metrics = metrics
        self._supervisors = supervisors
        self._loop = loop
        self._is_draining = is_draining
        self._answer_s = answer_s
        self._no_answer = f"the event loop has not answered for {answer_s:g} s"
        self._process = ProcessCollector(namespace="tailrace", registry=None)
        metrics.read_from("tailrace_build", lambda: {(__version__,): 1.0})
        metrics.read_from("tailrace_channel_up", self._up)
        metrics.read_from("tailrace_channel_proof_age_seconds", self._proof_ages)
        metrics.read_from("tailrace_channel_restarts_total", self._restarts)
        metrics.read_from("tailrace_loop_delay_seconds", lambda: {(): self.loop_delay_s() or answer_s})

    def loop_delay_s(self) -> float | None:
        """How long the event loop takes to answer; None if it does not answer within some seconds."""
        answered, began = threading.Event(), time.monotonic()
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop is closed
            return None
        return time.monotonic() - began if answered.wait(self._answer_s) else None

    def problem_of(self, supervisor: ChannelSupervisor) -> str:
        """Why a channel is not ready; "" if it is."""
        if not supervisor.is_connected:
            return supervisor.problem or "it is not connected yet"
        channel = supervisor.served.channel
        try:
            if isinstance(channel, ProvesLife):
                age_s, every_s = self._loop.time() - channel.alive_at, channel.proof_every_s
                if age_s > every_s + _LATE_S:
                    since = f"for {age_s:.0f} s" if age_s < float("inf") else "yet"
                    return f"no proof of life {since}; one is due every {every_s:g} s"
        except Exception as error:  # noqa: BLE001 -- a plugin's code
            return f"its proof of life raised {type(error).__name__}"
        return ""

    # The pages

    def healthz(self) -> tuple[int, str]:
        """Whether the process and its event loop are alive."""
        return (503, self._no_answer) if self.loop_delay_s() is None else (200, "ok")

    def readyz(self) -> tuple[int, str]:
        """Whether every channel works, one line for each."""
        if self.loop_delay_s() is None:
            return 503, self._no_answer
        if self._is_draining():
            return 503, "the gateway is stopping"
        problems = {each.served.name: self.problem_of(each) for each in list(self._supervisors)}
        if not problems:
            return 503, "no channel has started yet"
        lines = (f"{name}: {problem or 'ready'}" for name, problem in problems.items())
        return 503 if any(problems.values()) else 200, "\n".join(lines)

    def metrics(self) -> tuple[int, str]:
        """All metrics in the text format of Prometheus."""
        return 200, generate_latest(self).decode()

    # Metrics

    def collect(self) -> Iterator[MetricFamily]:
        """The metrics of the gateway and of its process, for the Prometheus library."""
        for metric in METRICS:
            yield self._family(metric)
        yield from self._process.collect()

    def _family(self, metric: Metric) -> MetricFamily:
        metrics, about = self._metrics, (metric.name, metric.meaning)
        if metric.kind == "histogram":
            histograms = HistogramMetricFamily(*about, labels=metric.labels)
            for labels, histogram in metrics.histograms(metric.name).items():
                histograms.add_metric(labels, _buckets(histogram), histogram.sum)
            return histograms
        family = (CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily)(*about, labels=metric.labels)
        for labels, value in metrics.values(metric.name).items():
            family.add_metric(labels, value)
        return family

    def _up(self) -> dict[Labels, float]:
        return {(each.served.name,): float(not self.problem_of(each)) for each in list(self._supervisors)}

    def _restarts(self) -> dict[Labels, float]:
        return {(each.served.name,): float(each.failures) for each in list(self._supervisors)}

    def _proof_ages(self) -> dict[Labels, float]:
        now = self._loop.time()
        channels = [each.served.channel for each in list(self._supervisors)]
        return {(channel.name,): now - channel.alive_at for channel in channels if isinstance(channel, ProvesLife)}


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """The buckets as Prometheus wants them: each one contains those before it."""
    total, buckets = 0, []
    for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), histogram.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


class HealthServer:
    """Serves the health pages from now on, until `close`. Raises `OSError` if the address cannot be used."""

    def __init__(self, health: Health, address: tuple[str, int]) -> None:
        pages = {"/healthz": health.healthz, "/readyz": health.readyz, "/metrics": health.metrics}

        def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
            page = pages.get(environ["PATH_INFO"])
            method = environ["REQUEST_METHOD"]
            if page is None:
                status, text = 404, f"there is no such page, only {', '.join(pages)}"
            elif method not in ("GET", "HEAD"):
                status, text = 405, "use GET"
            else:
                status, text = page()
            body = text.rstrip("\n").encode() + b"\n"
            kind = "text/plain; version=0.0.4; charset=utf-8" if page == health.metrics else "text/plain; charset=utf-8"
            start_response(_STATUS[status], [("Content-Type", kind), ("Content-Length", str(len(body)))])
            return [] if method == "HEAD" else [body]

        self._server = _Server(address)
        self._server.set_app(answer)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="tailrace-health", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port on which the pages are served."""
        return self._server.server_port

    def close(self) -> None:
        """Stop serving. Waits a moment."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


_STATUS = {200: "200 OK", 404: "404 Not Found", 405: "405 Method Not Allowed", 503: "503 Service Unavailable"}


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_S  # a client that sends nothing does not keep its thread for longer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library calls it so
        _log.debug("health: %s", format % args)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # The library's method would look up the name of the host, which can take long.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]  # host and port
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 -- the library calls it so
        _log.debug("a request for a health page failed", exc_info=True)
