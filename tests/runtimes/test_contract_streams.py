"""The contract of a runtime, over every runtime whose agent is a server, an object of an SDK, or a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import contract_streams as streams

from tailrace.testing.runtime_contract import RuntimeContract

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.testing.runtime_scenes import Player


class TestAgui(RuntimeContract):
    def player(self, _: Path) -> Player:
        return streams.AguiPlayer()


class TestVercel(RuntimeContract):
    def player(self, _: Path) -> Player:
        return streams.VercelPlayer()


class TestClaudeSdk(RuntimeContract):
    def player(self, folder: Path) -> Player:
        return streams.ClaudeSdkPlayer(folder)


class TestOpenAIAgents(RuntimeContract):
    def player(self, _: Path) -> Player:
        return streams.OpenAIAgentsPlayer()


class TestPydanticAI(RuntimeContract):
    def player(self, _: Path) -> Player:
        return streams.PydanticAIPlayer()


class TestLangGraph(RuntimeContract):
    def player(self, _: Path) -> Player:
        return streams.LangGraphPlayer()


class TestFunction(RuntimeContract):
    def player(self, _: Path) -> Player:
        return streams.FunctionPlayer()


class TestPlainFunction(RuntimeContract):
    def player(self, _: Path) -> Player:
        return streams.PlainFunctionPlayer()
