"""The strategies of the laws draw the same examples whatever constants the code contains."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
CONSTANTS = "\n".join(
    f"CONSTANT = {value!r}" for value in (*range(100, 1000), *"*_`#abc\u0301日", "```", b"\x00a", 2.5)
)
DRAW = """
import json
from hypothesis import Phase, given, settings, strategies as st
from event_strategies import any_event
from hostile_texts import hostile_texts
from stable_strategies import byte_strings, integers, items, texts
from strategies import documents, proses

def drawn(strategy):
    found = []
    @settings(max_examples=60, derandomize=True, database=None, phases=[Phase.generate], deadline=None)
    @given(strategy)
    def draw(value):
        found.append(repr(value))
    draw()
    return found

stable = [hostile_texts(), documents(), proses(), any_event]
stable += [integers(0, 5000), items(range(400)), texts(), byte_strings(9)]
print(json.dumps([list(map(drawn, stable)), drawn(st.text())]))
"""


def examples_beside(module: Path) -> tuple[list[list[str]], list[str]]:
    """What a new process draws that has loaded the module: from the strategies of the laws, and from `st.text`."""
    paths = [str(TESTS), str(TESTS / "markdown"), str(module.parent)]
    program = f"import sys; sys.path[:0] = {paths}; import {module.stem}\n{DRAW}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=module.parent)
    stable, other = json.loads(run.stdout)
    return stable, other


def test_examples_do_not_depend_on_the_constants_in_the_code(tmp_path: Path) -> None:
    (tmp_path / "before.py").write_text("")
    (tmp_path / "changed.py").write_text(CONSTANTS, "utf-8")
    before, other_before = examples_beside(tmp_path / "before.py")
    after, other_after = examples_beside(tmp_path / "changed.py")
    assert before == after
    assert other_before != other_after, "Hypothesis does not draw constants: `stable_strategies` is not needed"
