"""The contract of a runtime, over every runtime whose agent is a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import contract_commands as commands

from tailrace.testing.runtime_contract import RuntimeContract

if TYPE_CHECKING:
    from pathlib import Path

    from tailrace.testing.runtime_scenes import Player


class TestAcp(RuntimeContract):
    def player(self, folder: Path) -> Player:
        return commands.AcpPlayer(folder)


class TestClaude(RuntimeContract):
    def player(self, folder: Path) -> Player:
        return commands.ClaudePlayer(folder)


class TestCodexAppServer(RuntimeContract):
    def player(self, folder: Path) -> Player:
        return commands.CodexAppPlayer(folder)


class TestCodexExec(RuntimeContract):
    def player(self, folder: Path) -> Player:
        return commands.CodexExecPlayer(folder)


class TestGemini(RuntimeContract):
    def player(self, folder: Path) -> Player:
        return commands.GeminiPlayer(folder)


class TestOpencodeServe(RuntimeContract):
    def player(self, folder: Path) -> Player:
        return commands.OpencodeServePlayer(folder)


class TestOpencodeRun(RuntimeContract):
    def player(self, folder: Path) -> Player:
        return commands.OpencodeRunPlayer(folder)


class TestNdjson(RuntimeContract):
    def player(self, folder: Path) -> Player:
        return commands.NdjsonPlayer(folder)
