"""Split Markdown into parts that fit a message, and render it for each platform."""

from tailrace.markdown.dialects import render
from tailrace.markdown.part import Part, join
from tailrace.markdown.splitter import Splitter, split

__all__ = ["Part", "Splitter", "join", "render", "split"]
