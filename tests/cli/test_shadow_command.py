"""`tailrace shadow`: recorded turns in two variants; and the examples of docs/shadow.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_runs import Done, run_here
from pseudo_terminal import TAILRACE
from tailrace.shadow.comparison import Difference
from tailrace.shadow.live import ShadowSettings

PAGE = (Path(__file__).parent.parent.parent / "docs" / "shadow.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"(?ms)^```sh\n(.*?)^```$", PAGE)


def turns(folder: Path, *texts: str, **named: str) -> str:
    """Write a file for each text: 0.ndjson, 1.ndjson and so on, or by its name."""
    folder.mkdir(exist_ok=True)
    for name, text in {**{str(number): text for number, text in enumerate(texts)}, **named}.items():
        pieces = [(at / 50, {"type": "text_delta", "text": text[at : at + 9]}) for at in range(0, len(text), 9)]
        turn = [(0.0, {"type": "turn_started", "turn_id": "t"}), *pieces, (len(text) / 50, {"type": "turn_completed"})]
        lines = "".join(json.dumps({"at": at, "event": event}) + "\n" for at, event in turn)
        (folder / f"{name}.ndjson").write_text(lines, encoding="utf-8")
    return str(folder)


def shadow(*arguments: str) -> Done:
    return run_here("shadow", "--replay", *arguments)


LONG = "\n\n".join(f"Paragraph {number}. " + "The river turns the wheel. " * 12 for number in range(9))


def test_the_same_settings_twice_are_the_same(tmp_path: Path) -> None:
    done = shadow(turns(tmp_path, "Hello.", LONG))
    assert (done.exit_code, done.out.splitlines()[0]) == (0, "2 turns compared: 2 the same, 0 different")


def test_other_cuts_of_the_same_text_are_no_failure(tmp_path: Path) -> None:
    done = shadow(turns(tmp_path, LONG), "--shadow-presentation", "blocks", "--channel", "discord")
    assert done.exit_code == 0
    assert "cut moved" in done.out
    assert "first in 0.ndjson" in done.out


def test_text_that_would_be_lost_is_a_failure(tmp_path: Path) -> None:
    done = shadow(turns(tmp_path, "Quiet"), "--shadow-set", 'silent=["Quiet"]')
    assert done.exit_code == 1
    assert "1 lost" in done.out


def test_as_json_each_turn_is_an_object(tmp_path: Path) -> None:
    done = shadow(turns(tmp_path, "Hello.", LONG), "--shadow-presentation", "blocks", "--json")
    first, second = map(json.loads, done.out.splitlines())
    times = {"first_s": 0.0, "later_s": 0.0, "apart_s": 0.0}
    assert first == {"turn": "0.ndjson", "same": True, "counts": {"identical": 1}, **times, "examples": {}}
    assert second["counts"] == {"cut moved": 1, "calls": 1, "timing": 1}
    assert second["examples"].keys() == second["counts"].keys()


def test_differences_in_time_within_the_tolerance_are_ignored(tmp_path: Path) -> None:
    options = (turns(tmp_path, LONG), "--shadow-set", "first_s=9", "--shadow-set", "first_characters=400")
    late = shadow(*options)
    assert (late.exit_code, "1 timing" in late.out) == (0, True)
    assert "timing" not in shadow(*options, "--tolerance", "60").out


def test_turns_of_two_folders_are_paired_by_file_name(tmp_path: Path) -> None:
    ours = turns(tmp_path / "a", one="Hello.", two="The river turns the wheel.", three="Only here.")
    theirs = turns(tmp_path / "b", one="Hello.", two="The river turns a wheel.", four="Only there.")
    done = shadow(ours, "--against", theirs)
    assert done.exit_code == 1
    assert "three.ndjson: only in the folder of --replay" in done.out
    assert "four.ndjson: only in the folder of --against" in done.out
    assert "two.ndjson: 1 text differs" in done.out
    assert "2 turns compared: 1 the same, 1 different, 2 without a counterpart" in done.out
    records = shadow(ours, "--against", theirs, "--json").out
    assert {"turn": "four.ndjson", "only_in": "against"} in map(json.loads, records.splitlines())


def test_turns_that_a_recorder_named_are_paired_by_number(tmp_path: Path) -> None:
    ours = turns(tmp_path / "a", **{"0001-abc": "Hello.", "0002-def": "Good bye."})
    theirs = turns(tmp_path / "b", **{"0001-uvw": "Hello.", "0002-xyz": "Good bye."})
    done = shadow(ours, "--against", theirs)
    assert (done.exit_code, done.out.splitlines()[0]) == (0, "2 turns compared: 2 the same, 0 different")


PROJECTORS = """
from tailrace.projector import Projector

class Deaf(Projector):
    __slots__ = ()
    def feed(self, event, now):
        if type(event).__name__ != "TextDelta":
            super().feed(event, now)

class Broken(Projector):
    __slots__ = ()
    def feed(self, event, now):
        raise RuntimeError("not today")
"""


def test_another_projector_is_tried_on_recorded_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "others.py").write_text(PROJECTORS, encoding="utf-8")
    folder = turns(tmp_path, "Hello.")

    assert "1 lost" in shadow(folder, "--shadow-projector", "others:Deaf").out
    broken = shadow(folder, "--shadow-projector", "others:Broken")
    assert (broken.exit_code, broken.err) == (1, "")
    assert "0.ndjson: the shadow was given up: RuntimeError: not today" in broken.out
    for wrong in ("others", "others:Nobody", "others:__name__"):
        refused = shadow(folder, "--shadow-projector", wrong)
        assert (refused.exit_code, f"--shadow-projector {wrong}" in refused.err) == (2, True)


def test_a_folder_without_turns_is_refused(tmp_path: Path) -> None:
    assert "holds no turns" in shadow(str(tmp_path)).err
    gone = shadow(str(tmp_path / "gone"))
    assert (gone.exit_code, "there is no such folder" in gone.err) == (2, True)


def test_the_examples_of_the_page_run_in_order(tmp_path: Path) -> None:
    assert len(EXAMPLES) == 3
    path = f"{Path(TAILRACE).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "XDG_DATA_HOME": str(tmp_path)}
    for example in EXAMPLES:
        done = subprocess.run(
            ["sh", "-ec", example], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path, env=env
        )
        assert done.returncode == 0, done.stderr
        assert "1 turn compared: 1 the same, 0 different" in done.stdout


def test_the_program_of_the_page_runs() -> None:
    [program] = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "One. Two. Three.\n1 lost, 1 calls\n"


def test_every_kind_and_every_setting_is_on_the_page() -> None:
    names = [str(kind) for kind in Difference] + list(ShadowSettings.__struct_fields__)
    assert [name for name in names if f"| `{name}` |" not in PAGE] == []
