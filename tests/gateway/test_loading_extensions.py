"""Finding and loading extensions: manifests, modules, entry points, and everything that can be wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tailrace.config import AgentSettings
from tailrace.errors import UsageError
from tailrace.gateway.extensions import BrokenExtension, Extension, load_extensions

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = {"main": AgentSettings(use="demo")}
TWO_AGENTS = {**AGENTS, "coder": AgentSettings(use="demo", presentation="parts")}
MODULE = "class Own:\n    word = 'hello'\n"
MANIFEST = "name: own\nentry: main:Own\n"


def write(folder: Path, name: str, manifest: str | bytes = MANIFEST, **modules: str) -> None:
    (folder / name).mkdir(parents=True)
    content = manifest if isinstance(manifest, bytes) else manifest.encode()
    (folder / name / "manifest.yaml").write_bytes(content)
    for module, source in {"main": MODULE, **modules}.items():
        (folder / name / f"{module}.py").write_text(source)


def loaded(folder: Path, agents: dict[str, AgentSettings] | None = None) -> Extension:
    [extension] = load_extensions(folder, agents or AGENTS)
    assert isinstance(extension, Extension), extension
    return extension


def problem(folder: Path, agents: dict[str, AgentSettings] | None = None) -> str:
    """The problem of the only extension, without the folder of the test."""
    [extension] = load_extensions(folder, agents or AGENTS, timeout_s=60)
    assert isinstance(extension, BrokenExtension), extension
    assert "\n" not in extension.problem
    return extension.problem.replace(f"{folder}/", "")


def test_a_folder_with_a_manifest_is_an_extension(tmp_path: Path) -> None:
    write(tmp_path, "first", f"{MANIFEST}config: {{streaming_enabled: false, allow: ['7'], own: [1, 2]}}\n")
    (tmp_path / "no-manifest").mkdir()
    (tmp_path / "file.txt").write_text("x")
    extension = loaded(tmp_path)
    assert (extension.name, extension.agent_id, extension.make().word) == ("own", "main", "hello")
    assert (extension.settings.streaming_enabled, extension.settings.allow) == (False, ("7",))
    assert extension.settings.polling_timeout == 30
    assert extension.config == {"streaming_enabled": False, "allow": ["7"], "own": [1, 2]}
    assert extension.presentation == "final"


def test_two_extensions_can_have_modules_of_the_same_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        main = f"from . import words\nfrom .words import WORD\nclass Own:\n    word = WORD + words.WORD + '{name}'\n"
        write(tmp_path, name, MANIFEST.replace("own", name), main=main, words=f"WORD = '{name} '")
    found = load_extensions(tmp_path, AGENTS)
    assert [each.make().word for each in found if isinstance(each, Extension)] == ["one one one", "two two two"]


def test_the_entry_can_be_in_a_package(tmp_path: Path) -> None:
    write(tmp_path, "one", "name: own\nentry: inner.deep:Own\n")
    (tmp_path / "one" / "inner").mkdir()
    (tmp_path / "one" / "inner" / "deep.py").write_text(MODULE)
    assert loaded(tmp_path).make().word == "hello"


def test_an_extension_names_its_agent_as_a_channel_does(tmp_path: Path) -> None:
    write(tmp_path, "first", f"{MANIFEST}agent: coder\n")
    extension = loaded(tmp_path, TWO_AGENTS)
    assert (extension.agent_id, extension.presentation) == ("coder", "parts")
    (tmp_path / "first" / "manifest.yaml").write_text(f"{MANIFEST}config: {{agent: coder}}\n")
    assert loaded(tmp_path, TWO_AGENTS).agent_id == "coder"
    [only] = load_extensions(tmp_path, AGENTS, only_agent="main")
    assert isinstance(only, Extension)
    assert only.agent_id == "main"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ("nmae: own\nentry: main:Own\n", "x/manifest.yaml: nmae is not a key of a manifest. Did you mean 'name'?"),
        ("name: own\nhost: a\n", "x/manifest.yaml: host is not a key of a manifest. Keys: name, entry, config, agent."),
        ("1: own\n", "x/manifest.yaml: 1 is not a key of a manifest. Keys: name, entry, config, agent."),
        ("entry: main:Own\n", "x/manifest.yaml: object missing required field `name`"),
        ("", "x/manifest.yaml: expected `object`, got `null`"),
        ("- name\n", "x/manifest.yaml: expected `object`, got `array`"),
        ("name: [own]\n", "x/manifest.yaml: name: expected `str`, got `array`"),
        ("name: my own\n", "x/manifest.yaml: name: use letters, digits, - and _ in a name"),
        ("name: own\nentry: main\n", "x/manifest.yaml: entry: expected module:Class, such as main:MyExtension"),
        ("name: own\nentry: ../main:Own\n", "x/manifest.yaml: entry: expected module:Class, such as main:MyExtension"),
        ("name: own\n", "x/manifest.yaml: entry is missing, and no installed package has an extension 'own'"),
        (f"{MANIFEST}config: 3\n", "x/manifest.yaml: config: expected `object`, got `int`"),
        (
            f"{MANIFEST}config: {{polling_timeout: soon}}\n",
            "x/manifest.yaml: config.polling_timeout: expected `int`, got `str`",
        ),
        (
            f"{MANIFEST}config: {{stream_edit_interval_ms: 0}}\n",
            "x/manifest.yaml: config.stream_edit_interval_ms: expected `int` >= 1",
        ),
        (f"{MANIFEST}config: {{allow: [1]}}\n", "x/manifest.yaml: config.allow[0]: expected `str`, got `int`"),
        (f"{MANIFEST}agent: man\n", "x/manifest.yaml: agent: there is no agent 'man'. Did you mean 'main'?"),
        (f"{MANIFEST}agent: xyz\n", "x/manifest.yaml: agent: there is no agent 'xyz'. Add the table [agents.xyz]."),
    ],
)
def test_a_wrong_manifest_names_the_file_and_the_key(tmp_path: Path, manifest: str, expected: str) -> None:
    write(tmp_path, "x", manifest)
    assert problem(tmp_path) == expected


@pytest.mark.parametrize(
    "manifest", [b"\xff\xfe\x00", b"\x00\x01", b"name: [", b"a: b: c", b"!!python/object:os.system x", b"[" * 100_000]
)
def test_a_manifest_that_is_not_yaml_is_reported(tmp_path: Path, manifest: bytes) -> None:
    write(tmp_path, "x", manifest)
    assert problem(tmp_path).startswith("x/manifest.yaml is not valid YAML: ")


def test_with_several_agents_a_manifest_must_name_one(tmp_path: Path) -> None:
    write(tmp_path, "x")
    assert problem(tmp_path, TWO_AGENTS) == "x/manifest.yaml: agent is missing: choose one of main, coder"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("raise ValueError('no\\nkey')", "it cannot be imported: ValueError: no key"),
        ("import sys; sys.exit(3)", "it cannot be imported: SystemExit: 3"),
        ("class", "it cannot be imported: SyntaxError: invalid syntax (main.py, line 1)"),
        ("class Onw: pass", "x/manifest.yaml: entry: the module main has no 'Own'. Did you mean 'Onw'?"),
        ("Own = 3", "x/manifest.yaml: entry: main:Own is no class"),
        ("import nowhere_at_all", "x/manifest.yaml: main needs the module 'nowhere_at_all', which is not installed."),
        (
            "import beside",
            "x/manifest.yaml: main needs the module 'beside', which is not installed. Write: from . import beside",
        ),
    ],
)
def test_a_module_that_cannot_be_used_is_reported(tmp_path: Path, source: str, expected: str) -> None:
    write(tmp_path, "x", main=source, beside="")
    assert problem(tmp_path) == expected


def test_a_missing_module_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "x", "name: own\nentry: absent:Own\n")
    assert problem(tmp_path) == "x/manifest.yaml: entry: there is no module absent in this folder"


def test_an_import_that_hangs_is_given_up_and_the_others_are_loaded(tmp_path: Path) -> None:
    write(tmp_path, "a", "name: hangs\nentry: main:Own\n", main="import threading\nthreading.Event().wait()\n")
    write(tmp_path, "b", "name: wrong\n")
    write(tmp_path, "c")
    hangs, wrong, good = load_extensions(tmp_path, AGENTS, timeout_s=0.5)
    assert hangs == BrokenExtension("hangs", "its import did not end; it must not wait or run for ever")
    assert isinstance(wrong, BrokenExtension)
    assert isinstance(good, Extension)


def test_a_missing_folder_has_no_extensions_and_a_file_is_an_error(tmp_path: Path) -> None:
    assert load_extensions(tmp_path / "nowhere", AGENTS) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"gateway\.extensions: .*/file cannot be read: Not a directory"):
        load_extensions(tmp_path / "file", AGENTS)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with two extensions, one of which cannot be imported."""
    site = tmp_path / "site"
    info = site / "greeting-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "greeting_package.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    points = "[tailrace.extensions]\ngreeting = greeting_package:Own\nwrong = greeting_package:Absent\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(site)


@pytest.mark.usefixtures("package")
def test_an_installed_package_adds_extensions(tmp_path: Path) -> None:
    found, wrong = load_extensions(tmp_path / "extensions", AGENTS)
    assert isinstance(found, Extension)
    assert (found.name, found.make().word, found.config) == ("greeting", "hello", {})
    assert isinstance(wrong, BrokenExtension)
    assert wrong.problem.startswith("it cannot be imported: AttributeError: ")


@pytest.mark.usefixtures("package")
def test_a_manifest_without_entry_configures_an_installed_extension(tmp_path: Path) -> None:
    write(tmp_path / "extensions", "any", "name: greeting\nconfig: {volume: 3}\n")
    found = load_extensions(tmp_path / "extensions", AGENTS)[0]
    assert isinstance(found, Extension)
    assert (found.make().word, found.config) == ("hello", {"volume": 3})
