"""Claude's requests as questions."""

from __future__ import annotations

from typing import Any

import pytest

from tailrace.runtimes.claude.control import ToolRequest, permission_result, questions_of

BASH, READ = {"toolName": "Bash", "ruleContent": "ls:*"}, {"toolName": "Read"}
RULE = {"type": "addRules", "behavior": "allow", "destination": "session", "rules": [BASH]}


def tool_with(*suggestions: Any) -> ToolRequest:
    return ToolRequest(tool_name="Bash", input={"command": "ls"}, permission_suggestions=list(suggestions))


def test_rule_for_one_tool_can_be_stored() -> None:
    tool = tool_with({"type": "setMode", "mode": "acceptEdits"}, RULE)
    [question] = questions_of(tool, has_person=True)
    _once, always, _never = question.choices
    assert always.name == "Always allow Bash(ls:*)"
    assert permission_result(tool, [always])["updatedPermissions"] == [RULE]


@pytest.mark.parametrize(
    "rule",
    [
        {**RULE, "rules": [BASH, READ]},
        {**RULE, "rules": []},
        {**RULE, "rules": [{"toolName": 7}]},
        {**RULE, "behavior": "deny"},
        {"type": "setMode", "mode": "bypassPermissions", "rules": [BASH], "behavior": "allow"},
        "always",
    ],
)
def test_rule_that_would_allow_more_than_its_label_cannot(rule: Any) -> None:
    [question] = questions_of(tool_with(rule), has_person=True)
    assert [choice.kind for choice in question.choices] == ["allow_once", "reject_once"]
