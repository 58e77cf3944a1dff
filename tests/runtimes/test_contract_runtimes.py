"""The contract of a runtime, over every runtime that comes with tailrace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import contract_commands as commands
import contract_streams as streams

from tailrace.testing.runtime_contract import RuntimeContract

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tailrace.testing.runtime_scenarios import Player


def contract_of(make: Callable[[Path], Player]) -> type[RuntimeContract]:
    """The contract suite for the runtime of this player."""

    class Suite(RuntimeContract):
        def player(self, folder: Path) -> Player:
            return make(folder)

    return Suite


TestAcp = contract_of(commands.AcpPlayer)
TestClaude = contract_of(commands.ClaudePlayer)
TestCodexAppServer = contract_of(commands.CodexAppPlayer)
TestCodexExec = contract_of(commands.CodexExecPlayer)
TestGemini = contract_of(commands.GeminiPlayer)
TestOpencodeServe = contract_of(commands.OpencodeServePlayer)
TestOpencodeRun = contract_of(commands.OpencodeRunPlayer)
TestNdjson = contract_of(commands.NdjsonPlayer)
TestClaudeSdk = contract_of(streams.ClaudeSdkPlayer)
TestAgui = contract_of(lambda _: streams.AguiPlayer())
TestVercel = contract_of(lambda _: streams.VercelPlayer())
TestOpenAIAgents = contract_of(lambda _: streams.OpenAIAgentsPlayer())
TestPydanticAI = contract_of(lambda _: streams.PydanticAIPlayer())
TestLangGraph = contract_of(lambda _: streams.LangGraphPlayer())
TestFunction = contract_of(lambda _: streams.FunctionPlayer())
TestPlainFunction = contract_of(lambda _: streams.PlainFunctionPlayer())
