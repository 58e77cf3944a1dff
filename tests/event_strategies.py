"""Hypothesis strategies for events: every class of the union, with few ids, so that events refer to the same call."""

from __future__ import annotations

import operator
from typing import Any

from hypothesis import strategies as st

import stable_strategies
from tailrace import events

texts = stable_strategies.texts(max_size=8)
ids = st.sampled_from(["1", "2", "3"])
maybe_ids = st.none() | ids
signs = st.sampled_from([1, -1])
integers = st.builds(operator.mul, signs, stable_strategies.integers(0, 2**53))
floats = st.builds(operator.mul, signs, stable_strategies.floats(1.7e308))
status_codes = stable_strategies.integers(400, 599)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)

terminals: st.SearchStrategy[events.Event] = st.one_of(
    st.builds(events.TurnCompleted, text=st.none() | texts, stop_reason=texts),
    st.builds(events.TurnFailed, message=texts, code=st.none() | texts),
    st.builds(events.TurnCancelled, reason=texts),
)
late: st.SearchStrategy[events.Event] = st.one_of(
    st.builds(events.ToolOutput, data=texts, stream=st.sampled_from(["stdout", "stderr"]), id=maybe_ids),
    st.builds(events.ToolFinished, id=ids, result=json_values, is_error=st.booleans()),
)
content: st.SearchStrategy[events.Event] = st.one_of(
    st.builds(events.TextDelta, text=texts, parent_tool_id=maybe_ids),
    st.builds(events.BlockFinal, text=st.none() | texts),
    st.builds(events.TextRetracted, scope=st.sampled_from(["block", "turn"])),
    st.builds(events.ReasoningDelta, text=texts),
    st.builds(events.ReasoningEnd, metadata=json_values),
    st.builds(events.ToolStarted, id=ids, name=texts, arguments=json_values),
    st.builds(events.ToolInput, id=ids, arguments=json_values),
    st.builds(events.ToolProgress, id=maybe_ids, elapsed_s=stable_strategies.floats(1e6), text=st.none() | texts),
    st.builds(events.Status, text=texts),
    st.builds(events.Notice, text=texts),
    st.builds(events.ModelChanged, model_id=texts, key_id=texts),
    st.just(events.ConfigReloaded()),
    st.builds(
        events.PlanUpdated, items=st.lists(st.builds(events.PlanItem, title=texts, status=texts), max_size=2).map(tuple)
    ),
    st.builds(
        events.Usage,
        input_tokens=st.integers(0, 9),
        output_tokens=st.integers(0, 9),
        scope=st.sampled_from(["request", "turn", "session"]),
    ),
    st.builds(events.Media, url=st.none() | texts, path=st.none() | texts, caption=texts),
    st.builds(
        events.Error,
        message=texts,
        status_code=st.none() | status_codes,
        code=st.none() | texts,
    ),
    late,
)
started: st.SearchStrategy[events.Event] = st.builds(events.TurnStarted, turn_id=texts, runtime=texts)
any_event: st.SearchStrategy[events.Event] = st.one_of(content, terminals, started)
