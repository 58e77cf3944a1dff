"""Chunks as values: texts that grow, equality, copies. Their wire form is in the vectors of the fold."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest

from tailrace.chunks import ErrorChunk, ShellOutput, SystemChunk, TextChunk, ThinkingChunk, ToolBatchChunk


def test_text_grows_by_pieces_and_reads_as_one_string() -> None:
    chunk = TextChunk(text="a")
    chunk.tail.append("b")
    chunk.tail.append("c")
    assert chunk.text == "abc"
    assert type(chunk.text) is str
    chunk.tail.append("d")
    assert msgspec.to_builtins(chunk) == {"type": "text", "text": "abcd"}
    chunk.tail.append("e")
    assert msgspec.json.encode(chunk) == b'{"type":"text","text":"abcde"}'


def test_second_read_does_not_join_again() -> None:
    chunk = TextChunk(text="a" * 1000)
    chunk.tail.append("b" * 1000)
    assert chunk.text is chunk.text


def test_text_can_be_set_while_it_is_open() -> None:
    chunk = TextChunk(text="a")
    chunk.tail.append("b")
    chunk.text = "x"
    chunk.tail.append("y")
    assert chunk.text == "xy"


def test_seal_is_not_part_of_the_value() -> None:
    sealed, open_ = TextChunk(text="a"), TextChunk(text="a")
    sealed.seal()
    assert sealed == open_
    assert repr(sealed) == repr(open_) == "TextChunk(text='a')"
    assert msgspec.to_builtins(sealed) == msgspec.to_builtins(open_)
    assert not hasattr(sealed, "tail")


def test_different_values_are_not_equal() -> None:
    assert TextChunk(text="a") != TextChunk(text="b")
    assert [ThinkingChunk(text="a"), "x"] != [TextChunk(text="a"), "x"]
    assert ThinkingChunk(text="a", metadata=1) != ThinkingChunk(text="a")
    assert ShellOutput(stdout="a") != ShellOutput(stderr="a")


def test_text_is_required_and_shell_output_is_optional() -> None:
    with pytest.raises(TypeError):
        TextChunk()
    assert (ShellOutput().stdout, ShellOutput().stderr) == ("", "")


def test_chunks_of_one_kind_do_not_share_state() -> None:
    one, other = ShellOutput(), ShellOutput()
    one.grow("stdout", "a")
    one.grow("stderr", "b")
    assert (one, other) == (ShellOutput(stdout="a", stderr="b"), ShellOutput())


def test_copy_grows_independently() -> None:
    chunk = TextChunk(text="a")
    chunk.tail.append("b")
    for other in (copy.deepcopy(chunk), pickle.loads(pickle.dumps(chunk))):
        other.tail.append("c")
        assert other.text == "abc"
    assert chunk.text == "ab"


def test_schema_of_each_chunk_can_be_written() -> None:
    schemas, _ = msgspec.json.schema_components([TextChunk, ThinkingChunk, ToolBatchChunk, ErrorChunk, SystemChunk])
    assert len(schemas) == 5
