"""What must hold once a turn has come to rest: people read what was said, once, in order, and nothing else.

The account of the turn says what was said; the chat says what people read. What the trouble of the run has cost is
excused, and only that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutting_laws.parts import measure
from cutting_laws.reading import read
from random_turns.expected import WORD, Account
from tailrace.capabilities import StreamRules
from tailrace.events import ToolStarted
from tailrace.markdown.splitter import Splitter

if TYPE_CHECKING:
    from random_turns.expected import Said
    from random_turns.scenes import Scene
    from random_turns.stage import Performance
    from random_turns.strict_platform import Message


def verdict(performance: Performance) -> list[str]:
    """Every breach of a law in a run."""
    account = Account(usage=performance.scene.settings.usage)
    for _, event in performance.scene.events:
        account.feed(event)
    account.close()
    breaches = [*performance.breaches, *performance.watch.breaches, *performance.chat.complaints]
    if breaches:
        return breaches  # what stands in the end would only say it once more
    return [*_answer(performance, account), *_processing(performance, account)]


def _answer(performance: Performance, account: Account) -> list[str]:
    """Law 1: the messages say what the agent said."""
    trouble = performance.trouble
    messages = [message for message in performance.chat.seen if not message.is_processing]
    sure = [message for message in messages if message.message_id not in trouble.orphans]
    if breaches := _words(performance, account, sure):
        return breaches
    if open_streams := [message.message_id for message in sure if message.grows]:
        return [f"left open: the streams {', '.join(open_streams)}"]
    is_whole = not (account.is_cancelled or trouble.damages or trouble.orphans or trouble.disorders)
    return _to_the_letter(performance, account, messages) if is_whole else []


def _words(performance: Performance, account: Account, messages: list[Message]) -> list[str]:
    """Each word that was said can be read, once, and in its place."""
    trouble, said = performance.trouble, account.words
    found = [word for message in messages for word in WORD.findall(f"{message.url} {message.text}")]
    is_stuck = account.was_revised and performance.scene.capabilities.edits is None
    if is_stuck:
        # Nothing can be taken from there: what was said last counts.
        found = [word for nth, word in enumerate(found) if word in set(said) and word not in found[nth + 1 :]]
    if len(found) != len(set(found)):
        return [f"said twice: {sorted({word for word in found if found.count(word) > 1})}"]
    if stray := sorted(set(found) - set(said)):
        return [f"never said, or taken back: {stray}"]
    is_in_order = found == [word for word in said if word in set(found)]
    is_excused = trouble.disorders or (is_stuck and (account.is_cancelled or performance.lives > 1))
    if not is_in_order and not is_excused:
        return [f"out of order: {' '.join(found)}"]
    lost = [word for word in said if word not in found and word not in trouble.missing]
    return [f"lost: {' '.join(lost)}"] if lost and not account.is_cancelled else []


def _to_the_letter(performance: Performance, account: Account, messages: list[Message]) -> list[str]:
    """Nothing went wrong that could be seen: each message says exactly what it shall."""
    scene = performance.scene
    found = [(message.url, message.text) for message in messages]
    if account.was_revised and scene.capabilities.edits is None:
        return []
    if not account.items:
        return [f"a turn that says nothing left {found}"] if found else []
    if _is_cut_elsewhere(scene):
        return _in_other_parts(scene, account, messages)
    shall = [expected for item in account.items for expected in _messages_of(item, scene)]
    return [] if found == shall else [f"the messages are {found}, not {shall}"]


def _is_cut_elsewhere(scene: Scene) -> bool:
    """Whether a message may also end before it is full: at a block, or because of when its text came."""
    native = scene.capabilities.native
    is_rotated = isinstance(native, StreamRules) and native.lifetime_s is not None
    return scene.look.ends_at_paragraphs or scene.look.ends_at_blocks or (scene.look.preview == "stream" and is_rotated)


def _messages_of(item: Said, scene: Scene) -> list[tuple[str, str]]:
    limits = scene.capabilities
    if item.kind == "media":
        most = limits.caption_limit or limits.limit
        if measure(item.text, limits.unit) <= most:
            return [(item.url, item.text)]
        return [(item.url, ""), *(("", text) for text in _parts(item.text, scene))]
    return [("", text) for text in _parts(item.text, scene)]


def _parts(text: str, scene: Scene) -> list[str]:
    limits = scene.capabilities
    splitter = Splitter(limits.limit, limits.unit, limits.dialect, lines=limits.lines)
    return [part.body.text for part in [*splitter.feed(text), *splitter.close()]]


def _in_other_parts(scene: Scene, account: Account, messages: list[Message]) -> list[str]:
    """However it was cut, all that is to be read of the text is there, as what it was."""
    has_torn_tables = scene.look.preview == "stream" and any("|---|" in item.text for item in account.items)
    if scene.capabilities.dialect != "markdown" or has_torn_tables:
        return []
    shall = [glyph for item in account.items if item.kind == "text" for glyph in _glyphs(item.text)]
    text = [message for message in messages if any(word[0] == "w" for word in WORD.findall(message.text))]
    found = [glyph for message in text for glyph in _glyphs(message.text)]
    return [] if found == shall else [f"the messages read {''.join(found)!r}, not {''.join(shall)!r}"]


def _glyphs(markdown: str) -> list[str]:
    """What a reader sees, but for space and the heads of tables, which a cut repeats."""
    return [glyph.char for glyph in read(markdown).glyphs if glyph.kind != "head_cell" and not glyph.char.isspace()]


def _processing(performance: Performance, account: Account) -> list[str]:
    """Law 7: the message beside the answer says nothing of it in the end, and comes only where it is worth it."""
    trouble, scene = performance.trouble, performance.scene
    processing = [message for message in performance.chat.seen if message.is_processing]
    sure = [message for message in processing if message.message_id not in trouble.orphans]
    if len(sure) > 1:
        return [f"{len(sure)} processing messages are left"]
    for message in sure:
        if (words := WORD.findall(message.text)) and not account.is_cancelled:
            return [f"the processing message still says {words}"]
        if not any(isinstance(event, ToolStarted) for _, event in scene.events):
            return [f"a processing message of no tools is left: {message.text!r}"]
    return []
