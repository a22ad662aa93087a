"""The wrapper that captures CUDA graphs, for NVIDIA devices and for AMD ones, whose torch has the same names."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import attrs
import torch

from platform_abc.components.graph import StaticGraphWrapper, current_graph_step
from platforms.components.graph_inputs import Inputs, NotReplayable, rebuilt

if TYPE_CHECKING:
    from platform_abc.config import CUDAGraphMode, EngineConfig

T = TypeVar("T")

MOST_GRAPHS: Final = 256
"""Graphs that one wrapper keeps; a step of yet another shape runs without one."""

_logger = logging.getLogger(__name__)


class Graph(Protocol):
    """What was captured."""

    def replay(self) -> None:
        """Do it again."""
        ...


class GraphDevice(Protocol):
    """What a wrapper needs of a device that captures graphs."""

    @property
    def device_type(self) -> str:
        """The type of the device whose memory a graph reads."""
        ...

    def warm_up(self, run: Callable[[], T]) -> T:
        """Run something before it is captured, on a stream of its own."""
        ...

    def capture(self, run: Callable[[], T], pool: object) -> tuple[Graph, T]:
        """Capture something, and return the graph with what it returned, whose values come by a replay."""
        ...

    def without_owner(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor over the same memory that does not keep it from being used again."""
        ...


class CudaDevice:
    """`torch.cuda`, as a wrapper needs it."""

    device_type = "cuda"

    def warm_up(self, run: Callable[[], T]) -> T:
        """Run something on a stream of its own, so that whatever is made lazily is there before a capture.

        Args:
            run: what to run.
        """
        # torch's own annotation of streams is partly missing.
        side = cast("torch.cuda.Stream", cast("Any", torch.cuda.Stream)())
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            result = run()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        return result

    def capture(self, run: Callable[[], T], pool: object) -> tuple[Graph, T]:
        """Capture something.

        Args:
            run: what to capture.
            pool: the memory pool that graphs share; None for one of its own.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=cast("Any", pool)):
            result = run()
        return graph, result

    def without_owner(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor over the same memory that does not own it.

        Args:
            tensor: on the device.
        """
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0:
            return tensor
        whole = torch.as_tensor(_Memory(storage.data_ptr(), storage.nbytes()), device=tensor.device)
        typed = whole[: storage.nbytes() // tensor.itemsize * tensor.itemsize].view(tensor.dtype)
        return typed.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


class _Memory:
    """Bytes on a device, as torch takes them over without owning them."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }


@attrs.frozen(eq=False)
class _Captured:
    graph: Graph
    inputs: list[torch.Tensor]
    output: object


class CudaGraphWrapper(StaticGraphWrapper):
    """Captures the callable once for each shape of a step, and replays it on the inputs of the call.

    Each call's tensors are copied to where the graph reads them; whatever else is in the arguments is part of
    what the graph is found by, so a graph is never replayed for another number than it was captured with. The
    answer is copied out of the graph's memory, which graphs share: it outlives the next replay.

    The first step of a shape runs as it is, which is what warms it up, and is captured then. So the callable
    must not mind running twice. What it changes in place it changes in the copies, except for `persistent`.

    Args:
        runnable: what is wrapped.
        vllm_config: the engine's configuration.
        runtime_mode: the concrete mode that this wrapper answers to.
        **kwargs: `graph_pool`: the pool that graphs share, the platform's by default; `persistent`: names of
            parameters whose tensors stay where they are and are not copied; `device`: the `GraphDevice`.

    Raises:
        ValueError: the mode is no concrete one, or `persistent` names no parameter of the callable.
    """

    def __init__(
        self,
        runnable: Callable[..., Any],
        vllm_config: EngineConfig,
        runtime_mode: CUDAGraphMode,
        **kwargs: Any,
    ) -> None:
        super().__init__(runnable, vllm_config, runtime_mode, **kwargs)
        self._device: GraphDevice = kwargs.get("device") or CudaDevice()
        self._pool: object = kwargs.get("graph_pool")
        self._persistent = frozenset(cast("tuple[str, ...]", kwargs.get("persistent", ())))
        self._graphs: dict[Hashable, _Captured] = {}
        self._refused: set[Hashable] = set()
        self._told: set[str] = set()
        self._signature = inspect.signature(runnable) if self._persistent else None
        if self._signature is not None:
            unknown = sorted(self._persistent - set(self._signature.parameters))
            if unknown:
                raise ValueError(f"persistent: {getattr(runnable, '__name__', runnable)} has no {unknown}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the callable, replay its graph, or capture it."""
        step = current_graph_step()
        if step is None or step.mode is not self.runtime_mode:
            return self.runnable(*args, **kwargs)
        named = self._named(args, kwargs)
        found = Inputs()
        found.key.append(step.batch)
        try:
            for name, value in named.items():
                if name in self._persistent:
                    found.add_persistent(value, name)
                else:
                    found.add(value, name)
            self._require_on_device(found.tensors)
        except NotReplayable as reason:
            return self._eager(str(reason), args, kwargs)
        key = tuple(found.key)
        captured = self._graphs.get(key)
        if key in self._refused:
            return self.runnable(*args, **kwargs)
        if captured is None:
            if len(self._graphs) >= MOST_GRAPHS:
                return self._eager(f"there are {MOST_GRAPHS} graphs already", args, kwargs)
            return self._capture(key, found, args, kwargs)
        for static, new in zip(captured.inputs, found.tensors, strict=True):
            static.copy_(new, non_blocking=True)
        captured.graph.replay()
        return _copied(captured.output)

    @property
    def num_graphs(self) -> int:
        """Graphs that were captured."""
        return len(self._graphs)

    def _named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Mapping[str, object]:
        if self._signature is None:
            return {**{str(index): value for index, value in enumerate(args)}, **kwargs}
        return self._signature.bind(*args, **kwargs).arguments

    def _require_on_device(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            if tensor.device.type != self._device.device_type:
                raise NotReplayable(f"a tensor of the shape {tuple(tensor.shape)} lies on {tensor.device}")

    def _eager(self, reason: str, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        if reason not in self._told:
            self._told.add(reason)
            _logger.warning("a step runs without its graph: %s", reason)
        return self.runnable(*args, **kwargs)

    def _capture(
        self, key: Hashable, found: Inputs, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> object:
        static = [torch.empty_like(tensor) for tensor in found.tensors]
        for mine, new in zip(static, found.tensors, strict=True):
            mine.copy_(new)
        places = {id(tensor): mine for tensor, mine in zip(found.tensors, static, strict=True)}
        made: dict[int, object] = {}
        # Held as well as copied: their tensors are what `persistent` and constants refer to.
        mine_args = [rebuilt(value, places, made) for value in args]
        mine_kwargs = {name: rebuilt(value, places, made) for name, value in kwargs.items()}

        def run() -> object:
            return self.runnable(*mine_args, **mine_kwargs)

        answer = self._device.warm_up(run)
        try:
            result = _copied(answer)
        except NotReplayable as reason:
            _logger.warning("a step runs without its graph: %s", reason)
            self._refused.add(key)
            return answer
        try:
            graph, output = self._device.capture(run, self._pool)
        except RuntimeError as error:
            error.add_note(f"while a graph of {key!r} was captured")
            raise
        # The pool may give the output's memory to the next graph, which is run after this one was read.
        self._graphs[key] = _Captured(graph, static, _mapped(output, self._device.without_owner))
        return result


def _copied(output: T) -> T:
    return _mapped(output, torch.clone)


def _mapped(output: T, change: Callable[[torch.Tensor], torch.Tensor]) -> T:
    if isinstance(output, torch.Tensor):
        return cast("T", change(output))
    found = Inputs()
    found.add(output, "the answer")
    return rebuilt(output, {id(tensor): change(tensor) for tensor in found.tensors}, {})
