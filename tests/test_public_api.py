"""The names and signatures other people's code depends on, and what they get when they install the package."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from email import message_from_string
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, get_args

import pytest

import tailrace
from tailrace import events
from tailrace.errors import ContractViolation, Diagnostic

ROOT = Path(__file__).parent.parent
SDKS_AND_FRAMEWORKS = {
    *("aiogram", "aiohttp", "slack_sdk", "discord", "nio", "starlette", "uvicorn", "asyncpg", "nats", "typer", "rich"),
    *("prometheus_client", "structlog"),
}

TAGS = {
    *("turn_started", "text_delta", "block_final", "text_retracted", "reasoning_delta", "reasoning_end"),
    *("tool_started", "tool_input", "tool_progress", "tool_output", "tool_finished"),
    *("status", "notice", "model_changed", "config_reloaded", "plan_updated", "usage", "media", "error"),
    *("turn_completed", "turn_failed", "turn_cancelled"),
}

# A default that is a function stands as `...`.
SIGNATURES = {
    "tailrace:DeliveryAdapter": "(options=None)",
    "tailrace:DeliveryAdapter.process": "(self, events, callbacks=None)",
    "tailrace:DeliveryAdapterOptions": "(chunk_limit=4000, flush_at_paragraphs=False)",
    "tailrace:BridgeCallbacks": "(on_partial_reply=None, on_block_reply=None, on_tool_result=None, on_thinking=None)",
    "tailrace:ReplyPayload": "(text, is_error=False, media=(), delivered=False)",
    "tailrace:ProcessingMessageAccumulator": (
        "(adapter, source_id, metadata=None, *, interval_ms=5000, limit=4096, clock=<built-in function monotonic>)"
    ),
    "tailrace:ProcessingMessageAccumulator.handle_event": "(self, event)",
    "tailrace:ProcessingMessageAccumulator.start": "(self)",
    "tailrace:ProcessingMessageAccumulator.stop": "(self)",
    "tailrace:ChannelProvider.send_to_user": "(self, user_id, text)",
    "tailrace:StreamingChannelProvider.on_stream_start": "(self, user_id)",
    "tailrace:StreamingChannelProvider.on_stream_chunk": "(self, user_id, chunk)",
    "tailrace:StreamingChannelProvider.on_stream_status": "(self, user_id, status)",
    "tailrace:StreamingChannelProvider.on_stream_end": "(self, user_id, full_text)",
    "tailrace:MessageRouter": (
        "(*, runtime=None, session_timeout=1800.0, invoke_middleware=None, ledger=None, "
        "clock=<built-in function monotonic>)"
    ),
    "tailrace:MessageRouter.invoke_agent": "(self, prompt, agent_id=None)",
    "tailrace:MessageRouter.invoke_agent_streamed": (
        "(self, prompt, on_chunk, on_tool_call=None, agent_id=None, *, conversation='router')"
    ),
    "tailrace:MessageRouter.handle_user_message": "(self, text, user_id, channel)",
    "tailrace:MessageRouter.subscribe": "(self, name, handler)",
    "tailrace:MessageRouter.register": "(self, channel)",
    "tailrace:MessageRouter.get_adapter": "(self, name)",
    "tailrace:ExtensionContext.invoke_agent": "(self, prompt)",
    "tailrace:ExtensionContext.invoke_agent_streamed": "(self, prompt, on_chunk, on_tool_call=None)",
    "tailrace:ExtensionContext.handle_user_message": "(self, text, user_id)",
    "tailrace:ExtensionContext.subscribe": "(self, name, handler)",
    "tailrace:ExtensionContext.get_config": "(self, key, default=None)",
    "tailrace:Gateway": "(agent, *channels, allow=(), data_dir=None)",
    "tailrace:Gateway.run": "(self)",
    "tailrace.events:decode_event": "(data)",
    "tailrace.events:encode_event": "(event)",
    "tailrace.errors:Diagnostic": "(*, code, message, index=None, event_type=None, field=None)",
    "tailrace.contract:checked": "(events, *, turn_id, cancelled=..., on_diagnostic=None)",
    "tailrace.chunks:TextChunk": "(text, *, type='text')",
    "tailrace.chunks:ThinkingChunk": "(text, metadata=UNSET, *, type='thinking')",
    "tailrace.chunks:ToolBatchChunk": "(calls)",
    "tailrace.chunks:ToolCall": "(id, name, arguments, result=UNSET, is_error=UNSET, shell_output=UNSET)",
    "tailrace.chunks:ShellOutput": "(stdout='', stderr='')",
    "tailrace.chunks:ErrorChunk": "(message, status_code=None)",
    "tailrace.chunks:SystemChunk": "(kind, text)",
    "tailrace.chunks:Message": "(id, role, chunks)",
    "tailrace.chunks:SystemEvent": "(kind, text)",
    "tailrace.assembler:append_event_to_chunks": "(chunks, event)",
    "tailrace.assembler:apply_system_event": "(messages, event, id_factory=...)",
    "tailrace.markdown:split": "(text, limit, *, unit='code_points', dialect='markdown')",
    "tailrace.markdown:Splitter": "(limit, unit='code_points', dialect='markdown', *, lines=None, at_paragraphs=False)",
    "tailrace.markdown:Splitter.feed": "(self, text)",
    "tailrace.markdown:Splitter.close": "(self)",
    "tailrace.markdown:join": "(parts)",
    "tailrace.markdown:render": "(text, dialect)",
    "tailrace.markdown:Part": "(*, text, body, size, opened='', closed='', seam='', lead='')",
    "tailrace.operations:Body": "(*, text, entities=(), html=None, markdown=None, buttons=())",
    "tailrace.ports:Prompt": "(*, text, session_id='', user_id='', conversation='')",
    "tailrace.ports:Runtime.run": "(self, prompt)",
    "tailrace.ports:ProcessingMessages.create_processing_message": "(self, source_id, text, metadata)",
    "tailrace.ports:ProcessingMessages.update_processing_message": "(self, source_id, message_id, text, metadata)",
    "tailrace.runtimes.dialects:translate": "(dialect, event)",
}


def found(path: str) -> Any:
    module, _, name = path.partition(":")
    thing: Any = import_module(module)
    for step in name.split("."):
        thing = getattr(thing, step)
    return thing


def bare_signature(thing: Callable[..., Any]) -> str:
    """Names, kinds and defaults; annotations are mypy's to hold."""
    signature = inspect.signature(thing)
    parameters = [
        parameter.replace(
            annotation=parameter.empty,
            default=parameter.default if type(parameter.default) is not type(bare_signature) else ...,
        )
        for parameter in signature.parameters.values()
    ]
    bare = signature.replace(parameters=parameters, return_annotation=signature.empty)
    return str(bare).replace("Ellipsis", "...")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The package as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    [path] = folder.glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_top_level_names() -> None:
    assert set(tailrace.__all__) == {
        *("DeliveryAdapter", "DeliveryAdapterOptions", "BridgeCallbacks", "ReplyPayload"),
        *("append_event_to_chunks", "apply_system_event", "split", "ChannelProvider", "StreamingChannelProvider"),
        *("ProcessingMessageAccumulator", "MessageRouter", "ExtensionContext", "Gateway", "__version__"),
    }
    assert all(hasattr(tailrace, name) for name in tailrace.__all__)
    assert set(tailrace.__all__) <= set(dir(tailrace))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        getattr(tailrace, "Nothing")  # noqa: B009 -- mypy knows that it is missing
    for path in ("assembler:append_event_to_chunks", "assembler:apply_system_event", "markdown:split"):
        assert getattr(tailrace, path.partition(":")[2]) is found(f"tailrace.{path}")


@pytest.mark.parametrize(("path", "signature"), SIGNATURES.items(), ids=SIGNATURES)
def test_signature_is_as_promised(path: str, signature: str) -> None:
    assert bare_signature(found(path)) == signature


def test_async_functions_are_awaited_or_iterated_as_promised() -> None:
    assert inspect.iscoroutinefunction(found("tailrace:DeliveryAdapter.process"))
    assert inspect.iscoroutinefunction(found("tailrace:ProcessingMessageAccumulator.stop"))
    assert inspect.isasyncgenfunction(found("tailrace.contract:checked"))
    for path in ("MessageRouter.invoke_agent", "MessageRouter.handle_user_message", "Gateway.run"):
        assert inspect.iscoroutinefunction(found(f"tailrace:{path}"))
    for path in ("invoke_agent", "invoke_agent_streamed", "handle_user_message"):
        assert inspect.iscoroutinefunction(found(f"tailrace:ExtensionContext.{path}"))
    for method in ("start", "chunk", "status", "end"):
        assert inspect.iscoroutinefunction(found(f"tailrace:StreamingChannelProvider.on_stream_{method}"))


def test_event_classes_are_named_like_their_tags() -> None:
    union = {cls.__struct_config__.tag: cls for cls in get_args(events.Event)}
    assert union.keys() == TAGS
    for tag, cls in union.items():
        assert cls.__name__ == tag.title().replace("_", "")
        assert getattr(events, cls.__name__) is cls


def test_violation_carries_its_diagnostic() -> None:
    with pytest.raises(ContractViolation) as caught:
        events.decode_event('{"type": "text_delta", "txt": "misspelt"}')
    assert isinstance(caught.value.diagnostic, Diagnostic)


def test_chunks_are_one_union() -> None:
    chunks = import_module("tailrace.chunks")
    names = {cls.__name__ for cls in get_args(chunks.Chunk)}
    assert names == {"TextChunk", "ThinkingChunk", "ToolBatchChunk", "ErrorChunk", "SystemChunk"}


@pytest.mark.parametrize(
    ("statement", "modules"),
    [
        ("import tailrace", {"tailrace"}),
        (
            "from tailrace.events import TextDelta",
            {"tailrace", *(f"tailrace.{name}" for name in ("errors", "events", "surrogates"))},
        ),
    ],
)
def test_import_loads_only_what_it_needs_and_no_framework(statement: str, modules: set[str]) -> None:
    check = f"{statement}; import json, sys; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert {name for name in loaded if name.partition(".")[0] == "tailrace"} == modules
    assert {name.partition(".")[0] for name in loaded} & SDKS_AND_FRAMEWORKS == set()


RUNTIMES = (
    *("acp", "agui", "claude", "claude-sdk", "codex", "demo", "gemini", "langgraph", "openai-agents", "opencode"),
    *("pydantic-ai", "vercel"),
)


def test_every_entry_point_can_be_loaded() -> None:
    points = [point for point in distribution("tailrace").entry_points if point.group != "console_scripts"]
    assert {(point.group, point.name) for point in points} == {
        *(("tailrace.channels", name) for name in ("simulated", "slack", "telegram", "terminal")),
        *(("tailrace.simulators", name) for name in ("slack", "telegram")),
        *(("tailrace.runtimes", name) for name in RUNTIMES),
    }
    [script] = distribution("tailrace").entry_points.select(group="console_scripts")
    assert script.name == "tailrace"
    for point in [*points, script]:
        assert callable(point.load())


def test_wheel_has_all_modules_and_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "tailrace/py.typed" in names
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "tailrace").rglob("*.py")}
    assert modules == {name for name in names if name.endswith(".py")}


def test_wheel_has_its_licence_version_and_extras(wheel: zipfile.ZipFile) -> None:
    folder = f"tailrace-{tailrace.__version__}.dist-info"
    metadata = message_from_string(wheel.read(f"{folder}/METADATA").decode())
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Version"] == tailrace.__version__
    assert metadata["Requires-Python"] == ">=3.11"
    extras = {"telegram", "slack", "discord", "matrix", "web", "postgres", "nats"}
    extras |= {"claude", "openai-agents", "pydantic-ai", "langgraph"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras
    assert "tailrace = tailrace.cli:main" in wheel.read(f"{folder}/entry_points.txt").decode().splitlines()
