"""A group of commands whose options may come before or after the command: `tailrace access --json list`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class CommandAnywhere(TyperGroup):
    """A group that accepts options before and after the command. Without a command, `list` runs."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move the command to the front."""
        index = self._index_of_command(args)
        if index is not None:
            args = [args[index], *args[:index], *args[index + 1 :]]
        elif not set(args) & set(ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def _index_of_command(self, args: list[str]) -> int | None:
        options = [option for command in self.commands.values() for option in command.params]
        with_value = {name for option in options if not getattr(option, "is_flag", False) for name in option.opts}
        index = 0
        while index < len(args):
            if not args[index].startswith("-"):
                return index
            index += 2 if args[index] in with_value else 1
        return None
