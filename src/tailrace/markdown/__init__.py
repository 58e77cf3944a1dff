"""Text to parts that fit: cutting Markdown by the laws, and rendering it for each dialect."""

from tailrace.markdown.dialects import render
from tailrace.markdown.part import Part, join
from tailrace.markdown.splitter import Splitter, split

__all__ = ["Part", "Splitter", "join", "render", "split"]
