"""Finds the extensions, reads their manifests and imports their classes. A wrong extension disturbs no other one.

Each folder with a `manifest.yaml` in the folder of the extensions is an extension. Installed packages have others, as
entry points of the group `tailrace.extensions`. Modules are imported under names of their own, so that two extensions
can both have a module `main`. An import may hang, so it runs in a thread, which is given up after a deadline.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from importlib.util import module_from_spec
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import fields

from tailrace.config import ChannelSettings, Positive, presentation_of
from tailrace.errors import UsageError, did_you_mean
from tailrace.gateway.extension_call import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tailrace.config import AgentSettings, Settings
    from tailrace.projector import Presentation

MANIFEST = "manifest.yaml"
GROUP = "tailrace.extensions"

_LOAD_S = 10.0
_log = logging.getLogger(__name__)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The file `manifest.yaml`. Without `entry`, it is the configuration of the installed extension of that name."""

    name: str
    entry: str = ""
    config: dict[str, Any] = {}
    agent: str | None = None


class ExtensionChannelSettings(ChannelSettings, frozen=True, kw_only=True):
    """The keys of `config` that all channels of extensions have. Other keys are for the extension alone."""

    polling_timeout: Positive = 30


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """An extension that was imported. `make` creates its object; `config` is the one of its manifest."""

    name: str
    make: Callable[[], Any]
    config: dict[str, Any]
    settings: ExtensionChannelSettings
    agent_id: str
    presentation: Presentation | None


class BrokenExtension(msgspec.Struct, frozen=True):
    """An extension that cannot be loaded, and the reason in one line."""

    name: str
    problem: str


def configured_extensions(settings: Settings, *, only_agent: str | None = None) -> list[Extension | BrokenExtension]:
    """Import all extensions of these settings, as `load_extensions` does."""
    folder = settings.gateway.extensions
    if settings.is_set("gateway.extensions") and not folder.is_dir():
        raise UsageError(f"gateway.extensions: there is no folder {folder}")
    return load_extensions(folder, settings.agents(), only_agent=only_agent)


def load_extensions(
    folder: Path, agents: Mapping[str, AgentSettings], *, only_agent: str | None = None, timeout_s: float = _LOAD_S
) -> list[Extension | BrokenExtension]:
    """Import all extensions. `only_agent` answers for all of them, also where a manifest names another agent.

    After `timeout_s` the imports that have not ended are given up. Raises `UsageError` if the folder cannot be read.
    """
    loading = [_Loading(each, agents, only_agent) for each in _manifests(folder)]
    known = {each.name for each in loading}
    loading += [
        _Loading(entry.name, agents, only_agent) for entry in entry_points(group=GROUP) if entry.name not in known
    ]
    deadline = monotonic() + timeout_s
    for each in loading:
        each.start()
    return [each.wait(deadline) for each in loading]


def _manifests(folder: Path) -> list[Path]:
    try:
        return sorted(path for child in folder.iterdir() if (path := child / MANIFEST).is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"gateway.extensions: {folder} cannot be read: {error.strerror}") from error


class _Loading:
    """One extension while it is loaded: from the path of its manifest, or from the name of its entry point."""

    def __init__(self, source: Path | str, agents: Mapping[str, AgentSettings], only_agent: str | None) -> None:
        self.name = source if isinstance(source, str) else source.parent.name
        self._source = source
        self._agents = agents
        self._only_agent = only_agent
        self._manifest = Manifest(name=self.name)
        self._result: Extension | BrokenExtension | None = None
        self._thread = Thread(target=self._run, name=f"extension {self.name}", daemon=True)
        try:
            if not isinstance(source, str):
                self._manifest = _read(source)
                self.name = self._manifest.name
        except UsageError as error:
            self._result = BrokenExtension(self.name, str(error))

    def start(self) -> None:
        if self._result is None:
            self._thread.start()

    def wait(self, deadline: float) -> Extension | BrokenExtension:
        if self._thread.is_alive():
            self._thread.join(max(0.0, deadline - monotonic()))
        return self._result or BrokenExtension(self.name, "its import did not end; it must not wait or run for ever")

    def _run(self) -> None:
        try:
            self._result = self._load()
        except UsageError as error:
            self._result = BrokenExtension(self.name, str(error))
        except BaseException as error:  # noqa: BLE001 -- the extension's code, which may also call sys.exit
            _log.debug("the extension %s cannot be imported", self.name, exc_info=error)
            self._result = BrokenExtension(self.name, f"it cannot be imported: {reason_of(error)}")

    def _load(self) -> Extension:
        manifest, source = self._manifest, self._source
        where = source if isinstance(source, str) else str(source)
        keys = {field.name for field in fields(ExtensionChannelSettings)}
        known = {key: value for key, value in manifest.config.items() if key in keys}
        settings = _converted(known, ExtensionChannelSettings, where, "config.")
        agent_id = self._only_agent or _chosen(manifest.agent or settings.agent, self._agents, where)
        if isinstance(source, str) or not manifest.entry:
            make = _installed(manifest.name, where)
        else:
            make = _imported(source.parent, manifest.entry, where)
        if not callable(make):
            raise UsageError(f"{where}: entry: {manifest.entry or manifest.name} is no class")
        return Extension(
            name=manifest.name,
            make=make,
            config=manifest.config,
            settings=settings,
            agent_id=agent_id,
            presentation=presentation_of(settings, None if self._only_agent else self._agents.get(agent_id)),
        )


def _read(path: Path) -> Manifest:
    """Read a manifest. Raises `UsageError`, which names the file and the key."""
    import yaml  # noqa: PLC0415 -- only an extension needs it

    try:
        # Not by msgspec: that uses the loader in C, which crashes the process if a file is nested too deeply.
        found = yaml.safe_load(path.read_bytes())
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise UsageError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    known = [field.name for field in fields(Manifest)]
    for key in found if isinstance(found, dict) else ():
        if key not in known:
            hint = did_you_mean(str(key), known) or f" Keys: {', '.join(known)}."
            raise UsageError(f"{path}: {key} is not a key of a manifest.{hint}")
    manifest: Manifest = _converted(found, Manifest, str(path))
    if not re.fullmatch(r"[\w-]+", manifest.name):
        raise UsageError(f"{path}: name: use letters, digits, - and _ in a name")
    if manifest.entry and not re.fullmatch(r"\w+(\.\w+)*:\w+", manifest.entry):
        raise UsageError(f"{path}: entry: expected module:Class, such as main:MyExtension")
    return manifest


def _converted(values: object, kind: type[Any], where: str, prefix: str = "") -> Any:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        reason, _, position = str(error).partition(" - at `$")
        key = f"{prefix}{position.strip('`.')}".strip(".")
        raise UsageError(f"{where}: {key and f'{key}: '}{reason[0].lower()}{reason[1:]}") from error


def _chosen(name: str | None, agents: Mapping[str, AgentSettings], where: str) -> str:
    """The agent of an extension. It may be left out if there is one agent."""
    if name is None and len(agents) > 1:
        raise UsageError(f"{where}: agent is missing: choose one of {', '.join(agents)}")
    if name is not None and name not in agents:
        hint = did_you_mean(name, list(agents)) or f" Add the table [agents.{name}]."
        raise UsageError(f"{where}: agent: there is no agent {name!r}.{hint}")
    return name or next(iter(agents), "")


def _installed(name: str, where: str) -> Any:
    for entry in entry_points(group=GROUP, name=name):
        return entry.load()
    raise UsageError(f"{where}: entry is missing, and no installed package has an extension {name!r}")


def _imported(folder: Path, entry: str, where: str) -> Any:
    """Import the class. Its module is part of a package that only this folder has."""
    module_name, _, name = entry.partition(":")
    digest = hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=8).hexdigest()
    package = f"tailrace_extension_{digest}"
    if package not in sys.modules:
        spec = ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        sys.modules[package] = module_from_spec(spec)
    try:
        module = import_module(f"{package}.{module_name}")
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing == f"{package}.{module_name}":
            raise UsageError(f"{where}: entry: there is no module {module_name} in this folder") from error
        is_neighbour = (folder / f"{missing}.py").exists() or (folder / missing / "__init__.py").exists()
        hint = f" Write: from . import {missing}" if is_neighbour else ""
        raise UsageError(
            f"{where}: {module_name} needs the module {missing!r}, which is not installed.{hint}"
        ) from error
    if not hasattr(module, name):
        hint = did_you_mean(name, [each for each in vars(module) if not each.startswith("_")])
        raise UsageError(f"{where}: entry: the module {module_name} has no {name!r}.{hint}")
    return getattr(module, name)
