"""The documents are true: their examples run, their links are not broken, their commands exist."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tailrace.deliveries import State
from tailrace.delivery import CourierSettings, RecoverySettings
from tailrace.projector import ProjectorSettings
from tailrace.projector.presentation import PRESENTATIONS
from tailrace.testing.runtime_contract import RuntimeContract
from tailrace.testing.runtime_scenarios import Player

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())


@every_document
def test_python_sessions_run_as_shown(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    sessions = [code for _fence, code in re.findall(r"(?ms)^(`{3,})pycon\n(.*?)^\1$", text)]
    session = doctest.DocTestParser().get_doctest("\n".join(sessions), {}, document.name, str(document), 0)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(session, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted or document.name != "markdown.md"


@every_document
def test_links_within_the_tree_are_not_broken(document: Path) -> None:
    links = re.findall(r"\]\((?!\w+://|#)([^)#]+)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@every_document
def test_targets_of_make_exist(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?m)^([a-z]+):", makefile))
    named = set(re.findall(r"(?m)(?:^|`)make (?:\w+=(?:'[^']*'|\S+) )?([a-z]+)", document.read_text(encoding="utf-8")))
    assert named <= targets


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def program_of(name: str) -> str:
    """The one program of a page."""
    [program] = re.findall(r"(?ms)^```python\n(.*?)^```$", page(name))
    return str(program)


def printed_by(name: str) -> list[str]:
    """The lines that the program of a page prints."""
    done = subprocess.run([sys.executable, "-c", program_of(name)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_programs_of_the_pages_print_what_they_should() -> None:
    assert printed_by("delivery") == ["First part.", "", "Last part."]
    kinds = [line.split()[1] for line in printed_by("presentations")]
    assert kinds == ["Typing", "Post", "Edit", "Edit", "Edit"]


def test_every_setting_state_and_presentation_is_documented() -> None:
    settings = {*CourierSettings.__struct_fields__, *RecoverySettings.__struct_fields__}
    assert {name for name in settings if f"| `{name}` |" not in page("delivery")} == set()
    assert {state for state in State if str(state) not in page("delivery")} == set()
    presentations = (set(PRESENTATIONS) - {"drafts", "streams"}) | {"native"}
    settings = {*ProjectorSettings.__struct_fields__, *presentations}
    assert {name for name in settings if f"| `{name}` |" not in page("presentations")} == set()


def test_runtime_of_the_contract_page_passes_the_contract(tmp_path: Path) -> None:
    (tmp_path / "test_my_runtime.py").write_text(program_of("runtime-contract"), encoding="utf-8")
    options = ["-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, "test_my_runtime.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    tests = [name for name in vars(RuntimeContract) if name.startswith("test_")]
    assert f"{len(tests)} passed" in done.stdout, done.stdout
    methods = {name for name in vars(Player) if not name.startswith("_")}
    assert {name for name in methods if f"`{name}" not in page("runtime-contract")} == set()


def test_every_document_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    names = {path.relative_to(ROOT).as_posix() for path in DOCUMENTS} - {"README.md"}
    found = {name for name in names if f"({name})" in readme}
    found |= {f"docs/{link}" for link in re.findall(r"\]\((runtimes/[^)#]+)", (ROOT / "docs/runtimes.md").read_text())}
    assert names - found == set()
