"""`tailrace access` and `tailrace deliveries`, beside a gateway and without one.

The gateway is a process of its own that uses the ledger and the control socket as the real one does.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from command_runs import UNKEYED, CommandFolder, platform_with, run_here
from tailrace.testing.faults import Reset, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tailrace.testing.platform_process import PlatformProcess

PROCESS = Path(__file__).with_name("gateway_process.py")


class RunningGateway:
    """The process. `write` has a person write to it, and returns the code, `admitted` or `None`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def write(self, person: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{person}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def running(folder: CommandFolder, *channels: str) -> Iterator[RunningGateway]:
    command = [sys.executable, str(PROCESS), str(folder.ledger), *channels]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=folder.env) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
            yield RunningGateway(process)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> CommandFolder:
    """A folder with a short path: that of a test can be too long for a socket."""
    return CommandFolder(tmp_path_factory.mktemp("a"))


@pytest.fixture
def platform() -> Iterator[PlatformProcess]:
    with platform_with(UNKEYED) as process:
        yield process


def test_a_person_is_approved_and_revoked_while_the_gateway_runs(folder: CommandFolder) -> None:
    with running(folder) as gateway:
        code = gateway.write("ada")
        assert gateway.write("ada") == "None"
        done = folder.run("access", "approve", code)
        assert (done.exit_code, done.out) == (0, "simulated:ada (ada ␛[31m) may talk to the bot now\n")
        assert gateway.write("ada") == "admitted"
        assert gateway.write("bob") not in {"admitted", "None", code}
        people = folder.run("access", "--json").objects
        assert [(each["state"], each["channel"], each["id"]) for each in people] == [
            ("approved", "simulated", "ada"),
            ("waiting", "simulated", "bob"),
        ]
        used = folder.run("access", "approve", code)
        assert (used.exit_code, used.out) == (1, "")
        assert used.err.startswith("tailrace: this pairing code is not valid: ")
        assert used.err.count("\n") == 1
        assert folder.run("--json", "access", "revoke", "ada").exit_code == 2
        revoked = folder.run("access", "--json", "revoke", "simulated:ada")
        assert (revoked.exit_code, revoked.objects[0]["state"]) == (0, "revoked")
        assert gateway.write("ada") not in {"admitted", "None", code}
        assert folder.run("access", "revoke", "ada").exit_code == 1


def test_without_a_gateway_the_ledger_is_changed(folder: CommandFolder) -> None:
    with running(folder) as gateway:
        code = gateway.write("ada")
    listed = folder.run("access").out
    assert listed.startswith("simulated:ada (ada ␛[31m) waits for approval, got a code ")
    assert code not in listed
    assert folder.run("access", "approve", code.lower()).exit_code == 0
    assert "approved on" in folder.run("access", "list").out
    with running(folder) as gateway:
        assert gateway.write("ada") == "admitted"
    assert folder.run("access", "revoke", "ada").exit_code == 0
    done = folder.run("access")
    assert (done.exit_code, done.out, done.err) == (0, "", "nobody is approved, and nobody waits for approval\n")


def test_guesses_are_limited_with_and_without_a_gateway(folder: CommandFolder) -> None:
    with running(folder) as gateway:
        code = gateway.write("ada")
        for n in range(5):
            assert folder.run("access", "approve", f"GUESS{n}").exit_code == 1
    for n in range(5):
        assert folder.run("access", "approve", f"GUESS{n}").exit_code == 1
    done = folder.run("access", "approve", code)
    assert (done.exit_code, done.out) == (1, "")
    assert "too many wrong codes" in done.err


def test_a_missing_ledger_or_settings_file_is_one_clear_line(folder: CommandFolder) -> None:
    for command, exit_code in ((("access",), 0), (("access", "approve", "A"), 1), (("access", "revoke", "A"), 1)):
        done = folder.run(*command)
        assert (done.exit_code, done.out) == (exit_code, "")
        assert f"there is no ledger at {folder.ledger}" in done.err
        assert not folder.ledger.exists()
    done = folder.run("access", "--config", "nowhere.toml")
    assert (done.exit_code, done.err) == (2, "tailrace: there is no settings file nowhere.toml\n")


def test_the_ledger_is_found_by_the_settings(folder: CommandFolder) -> None:
    settings = folder.folder / "my.toml"
    settings.write_text('[gateway]\ndata_dir = "state"\n')
    for command in (["access"], ["deliveries"], ["deliveries", "purge", "--all"]):
        done = run_here(*command, "--config", str(settings), env=folder.env)
        assert f"there is no ledger at {folder.folder / 'state' / 'ledger.db'}" in done.err
        done = run_here(*command, "--set", f"gateway.data_dir={folder.folder}", env=folder.env)
        assert f"there is no ledger at {folder.ledger}" in done.err


def test_a_process_without_a_control_socket_is_named(folder: CommandFolder) -> None:
    with running(folder) as gateway:
        folder.ledger.with_name("ledger.db.sock").unlink()
        done = folder.run("access", "approve", "A")
        assert done.exit_code == 1
        in_use = f"tailrace: {folder.ledger} is in use by process {gateway.process.pid}, and no gateway answers at "
        assert done.err.startswith(f"{in_use}{folder.ledger}.sock.")


def test_deliveries_are_sent_and_deleted_by_the_gateway_with_the_same_output(
    folder: CommandFolder, platform: PlatformProcess
) -> None:
    made = CommandFolder(folder.folder, platform)
    platform.add_faults(Rule(fault=Reset(), kind="post", at=2))
    assert made.deliver("--turn", "t").exit_code == 1
    with running(made, "simulated"):
        done = made.deliveries("resend", "t.2")
        assert (done.exit_code, done.out[:34]) == (0, "sent t.2 again, as t/resend.2 (mes")
        again = made.deliveries("resend", "t.2", "--json")
        assert (again.exit_code, again.objects[0]["again_of"]) == (0, "t.2")
        assert made.deliveries("resend", "t.9").exit_code == 2
        assert made.deliver("--turn", "u").exit_code == 1
        resumed = made.deliveries("resume")
        assert (resumed.exit_code, resumed.err) == (0, "nothing is left open\n")
        assert made.deliveries("purge", "--all", "--state", "unknown").out == "deleted 1 delivery\n"
        assert made.deliveries("purge", "--turn", "t", "--bodies").exit_code == 0
        refused = made.deliveries("resend", "t.1")
        assert refused.exit_code == 1
        assert "its text was deleted" in refused.err
    assert "t.2" not in made.states()


def test_a_channel_that_the_gateway_does_not_run_is_named(folder: CommandFolder, platform: PlatformProcess) -> None:
    made = CommandFolder(folder.folder, platform)
    assert made.deliver("--turn", "t").exit_code == 0
    with running(made):
        done = made.deliveries("resend", "t.1")
        assert (done.exit_code, done.out) == (1, "")
        assert "t.1 cannot be sent again: the channel 'simulated' is not connected in the gateway" in done.err
