"""The streams that this process has opened: what each shows, so that closing one changes no more than it must.

A stream that an earlier process has opened is not known here. Its message is then replaced as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tailrace.operations import Task

_MOST = 1_000
_ENDED = ("complete", "error")
_CONTINUES = "continues in the next message"


class ShownStream:
    """An open stream: the key of its delivery, its text so far, and the tasks that it shows."""

    def __init__(self, key: str, text: str) -> None:
        self.key = key
        self.text: str | None = text
        self._tasks: dict[str, Task] = {}

    def append(self, text: str, tasks: Sequence[Task]) -> None:
        """Note what was appended."""
        self.text = None if self.text is None else self.text + text
        self._tasks |= {task.id: task for task in tasks}

    def forget_text(self) -> None:
        """Note that the text is not known any more: it is unknown whether the latest text was appended."""
        self.text = None

    def rest_of(self, text: str) -> str | None:
        """What is missing to `text`; None if the stream shows something else. Space at the end is not seen."""
        if self.text is None:
            return None
        if text.startswith(self.text):
            return text[len(self.text) :]
        return "" if text.rstrip() == self.text.rstrip() else None

    def last_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks with which the stream is closed: none of them may stay in progress.

        A closed stream does not change any more, so a task that still runs would seem to run for ever.
        """
        changed = {task.id: task for task in tasks}
        running = {task.id: task for task in self._tasks.values() if task.status not in _ENDED}
        return [_closed(task) for task in (running | changed).values()]


def _closed(task: Task) -> Task:
    if task.status in _ENDED:
        return task
    return replace(task, status="complete", details=_CONTINUES)


class OpenedStreams:
    """The streams, by the ids of their messages."""

    def __init__(self) -> None:
        self._shown: dict[str, ShownStream] = {}

    def add(self, stream_id: str, stream: ShownStream) -> None:
        """Remember a stream. Of too many, the oldest is forgotten."""
        self._shown[stream_id] = stream
        if len(self._shown) > _MOST:
            del self._shown[next(iter(self._shown))]

    def get(self, stream_id: str) -> ShownStream:
        """The stream with this id. One that is not known has an unknown text and no tasks."""
        found = self._shown.get(stream_id)
        if found is None:
            found = ShownStream("", "")
            found.forget_text()
        return found

    def __contains__(self, stream_id: object) -> bool:
        return stream_id in self._shown
