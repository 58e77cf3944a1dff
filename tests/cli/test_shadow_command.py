"""`tailrace shadow`: recorded turns in two ways."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from pseudo_terminal import TAILRACE

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TAILRACE, *arguments], capture_output=True, text=True, check=False, timeout=60)


def turns(folder: Path, *texts: str) -> str:
    for number, text in enumerate(texts):
        lines = [{"at": 0.0, "event": {"type": "turn_started", "turn_id": "t"}}]
        lines += [
            {"at": at / 50, "event": {"type": "text_delta", "text": text[at : at + 9]}} for at in range(0, len(text), 9)
        ]
        lines.append({"at": len(text) / 50, "event": {"type": "turn_completed"}})
        path = folder / f"{number}.ndjson"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(folder)


LONG = "\n\n".join(f"Paragraph {number}. " + "The river turns the wheel. " * 12 for number in range(9))


def test_the_same_way_twice_is_the_same(tmp_path: Path) -> None:
    done = run("shadow", "--replay", turns(tmp_path, "Hello.", LONG))
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "2 turns, 2 of them the same")


def test_another_presentation_cuts_elsewhere_and_that_is_no_failure(tmp_path: Path) -> None:
    done = run("shadow", "--replay", turns(tmp_path, LONG), "--shadow-presentation", "blocks", "--channel", "discord")
    assert done.returncode == 0
    assert "cut moved" in done.stdout
    assert "first in 0.ndjson" in done.stdout


def test_text_that_would_be_lost_is_a_failure(tmp_path: Path) -> None:
    done = run("shadow", "--replay", turns(tmp_path, "Quiet"), "--shadow-set", 'silent=["Quiet"]')
    assert done.returncode == 1
    assert "1 lost" in done.stdout


def test_as_json_each_turn_is_an_object(tmp_path: Path) -> None:
    done = run("shadow", "--replay", turns(tmp_path, "Hello.", LONG), "--shadow-presentation", "blocks", "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {"turn": "0.ndjson", "same": True, "counts": {"identical": 1}, "later_s": 0.0, "examples": {}}
    assert second["counts"] == {"cut moved": 1}


def test_a_folder_without_turns_is_said(tmp_path: Path) -> None:
    assert "holds no turns" in run("shadow", "--replay", str(tmp_path)).stderr
    gone = run("shadow", "--replay", str(tmp_path / "gone"))
    assert (gone.returncode, "there is no such folder" in gone.stderr) == (2, True)
