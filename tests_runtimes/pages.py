"""The examples of the pages on runtimes, as modules."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

PAGES = Path(__file__).parent.parent / "docs" / "runtimes"


def example(page: str, name: str) -> ModuleType:
    """The program of that name on a page as a module. Its `main` has not run."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    (program,) = re.findall(rf"(?ms)^```python\n(# {name}\.py\b.*?)^```$", text)
    module = ModuleType(name)
    exec(compile(program, f"{page}.md", "exec"), vars(module))
    return module
