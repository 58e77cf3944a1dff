from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tailrace.errors import RuntimeFault
from tailrace.runtimes.sse import Frame, FrameDecoder


def decoded(*pieces: bytes, max_bytes: int = 1 << 20) -> tuple[list[Frame], str, int | None]:
    """The frames of a stream, the error it ended with, and its wish for a retry."""
    decoder = FrameDecoder(max_bytes=max_bytes)
    frames: list[Frame] = []
    try:
        for piece in pieces:
            for frame in decoder.feed(piece):
                frames.append(frame)  # noqa: PERF402  # keeps the frames before an error
        decoder.close()
    except RuntimeFault as fault:
        return frames, str(fault), decoder.retry_ms
    return frames, "", decoder.retry_ms


def texts(stream: bytes) -> list[str]:
    frames, fault, _ = decoded(stream)
    assert not fault
    return [frame.data for frame in frames]


# Any field may follow any other. Half of the parts are line ends, where a cut does harm.
STREAMS = st.lists(
    st.one_of(
        st.sampled_from((b"\n", b"\r", b"\r\n")),
        st.sampled_from(
            (b"data: a", b"data", b"data:b", b"\xc3\xa9\xf0\x9f\x91\x8b", b"\xff", b": comment", b":", b" ")
        )
        | st.sampled_from((b"event: x", b"id: 1", b"id: \0", b"retry: 5", b"retry: x", b"other", b"\xef\xbb\xbf")),
    ),
    max_size=30,
).map(b"".join)


@given(
    stream=STREAMS, cuts=st.lists(st.integers(min_value=0, max_value=200)), max_bytes=st.sampled_from([4, 20, 10000])
)
@example(stream=b"data: a\r\n\n", cuts=[8, 9], max_bytes=10000)
def test_any_partition_gives_the_same_frames_and_the_same_end(stream: bytes, cuts: list[int], max_bytes: int) -> None:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(places)]
    assert decoded(*pieces, max_bytes=max_bytes) == decoded(stream, max_bytes=max_bytes)


@given(stream=STREAMS)
def test_a_stream_fed_byte_by_byte_gives_the_same_frames(stream: bytes) -> None:
    assert decoded(*(bytes([byte]) for byte in stream)) == decoded(stream)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_a_line_ends_with_cr_lf_or_both(end: bytes) -> None:
    assert texts(end.join([b"data: one", b"data: two", b"", b"data: three", b"", b""])) == ["one\ntwo", "three"]


def test_a_frame_is_complete_at_its_blank_line() -> None:
    decoder = FrameDecoder()
    assert [frame.data for frame in decoder.feed(b"data: now\r\r")] == ["now"]
    assert [frame.data for frame in decoder.feed(b"\ndata: then\n\n")] == ["then"]


def test_comments_and_unknown_fields_are_ignored() -> None:
    assert texts(b": keep-alive\n\n:\n\nnonsense\nfoo: bar\n\ndata: x\n: between\n\n") == ["x"]


def test_one_space_after_the_colon_is_not_part_of_the_value() -> None:
    assert texts(b"data:a\n\ndata:  b\n\ndata: \n\ndata\n\n") == ["a", " b", "", ""]


def test_a_frame_has_its_type_and_the_last_id() -> None:
    frames, _, retry = decoded(b"id: 7\nevent: tick\nretry: 3000\ndata: a\n\ndata: b\n\nid: \0\nretry: -1\ndata: c\n\n")
    assert frames == [Frame(data="a", event="tick", id="7"), Frame(data="b", id="7"), Frame(data="c", id="7")]
    assert retry == 3000


def test_a_byte_order_mark_is_removed_at_the_start_only() -> None:
    assert texts(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n") == ["a"]


def test_invalid_utf8_is_replaced() -> None:
    assert texts(b"data: \xff!\n\n") == ["\ufffd!"]


def test_a_frame_over_the_limit_is_an_error() -> None:
    frames, fault, _ = decoded(b"data: 1234\n\ndata: 12345\n\n", max_bytes=10)
    assert [frame.data for frame in frames] == ["1234"]
    assert fault == "the stream holds an event of more than 10 bytes."


def test_a_line_over_the_limit_is_an_error_before_it_ends() -> None:
    assert decoded(b"x" * 11, max_bytes=10)[1] == "the stream holds an event of more than 10 bytes."


def test_comments_do_not_count_towards_the_limit() -> None:
    assert decoded(b": still here\n" * 100, b"data: x\n\n", max_bytes=20) == ([Frame(data="x")], "", None)


@pytest.mark.parametrize("cut", [b"data: x", b"data: x\n", b"data: x\n\ndata: [DONE]\n", b": keep"])
def test_a_stream_that_ends_inside_a_frame_is_an_error(cut: bytes) -> None:
    assert decoded(cut)[1] == "the stream ended in the middle of an event."


def test_ten_thousand_pieces_of_one_line_are_joined_once() -> None:
    pieces = [b"x"] * 10_000
    assert [frame.data for frame in decoded(b"data: ", *pieces, b"\n\n")[0]] == ["x" * 10_000]
