"""Makes the plan of a gateway: which agents answer on which channels, from the settings or from a program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tailrace.config import AgentSettings, ChannelSettings, GatewaySettings, LiveShadowSettings, presentation_of
from tailrace.errors import UsageError
from tailrace.gateway.control import control_path
from tailrace.gateway.extensions import configured_extensions, load_extensions
from tailrace.gateway.questions import ChatQuestions
from tailrace.gateway.router import Agent
from tailrace.gateway.schedule import SchedulePlan
from tailrace.ledger.files import default_path
from tailrace.plugins import agent_of, channel_settings, find_agent, load_middleware, make_channel
from tailrace.ports import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from tailrace.config import Settings
    from tailrace.gateway.extensions import BrokenExtension, Extension
    from tailrace.projector import Presentation
    from tailrace.runtimes.permissions import Approver

_ONLY_AGENT = "main"


class ChannelPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A channel to serve: its settings, the agent that answers, and how answers appear (None: the channel decides)."""

    channel: Channel
    settings: ChannelSettings
    agent_id: str
    presentation: Presentation | None = None


class GatewayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a gateway needs to run. `ledger` and `control` are the paths of its file and its socket.

    `health` is the address of the health pages. With `needs_health`, the gateway does not run without them. `source`
    are the settings of which this is the plan; with `read_again`, they are read again on SIGHUP.
    """

    agents: dict[str, Agent]
    channels: list[ChannelPlan]
    extensions: list[Extension | BrokenExtension] = msgspec.field(default_factory=list)
    schedules: list[SchedulePlan] = msgspec.field(default_factory=list)
    ledger: Path
    control: Path | None = None
    questions: ChatQuestions = msgspec.field(default_factory=ChatQuestions)
    shadow: LiveShadowSettings | None = None
    health: tuple[str, int] | None = None
    needs_health: bool = False
    source: Settings | None = None
    read_again: Callable[[], Settings] | None = None
    settings: GatewaySettings = msgspec.field(default_factory=GatewaySettings)


def plan_of_settings(
    settings: Settings,
    *,
    ledger: Path,
    control: Path | None = None,
    channels: Sequence[str] = (),
    agent: str | None = None,
    allow: Sequence[str] = (),
) -> GatewayPlan:
    """The plan for these settings. `channels`, `agent` and `allow` are those of a command line.

    Without `channels`, all configured channels are served. With `agent`, there are health pages only if the settings
    name their address. Raises `UsageError` if something is wrong or missing.
    """
    questions = ChatQuestions()
    tables = settings.agents() if agent is None else {_ONLY_AGENT: AgentSettings(use=agent)}
    agents = {name: _agent(name, table, questions) for name, table in tables.items()}
    planned = []
    for name in channels or settings.channels():
        configured = settings.channel(name, channel_settings)
        agent_id = _ONLY_AGENT if agent is not None else settings.agent_of(f"channels.{name}")
        shared = msgspec.structs.replace(configured.settings, allow=(*configured.settings.allow, *allow))
        planned.append(
            ChannelPlan(
                channel=make_channel(configured.type, name, configured.options),
                settings=shared,
                agent_id=agent_id,
                presentation=presentation_of(shared, tables[agent_id]),
            )
        )
    extensions = configured_extensions(settings, only_agent=_ONLY_AGENT if agent is not None else None)
    if not planned and not extensions:
        raise UsageError("there is no channel: add a table such as [channels.telegram] to the settings")
    return GatewayPlan(
        agents=agents,
        channels=planned,
        extensions=extensions,
        schedules=_schedules(settings, {plan.channel.name for plan in planned}, agent),
        ledger=ledger,
        control=control,
        questions=questions,
        shadow=settings.shadow,
        source=settings,
        health=settings.gateway.health_address if agent is None or settings.is_set("gateway.health") else None,
        needs_health=agent is None,
        settings=settings.gateway,
    )


def plan_of_program(agent: Any, channels: Sequence[Any], *, allow: Sequence[str], data_dir: Path | None) -> GatewayPlan:
    """The plan for a program: its agent or the name of one, and its channels or their names."""
    if not channels:
        raise UsageError("name at least one channel, such as Gateway(agent, 'telegram')")
    questions = ChatQuestions()
    options = _options("ask", questions)
    found = find_agent(agent, options) if isinstance(agent, str) else agent_of(agent, _name_of(agent), options)
    shared = ChannelSettings(allow=tuple(allow))
    return GatewayPlan(
        agents={_ONLY_AGENT: Agent(runtime=found.runtime)},
        channels=[
            ChannelPlan(channel=_channel(channel), settings=shared, agent_id=_ONLY_AGENT) for channel in channels
        ],
        extensions=load_extensions(GatewaySettings().extensions, {}, only_agent=_ONLY_AGENT),
        ledger=(default_path() if data_dir is None else data_dir / default_path().name).resolve(),
        control=control_path(ledger=None, data_dir=data_dir, control=None),
        questions=questions,
    )


def _schedules(settings: Settings, channels: Collection[str], agent: str | None) -> list[SchedulePlan]:
    """The schedules of the channels that are served."""
    return [
        SchedulePlan(
            name=name,
            settings=schedule,
            agent_id=_ONLY_AGENT if agent is not None else settings.agent_of(f"schedule.{name}"),
        )
        for name, schedule in settings.schedules().items()
        if schedule.channel in channels
    ]


def _agent(name: str, table: AgentSettings, approver: Approver) -> Agent:
    try:
        found = find_agent(table.use, _options(table.permissions, approver))
        middleware = load_middleware(table.middleware) if table.middleware is not None else None
    except UsageError as error:
        raise UsageError(f"agents.{name}: {error}") from error
    return Agent(runtime=found.runtime, middleware=middleware)


def _options(permissions: str, approver: Approver) -> Mapping[str, object]:
    return {"permissions": permissions, "approver": approver if permissions == "ask" else None}


def _channel(channel: Any) -> Channel:
    if isinstance(channel, str):
        return make_channel(channel, channel, {})
    if not isinstance(channel, Channel):
        raise UsageError(f"{channel!r} is no channel: it must have all members of `tailrace.ports.Channel`")
    return channel


def _name_of(agent: Any) -> str:
    return f"{getattr(agent, '__module__', 'agent')}:{getattr(agent, '__qualname__', type(agent).__name__)}"
