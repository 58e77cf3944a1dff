"""Every recording has a row in the table of its adapter, and every row has its recording.

What each comes to is tested where its table is. Listed here are the recordings that no table has, and why.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import agui_streams
import cli_streams
import pytest
import sdk_streams
import test_acp_translation
import test_claude_translation
import test_cli_recordings
import test_stream_recordings
import vercel_streams
from sdk_streams import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLES: dict[str, Sequence[sdk_streams.Expected | cli_streams.Expected]] = {
    "acp": test_acp_translation.EXPECTED,
    "agui": agui_streams.EXPECTED,
    "claude": test_claude_translation.EXPECTED,
    "codex, gemini, opencode": test_cli_recordings.EXPECTED,
    "langgraph": test_stream_recordings.LANGGRAPH,
    "openai-agents": test_stream_recordings.OPENAI_AGENTS,
    "pydantic-ai": test_stream_recordings.PYDANTIC_AI,
    "vercel": vercel_streams.EXPECTED,
}
# A number behind a name is one of the turns of a recording that holds several.
ROWS = {adapter: [row.recording.partition(" ")[0] for row in table] for adapter, table in TABLES.items()}

# Recordings that were made and are not in the tree, since no adapter reads what they hold.
NOT_READ = {
    "adk_err": "events of google-adk in Python: its agents are read over AG-UI, by ag-ui-adk",
    "adk_tool": "events of google-adk in Python: its agents are read over AG-UI, by ag-ui-adk",
    "smolagents_tool_nostream": "steps of smolagents in Python: it speaks no protocol; a function can yield them",
    "smolagents_tool_stream": "steps of smolagents in Python: it speaks no protocol; a function can yield them",
    "strands_errmid": "events of Strands in Python: its agents are read over AG-UI, as in agui_strands_tool",
    "strands_tool": "events of Strands in Python: the same turn over AG-UI is agui_strands_tool",
    "vercel5_fullstream_tool": "the AI SDK's own parts on the server: what is sent of them is vercel5_ui_tool",
    "vercel6_fullstream_tool": "the AI SDK's own parts on the server: what is sent of them is vercel6_ui_tool",
    "vercel7_fullstream_tool": "the AI SDK's own parts on the server: what is sent of them is vercel7_ui_tool",
}


def test_every_recording_has_a_row_and_every_row_a_recording() -> None:
    recorded = {path.stem for path in RECORDINGS.glob("*.ndjson")}
    rows = {recording for table in ROWS.values() for recording in table}
    assert recorded - rows == set(vercel_streams.SNAPSHOTS)
    assert rows - recorded == set()


def test_a_recording_is_read_by_one_adapter() -> None:
    readers = [recording for table in ROWS.values() for recording in set(table)]
    assert len(readers) == len(set(readers))


@pytest.mark.parametrize("recording", sorted(NOT_READ))
def test_unread_recording_names_the_one_that_is_read_instead(recording: str) -> None:
    reason = NOT_READ[recording]
    assert not (RECORDINGS / f"{recording}.ndjson").exists()
    named = {word for word in reason.replace(":", " ").split() if word.startswith(("agui_", "vercel"))}
    assert named <= {row for table in ROWS.values() for row in table}


def test_every_recording_says_what_was_recorded_and_how() -> None:
    for path in RECORDINGS.iterdir():
        first, *lines = path.read_bytes().splitlines()
        header = json.loads(first)["_header"]
        assert all(header[name] for name in ("runtime", "version", "how")), path
        assert lines, path
