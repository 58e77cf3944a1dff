"""`tailrace simulate`: it serves its page and names the environment, until a signal."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from command_runs import TIMEOUT_S
from installed_ferry import FerryFolder
from pseudo_terminal import default_sigint

COMMANDS = Path(__file__).parents[2] / "docs" / "commands.md"


@pytest.fixture
def folder(tmp_path: Path) -> FerryFolder:
    return FerryFolder(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(folder: FerryFolder, number: signal.Signals) -> None:
    with default_sigint():
        process = folder.start("simulate", "ferry")
    assert process.stdout is not None
    word, page = process.stdout.readline().split()
    assert word == "page:"
    variables = [process.stdout.readline() for _ in range(2)]
    assert [shlex.split(line) for line in variables] == [
        ["export", f"FERRY_BASE={page}"],
        ["export", "FERRY_TOKEN=a b"],
    ]
    with urllib.request.urlopen(page, timeout=TIMEOUT_S) as response:
        assert response.read() == b"page"
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (0, "", "Ctrl-C stops it\nclosed\n")


def test_telegram_prints_what_the_documentation_shows(folder: FerryFolder) -> None:
    documented = re.findall(r"(?ms)^```text\n(page: .*?)^```$", COMMANDS.read_text(encoding="utf-8"))
    process = folder.start("simulate", "telegram")
    assert process.stdout is not None
    printed = "".join(process.stdout.readline() for _ in range(documented[0].count("\n")))
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=TIMEOUT_S)
    assert [re.sub(r"(127\.0\.0\.1:)\d+", r"\g<1>40123", printed)] == documented


def test_a_port_in_use_is_one_line(folder: FerryFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = folder.run("simulate", "ferry", "--port", str(taken.getsockname()[1]))
    assert (done.exit_code, done.out) == (1, "")
    assert "address already in use" in done.err
    assert done.err.endswith("Name another port with --port.\n")
    assert done.err.count("\n") == 1


def test_an_unknown_platform_names_the_known_ones(folder: FerryFolder) -> None:
    done = folder.run("simulate", "fery")
    assert (done.exit_code, done.out) == (2, "")
    assert done.err.startswith("tailrace: there is no simulator 'fery'. Did you mean 'ferry'? Installed: ")
    assert folder.run("simulate", "ferry", "--port", "70000").exit_code == 2
