"""Texts of an agent that was tricked into mentioning people, hiding links and writing HTML."""

from __future__ import annotations

from hypothesis import strategies as st
from strategies import documents, raw_texts

MENTIONS = (
    *("@everyone", "@here", "@EVERYONE", "@room", "@Room", "@every", "one", "@", "<", ">", "ro", "om"),
    *("<@123>", "<@!123>", "<@&123>", "<#123>", "</ban:123>", "<a:party:123>", "<:party:123>"),
    *("<t:1700000000:R>", "<id:customize>", "<!channel>", "<!here>", "<!everyone>", "<@U024BE7LH>"),
    *("<#C024BE7LR|general>", "<!subteam^S1>", "<!date^1^{date}|x>", "<https://evil.example|bank.example>"),
    *("&lt;!here&gt;", "&#60;!here&#62;", "\\<!here\\>", "\x00<!here>", "@\\everyone", "@&#101;veryone"),
    *("http://a.example/@everyone", "http://a/<@1>", "http://a/```"),
)
MARKUP = (
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<a href='javascript:x'>", '"', "'", "&"),
    *("</p>", "[a](javascript:alert(1))", "[b](data:text/html,x)", "[c](http://a.example/?x=1&y=<b>)"),
    *("[@here](http://h/@here)", "[d](<http://a.example/|x>)", "[http://bank.example](http://evil.example)"),
    *("![e](http://a.example/i.png)", "[![f](http://a.example/b.svg)](http://c.example)"),
    *("<http://a.example/a_b>", "<me@a.example>", "[g][r]", "\n[r]: http://evil.example\n", "**", "*", "_"),
    *("~~", "`", "``", "```", "||", "\\", "~", "[", "](", ")", " ", "\n", "\n\n", "# ", "#### ", "> ", "- "),
    *("1. ", "-# ", "    ", "|", "\n|-|-|\n", "\n```@here <!here>\n", "\n---\n", "a", "word", "snake_case"),
    *("日本", "👍🏽", "*️⃣", "\u202e", "\u200b", "\ud800"),
)


def hostile_texts() -> st.SearchStrategy[str]:
    """Mentions and markup in any order, generated documents and raw text."""
    tokens = st.lists(st.sampled_from((*MENTIONS, *MARKUP)), max_size=16).map("".join)
    return st.one_of(tokens, tokens, st.builds("{}{}".format, documents(max_blocks=2), tokens), raw_texts())
