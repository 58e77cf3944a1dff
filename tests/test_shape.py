"""Rules for every source file: size, names, docstrings, real parts in tests; also for locks and commit subjects.

Rules on style and imports are checked by `make lint`, and rules on documents by `test_docs.py`.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections import Counter
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parent.parent
MODULES = sorted((ROOT / "src" / "tailrace").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
BENCH = sorted((ROOT / "bench").rglob("*.py"))
LOCKS = sorted(ROOT.glob("requirements*.lock"))

LONGEST_MODULE, LONGEST_FUNCTION, GOOD_FUNCTION = 500, 60, 40
LONGEST_SUBJECT = 72
# The commits after this one keep the rule on subjects.
LAST_FREE_COMMIT = "a320f78"
VAGUE_WORDS = {
    *("manager", "managers", "helper", "helpers", "util", "utils", "utility", "utilities", "service", "services"),
    *("processor", "processors", "data", "info", "misc", "common"),
}
METAPHORS = {
    *("aside", "book", "bury", "desk", "drawing", "granted", "growth", "heard", "hearing", "imprint", "insist", "kin"),
    *("lane", "lanes", "lifeline", "outlet", "outlets", "reckoning", "saboteur", "settle", "sheaf", "sheet", "sheets"),
    *("steadily", "tally", "telling", "tidy", "told", "weather", "wishes"),
}
# With these a test can pass without testing: parts that are not real, and tests that do not run.
NOT_REAL = {"mock", "setattr", "skip", "skipif", "skipTest", "importorskip", "xfail"}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module", autouse=True)
def _forget_trees() -> Iterator[None]:
    """Free the parsed files after these tests. With so many objects each garbage collection would take a second."""
    yield
    parsed.cache_clear()
    nodes.cache_clear()


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), relative(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


def defined_names(path: Path) -> Iterator[str]:
    """The names of a module and of its classes, functions, parameters and attributes."""
    yield path.stem
    for node in nodes(path):
        match node:
            case ast.ClassDef():
                yield node.name
                fields = [field.target for field in node.body if isinstance(field, ast.AnnAssign)]
                yield from (field.id for field in fields if isinstance(field, ast.Name))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.arg():
                yield node.arg
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr


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
            yield relative(path), path.read_text(encoding="utf-8", errors="replace")


def too_long(subjects: Iterable[str]) -> list[str]:
    return [subject for subject in subjects if len(subject) > LONGEST_SUBJECT]


def git_log(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The subjects of commits of this tree. It fails where the tree is no repository of its own."""
    return subprocess.run(
        ["git", "-C", ROOT, "log", "--no-merges", "--format=%s", *arguments],
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(ROOT.parent)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def locked(lock: Path) -> dict[str, tuple[str, list[str]]]:
    """The version and the hashes of each package in a lock. Any other line fails."""
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


def test_no_module_has_more_than_500_lines() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_no_function_has_more_than_60_lines() -> None:
    lengths = {
        f"{relative(path)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for name, length in lengths.items():
        if length > GOOD_FUNCTION:
            print(f"{name} has {length} lines, {GOOD_FUNCTION} are enough for most")  # shown by pytest -rP
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_no_module_or_class_has_a_vague_name() -> None:
    names = {part for path in [*MODULES, *TESTS, *BENCH] for part in path.relative_to(ROOT).with_suffix("").parts}
    classes = {
        node.name for path in [*MODULES, *TESTS, *BENCH] for node in nodes(path) if isinstance(node, ast.ClassDef)
    }
    assert {name for name in names | classes if words(name) & VAGUE_WORDS} == set()


def test_no_name_is_a_metaphor() -> None:
    names = {(relative(path), name) for path in [*MODULES, *BENCH] for name in defined_names(path)}
    names |= {(relative(path), name) for path in TESTS for name in defined_names(path) if not name.startswith("_")}
    assert {(path, name) for path, name in names if words(name) & METAPHORS} == set()


def test_no_two_public_classes_have_the_same_name() -> None:
    classes = [node.name for path in MODULES for node in parsed(path).body if isinstance(node, ast.ClassDef)]
    assert {name: times for name, times in Counter(classes).items() if times > 1 and not name.startswith("_")} == {}


def test_words_of_a_name() -> None:
    assert words("SessionManager") == {"session", "manager"}
    assert words("HTTPInfo2") == {"http", "info"}
    assert words("text_utils") == {"text", "utils"}
    assert words("ProcessingMessageAccumulator").isdisjoint(VAGUE_WORDS)


def test_every_module_and_public_definition_has_a_docstring() -> None:
    assert [relative(path) for path in MODULES if not ast.get_docstring(parsed(path))] == []
    definitions = [found for path in MODULES for found in public_definitions(parsed(path), relative(path))]
    assert len(definitions) > 100
    assert [name for name, node in definitions if not ast.get_docstring(node)] == []


def test_no_file_names_a_package_registry_or_a_path_of_a_machine() -> None:
    # Written so that this file does not hold what it looks for.
    registries = r"\bpy[p]i[.]org|\bpython[h]osted[.]org|\bnpm[j]s[.](?:org|com)"
    places = r"(?<![\w.~/-])/(?:hom[e]|roo[t]|user[s]|wor[k]|workspac[e]|build[s])/[\w.]|\b[a-z]:\\+users\\"
    forbidden = re.compile(f"{registries}|{places}", re.IGNORECASE)
    found = {name: hit[0] for name, text in texts_of_the_tree() if (hit := forbidden.search(text))}
    assert found == {}


def test_tests_use_real_parts_and_skip_nothing() -> None:
    found = []
    for path in TESTS:
        for node in nodes(path):
            names: set[str] = set()
            if isinstance(node, ast.Import | ast.ImportFrom):
                modules = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
                names = {part for module in modules for part in module.split(".")}
            elif isinstance(node, ast.Attribute):
                names = {node.attr}
            found += [(relative(path), ast.unparse(node)) for _ in names & NOT_REAL]
    assert found == []


def test_commit_subjects_have_at_most_72_characters() -> None:
    log = git_log(f"{LAST_FREE_COMMIT}..HEAD")
    if log.returncode:
        log = git_log()  # in a shallow clone, which starts later
    assert too_long(log.stdout.splitlines()) == []
    assert too_long(["x" * 72, "x" * 73]) == ["x" * 73]


def test_locks_hold_versions_with_hashes_and_no_addresses() -> None:
    for lock in LOCKS:
        found = locked(lock)
        assert found
        assert [name for name, (_version, hashes) in found.items() if not hashes] == []


def test_locks_agree_and_hold_every_requirement() -> None:
    held = {lock.name: locked(lock) for lock in LOCKS}
    main = held["requirements.lock"]
    for other in held.values():
        assert {name for name in main.keys() & other.keys() if main[name][0] != other[name][0]} == set()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    assert {distribution(wanted) for wanted in project["project"]["dependencies"] + groups.pop("dev")} <= main.keys()
    for group, wanted in groups.items():
        assert {distribution(name) for name in wanted} <= held[f"requirements-{group}.lock"].keys()


def test_there_are_no_other_locks() -> None:
    locks = {name for name, _text in texts_of_the_tree() if name.endswith(".lock")}
    assert locks == {lock.name for lock in LOCKS}
