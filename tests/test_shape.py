"""The house stays as it was drawn: small files, telling names, words for everything public, nothing of a machine."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "src" / "tailrace").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCH = sorted((ROOT / "bench").rglob("*.py"))
LOCKS = sorted(ROOT.glob("requirements*.lock"))

LONGEST_MODULE, LONGEST_FUNCTION, GOOD_FUNCTION = 500, 60, 40
DRAWERS = {
    *("manager", "managers", "helper", "helpers", "util", "utils", "utility", "utilities", "service", "services"),
    *("processor", "processors", "data", "info", "misc", "common"),
}
# What would let a test pass without testing: parts that are not real, and tests that do not run.
UNREAL = {"mock", "setattr", "skip", "skipif", "skipTest", "importorskip", "xfail"}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), named(path))


def public_definitions(within: ast.AST, path: str) -> Iterator[tuple[str, Definition]]:
    """The public classes and functions of a module, and the public methods of those classes."""
    for node in ast.iter_child_nodes(within):
        if isinstance(node, ast.If | ast.Try):
            yield from public_definitions(node, path)
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield f"{path}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node, f"{path}.{node.name}")


def words(name: str) -> set[str]:
    """The words of a name, written with underscores or with capitals."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def texts_of_the_tree() -> Iterator[tuple[str, str]]:
    """Every file of the tree that `.gitignore` does not leave out, as text."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    left_out = [".git", *(line.rstrip("/") for line in lines)]
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not any(fnmatch(name, pattern) for pattern in left_out)]
        for name in files:
            if name == ".git":
                continue  # where another tree of the repository lies
            path = Path(folder, name)
            yield named(path), path.read_text(encoding="utf-8", errors="replace")


def locked(lock: Path) -> dict[str, tuple[str, list[str]]]:
    """What a lock holds: by name, the version and the hashes. Any other line fails."""
    found: dict[str, tuple[str, list[str]]] = {}
    for line in lock.read_text(encoding="utf-8").splitlines():
        if pinned := re.fullmatch(r"([a-z0-9-]+)==([\w.!+]+)(?: ; [^@:]+)? \\", line):
            hashes: list[str] = []
            found[pinned[1]] = (pinned[2], hashes)
        else:
            hashed = re.fullmatch(r"    --hash=(sha256:[0-9a-f]{64})(?: \\)?", line)
            assert hashed, f"{lock.name}: neither a version nor a hash: {line}"
            hashes.append(hashed[1])
    return found


def distribution(requirement: str) -> str:
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[._]", "-", name).lower()


def test_no_module_is_longer_than_a_reader_keeps_in_mind() -> None:
    lengths = {named(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {
        f"{named(path)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for name, length in lengths.items():
        if length > GOOD_FUNCTION:
            print(f"{name} has {length} lines, {GOOD_FUNCTION} are enough for most")  # shown by pytest -rP
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_no_name_is_a_drawer_for_anything() -> None:
    names = {part for path in [*MODULES, *TESTS, *BENCH] for part in path.relative_to(ROOT).with_suffix("").parts}
    classes = {
        node.name
        for path in [*MODULES, *TESTS, *BENCH]
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef)
    }
    assert {name for name in names | classes if words(name) & DRAWERS} == set()


def test_a_drawer_is_known_by_any_of_its_words() -> None:
    assert words("SessionManager") == {"session", "manager"}
    assert words("HTTPInfo2") == {"http", "info"}
    assert words("text_utils") == {"text", "utils"}
    assert words("ProcessingMessageAccumulator").isdisjoint(DRAWERS)


def test_everything_public_says_what_it_is_for() -> None:
    assert [named(path) for path in MODULES if not ast.get_docstring(parsed(path))] == []
    definitions = [found for path in MODULES for found in public_definitions(parsed(path), named(path))]
    assert len(definitions) > 100
    assert [name for name, node in definitions if not ast.get_docstring(node)] == []


def test_no_file_names_a_registry_or_a_place_on_somebodys_machine() -> None:
    # Written so that this file does not hold what it looks for.
    registries = r"\bpy[p]i[.]org|\bpython[h]osted[.]org|\bnpm[j]s[.](?:org|com)"
    places = r"(?<![\w.~/-])/(?:hom[e]|roo[t]|user[s]|wor[k]|workspac[e]|build[s])/[\w.]|\b[a-z]:\\+users\\"
    forbidden = re.compile(f"{registries}|{places}", re.IGNORECASE)
    found = {name: hit[0] for name, text in texts_of_the_tree() if (hit := forbidden.search(text))}
    assert found == {}


@pytest.mark.parametrize("path", TESTS, ids=named)
def test_tests_use_real_parts_and_all_of_them_run(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = {getattr(node, "module", None) or "", *(alias.name for alias in node.names)}
            assert {part for module in modules for part in module.split(".")}.isdisjoint(UNREAL), ast.unparse(node)
        if isinstance(node, ast.Attribute):
            assert node.attr not in UNREAL, f"line {node.lineno}: {ast.unparse(node)}"


def test_locks_hold_versions_with_hashes_and_no_addresses() -> None:
    for lock in LOCKS:
        found = locked(lock)
        assert found
        assert [name for name, (_version, hashes) in found.items() if not hashes] == []


def test_the_locks_agree_and_hold_all_that_is_asked_for() -> None:
    held = {lock.name: locked(lock) for lock in LOCKS}
    main = held["requirements.lock"]
    for other in held.values():
        assert {name for name in main.keys() & other.keys() if main[name][0] != other[name][0]} == set()
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = asked["dependency-groups"]
    assert {distribution(wanted) for wanted in asked["project"]["dependencies"] + groups.pop("dev")} <= main.keys()
    for group, wanted in groups.items():
        assert {distribution(name) for name in wanted} <= held[f"requirements-{group}.lock"].keys()


def test_there_is_one_kind_of_lock() -> None:
    locks = {name for name, _text in texts_of_the_tree() if name.endswith(".lock")}
    assert locks == {lock.name for lock in LOCKS}
