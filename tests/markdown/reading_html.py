"""How a browser reads a fragment: its tags, attributes and text, and whether every tag is closed where it should be."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset(("br", "hr"))


class Fragment(HTMLParser):
    """What was read of a fragment; a breach of nesting fails at once."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.targets: list[str] = []
        self.said: list[str] = []
        self.deepest = 0
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"left open: {self._open}"

    @property
    def text(self) -> str:
        return "".join(self.said)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(tag, name) for name, _ in attrs}
        self.targets += [value or "" for name, value in attrs if name == "href"]
        if tag == "a":
            assert "a" not in self._open, "a link in a link"
        if tag in VOID:
            self.said.append("\n")
        else:
            self._open.append(tag)
            self.deepest = max(self.deepest, len(self._open))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"{tag} was never opened"
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")
