"""The two extensions of docs/extensions.md, as printed, in a real `tailrace serve`."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pseudo_terminal import TAILRACE
from tailrace.gateway.extensions import ExtensionChannelSettings, Manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (Path(__file__).parent.parent.parent / "docs" / "extensions.md").read_text(encoding="utf-8")
AGENT = "async def agent(prompt):\n    yield f'ok: {prompt.text}'\n"
SETTINGS = '[gateway]\ndata_dir = "state"\nhealth = ""\n[agents.main]\nuse = "my_app:agent"\n'


def write_extension(folder: Path, name: str, *, port: str = "7007") -> None:
    """Write the files of an extension as the page has them, but with another port."""
    files = re.findall(rf"(?ms)^`(extensions/{name}/[\w.]+)`:\n\n```\w+\n(.*?)^```$", PAGE)
    assert [Path(path).name for path, _ in files] == ["manifest.yaml", "main.py"]
    for path, text in files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text.replace("port: 7007", f"port: {port}"))


@contextmanager
def serving(folder: Path) -> Iterator[subprocess.Popen[str]]:
    (folder / "my_app.py").write_text(AGENT)
    (folder / "tailrace.toml").write_text(SETTINGS)
    environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
    with subprocess.Popen(
        [TAILRACE, "serve"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)
    assert process.returncode == 0


def line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline().rstrip("\n")


@pytest.fixture
def port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def test_the_channel_of_the_page_talks_with_its_users(tmp_path: Path, port: str) -> None:
    write_extension(tmp_path, "line-chat", port=port)
    with serving(tmp_path) as process:
        assert line(process) == "ready: line-chat"
        with socket.create_connection(("127.0.0.1", int(port)), timeout=30) as connection:
            answers = connection.makefile(encoding="utf-8")
            connection.sendall(b"anna\nhello\nsecond\n")
            assert [answers.readline(), answers.readline()] == ["ok: hello\n", "ok: second\n"]


def test_the_extension_that_acts_by_itself_asks_the_agent(tmp_path: Path) -> None:
    write_extension(tmp_path, "log-watch")
    (tmp_path / "server.log").write_text("disk full\n")
    os.mkfifo(tmp_path / "summary.txt")  # reading it waits until the summary is written
    with serving(tmp_path):
        assert (tmp_path / "summary.txt").read_text() == "ok: What is important here?\ndisk full"


def test_the_page_describes_all_keys() -> None:
    for key in (*Manifest.__struct_fields__, *ExtensionChannelSettings.__struct_fields__):
        assert f"`{key}`" in PAGE, key
