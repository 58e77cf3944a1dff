"""The loop in virtual time is fast, gives the same run for the same seed, and does not hang."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tailrace.testing.virtual_time import Deadlock, Simulation, VirtualLoop, run

DAY = 86_400.0


def test_week_of_sleep_is_over_at_once() -> None:
    async def main(simulation: Simulation) -> tuple[float, float]:
        began = simulation.clock.wall()
        await asyncio.sleep(7 * DAY)
        return simulation.clock.monotonic(), simulation.clock.wall() - began

    assert run(main) == (7 * DAY, 7 * DAY)


def test_timers_fire_in_order_at_their_time() -> None:
    async def main(simulation: Simulation) -> list[tuple[str, float]]:
        fired: list[tuple[str, float]] = []

        async def wait(name: str, after_s: float) -> None:
            await asyncio.sleep(after_s)
            fired.append((name, simulation.clock.monotonic()))

        async with asyncio.TaskGroup() as group:
            for name, after_s in (("late", 3600.0), ("soon", 0.5), ("next", 60.0), ("now", 0.0)):
                group.create_task(wait(name, after_s))
        return fired

    assert run(main) == [("now", 0.0), ("soon", 0.5), ("next", 60.0), ("late", 3600.0)]


def test_timeout_ends_an_endless_wait() -> None:
    async def main(simulation: Simulation) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30.0):
                await asyncio.Event().wait()
        return simulation.clock.monotonic()

    assert run(main) == 30.0


def test_deadlock_names_the_tasks_that_wait() -> None:
    async def stuck(_: Simulation) -> None:
        await asyncio.sleep(5.0)
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match=r"no timer is due.*stuck"):
        run(stuck)


def test_only_the_wall_clock_jumps() -> None:
    async def main(simulation: Simulation) -> None:
        clock = simulation.clock
        clock.jump(-3600.0)
        assert clock.wall() == 10_000.0 - 3600.0
        clock.set_wall(50.0)
        await asyncio.sleep(1.0)
        assert (clock.wall(), clock.monotonic()) == (51.0, 1.0)

    run(main, wall=10_000.0)


def test_same_seed_gives_the_same_run() -> None:
    async def main(simulation: Simulation) -> list[str]:
        order: list[str] = []

        async def work(name: str) -> None:
            for _ in range(20):
                await asyncio.sleep(simulation.source.random())
                order.append(name)

        await asyncio.gather(*(work(name) for name in "abcd"))
        return order

    assert run(main, seed=1) == run(main, seed=1) != run(main, seed=2)


def test_threads_and_sockets_are_refused() -> None:
    async def thread(_: Simulation) -> None:
        await asyncio.to_thread(print)

    async def connection(_: Simulation) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            await asyncio.get_running_loop().sock_recv(ours, 1)

    with pytest.raises(RuntimeError, match="no threads"):
        run(thread)
    with pytest.raises(RuntimeError, match="no sockets"):
        run(connection)


def test_tasks_that_still_run_are_cancelled() -> None:
    cancelled: list[bool] = []

    async def linger() -> None:
        try:
            await asyncio.sleep(DAY)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main(_: Simulation) -> asyncio.Task[None]:
        task = asyncio.create_task(linger())
        await asyncio.sleep(1.0)
        return task

    assert run(main).cancelled()
    assert cancelled == [True]


def test_loop_can_be_woken_from_another_thread() -> None:
    loop = VirtualLoop()
    woken: list[float] = []
    loop.call_soon_threadsafe(lambda: woken.append(loop.time()))
    loop.call_later(5.0, loop.stop)
    loop.run_forever()
    loop.close()
    assert woken == [0.0]


def test_with_sockets_time_stops_while_bytes_are_on_their_way() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)
        writer.write(await reader.readline())
        writer.close()

    async def main(simulation: Simulation) -> float:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\n")
            assert await reader.read() == b"hello\n"
            writer.close()
        return simulation.clock.monotonic()

    assert run(main, sockets=True) == 3600.0
