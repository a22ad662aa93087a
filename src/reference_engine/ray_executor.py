"""Workers as actors of Ray; imported only where the executor is `ray`."""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from platform_abc.errors import ConfigError
from platform_abc.hooks.silence import POLL_SECONDS, Silence
from platform_abc.hooks.watch import HookWatch
from platforms import resolved_platform
from reference_engine.executor import serve_worker
from reference_engine.processes.child import CALL_SECONDS, END_SECONDS, ProcessFailed
from reference_engine.processes.child_side import Handler, failure_text, prepare
from reference_engine.processes.child_start import START_SECONDS, ChildStart, pickle_config

if TYPE_CHECKING:
    from platform_abc.config import EngineConfig
    from platform_abc.platform import Platform

logger = logging.getLogger(__name__)

_OURS: Final = "PLATFORM_ABC_"
_RESOURCES: Final[Mapping[str, str]] = {"CPU": "num_cpus", "GPU": "num_gpus"}
"""Ray has arguments of their own for these two kinds of device."""


def check_ray() -> None:
    """Refuse Ray where it cannot be used, before any process is started.

    Raises:
        ConfigError: the platform has no name for its device in Ray.
        RuntimeError: Ray is not installed.
    """
    from platforms import current_platform

    if not current_platform.ray_device_key:
        raise ConfigError(
            f"executor = 'ray': {current_platform.device_name} cannot be used with Ray, since ray_device_key of "
            f"{type(current_platform).__name__} is empty; take the executor 'processes'"
        )
    _ray()


def _ray() -> Any:
    """Import Ray, whose own annotations checkers know only where it is installed.

    Raises:
        RuntimeError: it is missing.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise RuntimeError("executor = 'ray' needs Ray: pip install 'platform-abc[ray]'") from error


def address_of_user() -> str:
    """Return the address of the cluster to which this process is connected; empty if it is to none."""
    ray = _ray()
    return str(ray.get_runtime_context().gcs_address) if ray.is_initialized() else ""


@attrs.frozen(order=True)
class Place:
    """Where a worker is.

    Args:
        node: Ray's name of the machine.
        address: the machine's address.
        devices: those that Ray has given to the worker.
        number: its process.
    """

    node: str
    address: str = ""
    devices: Sequence[str] = ()
    number: int = 0


class _Actor:
    """One worker, in a process of Ray's; it works in one thread and is watched by another."""

    def __init__(self) -> None:
        self._handler: Handler | None = None
        self._watch: HookWatch | None = None
        self._hung = threading.Event()
        self._text = ""

    def place(self, key: str) -> Place:
        """Return where this actor is."""
        ray = _ray()
        context = ray.get_runtime_context()
        devices: Mapping[str, Sequence[object]] = context.get_accelerator_ids()
        given = [str(one) for one in devices.get(key, ())]
        return Place(str(context.get_node_id()), str(ray.util.get_node_ip_address()), given, os.getpid())

    def free_port(self) -> int:
        """Return a port of this node that nobody uses now."""
        import socket

        with socket.socket() as probe:
            probe.bind(("", 0))
            return int(probe.getsockname()[1])

    def start(self, start: ChildStart, environment: Mapping[str, str]) -> tuple[bool, Any]:
        """Start the worker; whether it went well, and else why not."""
        os.environ.update(environment)
        self._watch = HookWatch(
            start.name, start.hook_seconds, resolved_platform, self._hang, stacks=start.stacks
        )

        def begin() -> None:
            self._handler = prepare(serve_worker, start)

        return self._watched(begin, start.seconds)

    def ask(self, name: str, *args: Any) -> tuple[bool, Any]:
        """Answer a call; whether it went well, and the answer or why not."""
        handler = self._handler
        if handler is None:
            return False, "it has not been started"
        return self._watched(lambda: handler(name, args), CALL_SECONDS)

    def _watched(self, work: Callable[[], Any], seconds: float) -> tuple[bool, Any]:
        assert self._watch is not None
        with self._watch.watching(), self._watch.limited(seconds):
            try:
                answer = work()
                pickle.dumps(answer)  # what does not travel would be Ray's error, without a name
            except BaseException as error:  # noqa: BLE001 - sent to the engine core, which raises it
                return False, failure_text(error)
            return True, answer

    def _hang(self, text: str) -> None:
        self._text = text
        self._hung.set()

    def hung(self) -> str:
        """Wait until something hangs, and return what."""
        self._hung.wait()
        return self._text


class RayWorkers:
    """The actors of one engine core, the first rank first.

    Ray is started where the front end is not connected to one: on this machine, without dashboard, in a folder
    of the engine's own. The engine core is no actor and so reserves no processor.

    Args:
        config: the configuration; its world size is the number of workers.
        parent: how the engine core was started, from which the workers inherit.

    Raises:
        ConfigError: the cluster has fewer devices than workers.
        ProcessFailed: a worker did not start.
    """

    def __init__(self, config: EngineConfig, parent: ChildStart) -> None:
        from platforms import current_platform

        self._ray = _ray()
        self._watches: list[Any] = []
        self._actors: list[Any] = []
        self._silences: dict[int, Silence] = {}
        self._fine = False  # not while something is asked, nor once that has failed
        self._connect(parent)
        try:
            self._start(config, parent, current_platform)
        except BaseException:
            self.close()
            raise

    def _connect(self, parent: ChildStart) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if parent.ray_address:
            self._ray.init(address=parent.ray_address, **quiet)
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._ray.init(
            address="local", include_dashboard=False, _temp_dir=str(Path(parent.folder) / "ray"), **quiet
        )

    def _start(self, config: EngineConfig, parent: ChildStart, platform: Platform) -> None:
        size, key = config.parallel_config.world_size, platform.ray_device_key
        there = int(self._ray.cluster_resources().get(key, 0))
        if there < size:
            raise ConfigError(
                f"parallel_config.world_size = {size}: expected at most {there}, the {key} of the Ray cluster; each "
                "worker takes one"
            )
        made = self._ray.remote(
            **resources_of(key),
            max_restarts=0,
            concurrency_groups={"watch": 1},
            runtime_env={"env_vars": environment_of(platform)},
        )(_Actor)
        self._actors = [made.remote() for _ in range(size)]
        places = self._get([actor.place.remote(key) for actor in self._actors], "place", START_SECONDS)
        order = sorted(range(size), key=lambda number: (places[number].address, places[number]))
        self._actors = [self._actors[number] for number in order]
        places = [places[number] for number in order]
        nodes = [place.node for place in places]
        pickled = pickle_config(config)
        where = self._meeting(parent, nodes, places[0].address)
        starts = [
            attrs.evolve(
                parent.of_worker(pickled, rank, nodes[:rank].count(nodes[rank]), where), lifeline=None
            )
            for rank in range(size)
        ]
        self._silences = {
            rank: Silence(start.name, place.number, start.stacks)
            for rank, (start, place) in enumerate(zip(starts, places, strict=True))
            if place.node == self._node()
        }
        self._watches = [actor.hung.options(concurrency_group="watch").remote() for actor in self._actors]
        self._ask_each(
            "start",
            [(start, visible_on(platform, places, node)) for start, node in zip(starts, nodes, strict=True)],
        )

    def _meeting(self, parent: ChildStart, nodes: Sequence[str], address: str) -> str:
        """Return where the ranks meet: in a file on one machine, at a port of the first rank's otherwise."""
        if len(nodes) == 1:
            return ""
        if set(nodes) == {self._node()}:
            return (Path(parent.folder) / "ranks").as_uri()
        (port,) = self._get([self._actors[0].free_port.remote()], "free_port", CALL_SECONDS)
        return f"tcp://{address}:{port}"

    def _node(self) -> str:
        return str(self._ray.get_runtime_context().get_node_id())

    def ask(self, name: str, *args: Any) -> list[Any]:
        """Return what each worker answers, the first rank first.

        Args:
            name: a method of `InProcessExecutor`.
            *args: its arguments, which are pickled.

        Raises:
            ProcessFailed: one raised, died or hung.
        """
        self._fine = False
        answers = self._ask_each("ask", [(name, *args)] * len(self._actors))
        self._fine = True
        return answers

    def _ask_each(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        name = method if method == "start" else arguments[0][0]
        asked = [
            getattr(actor, method).remote(*args) for actor, args in zip(self._actors, arguments, strict=True)
        ]
        return [value for _, value in self._get(asked, name, max(START_SECONDS, CALL_SECONDS))]

    def _get(self, asked: Sequence[Any], name: str, seconds: float) -> list[Any]:
        """Wait for answers, and for what hangs or dies meanwhile.

        Raises:
            ProcessFailed: a worker died, hung, or answered that it failed.
        """
        left, watches = list(asked), self._watches
        until = time.monotonic() + seconds
        while left:
            done, _ = self._ray.wait([*left, *watches], num_returns=1, timeout=POLL_SECONDS)
            for cause in (one.cause() for one in self._silences.values() if not done):
                if cause:
                    raise ProcessFailed(cause)
            if not done and time.monotonic() > until:
                raise ProcessFailed(f"the worker processes did not answer {name!r} within {seconds:g} s")
            for one in done:
                rank = (watches if one in watches else list(asked)).index(one)
                try:
                    value = self._ray.get(one)
                except self._ray.exceptions.RayError as error:
                    text = str(error).strip().split("\n", 1)[0]
                    crash = self._silences[rank].last_words() if rank in self._silences else ""
                    raise ProcessFailed(
                        f"the {_name(rank)} process ended {crash or f'without an answer to {name!r}: {text}'}"
                    ) from error
                if one in watches:
                    raise ProcessFailed(f"the {_name(rank)} process failed in {name!r}: {value}")
                left.remove(one)
                if isinstance(value, tuple) and value[:1] == (False,):
                    raise ProcessFailed(f"the {_name(rank)} process failed in {name!r}: {value[1]}")
        return list(self._ray.get(list(asked)))

    def close(self) -> None:
        """End the workers, which may free their devices where nothing has failed, and Ray where it was started here."""
        try:
            if self._fine:
                self._get([actor.ask.remote("close") for actor in self._actors], "close", END_SECONDS)
        except ProcessFailed as error:
            logger.warning("%s", str(error).partition("\n")[0])
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        self._ray.shutdown()


def _name(rank: int) -> str:
    return f"worker {rank}" if rank else "worker"


def visible_on(platform: Platform, places: Sequence[Place], node: str) -> dict[str, str]:
    """Let each worker of a node see the devices of all of them, so that its local rank chooses its own.

    Args:
        platform: names the variable.
        places: of each rank.
        node: the node.
    """
    devices = [device for place in places for device in place.devices if place.node == node]
    return {platform.device_control_env_var: ",".join(devices)} if devices else {}


def resources_of(key: str) -> dict[str, Any]:
    """Return what one worker takes of the cluster: one device of the platform's kind."""
    if key in _RESOURCES:
        return {"num_cpus": 0} | {_RESOURCES[key]: 1}
    return {"num_cpus": 0, "resources": {key: 1}}


def environment_of(platform: Platform) -> dict[str, str]:
    """Return the variables of the workers, which may live on other machines.

    The engine's own, those that the platform names, and those that keep Ray from choosing devices.
    """
    names = [name for name in os.environ if name.startswith(_OURS)]
    names += [*platform.additional_env_vars, platform.device_control_env_var]
    found = {name: os.environ[name] for name in names if name in os.environ}
    found |= dict.fromkeys(platform.ray_noset_device_env_vars, "1")
    return found | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
