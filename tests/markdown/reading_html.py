"""How a reader of HTML sees a fragment: its tags, attributes and text, and what is wrong with its nesting."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = frozenset(("br", "hr", "input"))


class Fragment(HTMLParser):
    """A fragment of HTML; `errors` is what is wrong with it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.errors: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.targets: list[str] = []
        self.text = ""
        self.max_depth = 0
        self.open: list[str] = []
        self.feed(html)
        self.close()
        if self.open:
            self.errors.append(f"left open: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(tag, name) for name, _ in attrs}
        self.targets += [value or "" for name, value in attrs if name == "href"]
        if tag == "a" and tag in self.open:
            self.errors.append("a link in a link")
        if tag not in VOID:
            self.open.append(tag)
            self.max_depth = max(self.max_depth, len(self.open))
        elif tag != "input":
            self.text += "\n"

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.errors.append(f"{tag} is closed where it is not open")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.errors.append(f"a comment: {data}")

    def handle_decl(self, decl: str) -> None:
        self.errors.append(f"a declaration: {decl}")

    def handle_pi(self, data: str) -> None:
        self.errors.append(f"an instruction: {data}")
