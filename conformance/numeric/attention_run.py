"""Drives an attention backend through the classes of its contract, as an engine's layer and worker do."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from conformance.context import CheckContext, describe, kind_of, locate
from conformance.model import Finding, Unsupported, Violation
from conformance.numeric.attention_cases import LONGEST, Case, Shape, Step, slots, stream
from conformance.places import quoted

if TYPE_CHECKING:
    import torch

PICKER: Final = "get_attn_backend_cls"
LAYER: Final = "model.layers.0.attn"

_HEAD_SIZES: Final = (32, 64, 128, 16, 80, 96, 112, 192, 256)
_BLOCK_SIZES: Final = (16, 32, 64, 8, 128, 256)
_DTYPES: Final = ("float32", "bfloat16", "float16")
_REFUSALS: Final = (NotImplementedError, ValueError, TypeError)
"""What an implementation raises that has no place for an option."""


class Refused(Exception):
    """The platform, or the backend that it picks, says that it does not serve a layer of some shape."""


@attrs.frozen
class Layer:
    """The layer that an implementation is told it works for."""

    layer_name: str
    backend: type
    spec: Any

    def get_attn_backend(self) -> type:
        """Return the backend."""
        return self.backend

    def get_kv_cache_spec(self, config: object) -> Any:
        """Return what the layer stores."""
        return self.spec


@attrs.define
class Driver:
    """One attention layer with its cache, ready to run steps.

    Args:
        ctx: of the check.
        case: the problem.
        backend: the class that was picked.
        impl: of the layer.
        builder: of its metadata.
        cache: of the layer.
        device: where tensors are.
        given: the queries, keys and values of the last step, after it.
    """

    ctx: CheckContext
    case: Case
    backend: Any
    layer: Layer
    impl: Any
    builder: Any
    cache: torch.Tensor
    device: torch.device
    given: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None

    def metadata(self, step: Step) -> Any:
        """Build the metadata of a step."""
        import torch

        from platform_abc.components.attention import CommonAttentionMetadata

        size = self.case.shape.block_size
        starts, places = [0], list[int]()
        for ask in step.asks:
            starts.append(starts[-1] + ask.new)
            places += slots(ask, size)[ask.past :]
        lengths = [ask.length for ask in step.asks]
        # Builders size their memory by the longest request that the config allows: no table is wider than that needs.
        width = min(max(len(ask.blocks) for ask in step.asks) + 1, -(-LONGEST // size))
        table = [[*ask.blocks, *[self.case.spare] * width][:width] for ask in step.asks]
        batch = CommonAttentionMetadata(
            query_start_loc=torch.tensor(starts, dtype=torch.int32, device=self.device),
            seq_lens=torch.tensor(lengths, dtype=torch.int32, device=self.device),
            block_table=torch.tensor(table, dtype=torch.int32, device=self.device),
            slot_mapping=torch.tensor([*places, *[-1] * step.padding], dtype=torch.int64, device=self.device),
            num_reqs=len(step.asks),
            num_actual_tokens=step.tokens,
            max_query_len=max(ask.new for ask in step.asks),
            max_seq_len=max(lengths),
            causal=step.causal,
        )
        return self.builder.build(step.common, batch)

    def inputs(self, step: Step) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The step's queries, keys and values, with rows of padding."""
        import torch

        shape = self.case.shape
        parts: list[list[torch.Tensor]] = [[], [], []]
        for ask in step.asks:
            for part, whole in zip(parts, stream(shape, ask), strict=True):
                part.append(whole[ask.past : ask.length])
        joined = [torch.cat(part) for part in parts]
        if step.padding:
            joined = [torch.cat([one, one.new_full((step.padding, *one.shape[1:]), 3.0)]) for one in joined]
        if not step.fused:
            query, key, value = (one.to(self.device) for one in joined)
            return query, key, value
        rows, widths = joined[0].shape[0], [one.shape[1] * shape.head_size for one in joined]
        fused = torch.cat([one.reshape(rows, -1) for one in joined], dim=1).to(self.device)
        query, key, value = (one.view(rows, -1, shape.head_size) for one in torch.split(fused, widths, dim=1))
        return query, key, value

    def run(self, step: Step, built: Any = None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Run one step.

        Args:
            step: the step.
            built: its metadata; None builds it.

        Returns:
            What `forward` returned, and the output that it was given.

        Raises:
            Violation: it raised, or returned no such tensor.
        """
        import torch

        query, key, value = self.given = self.inputs(step)
        output = torch.full(query.shape, float("nan"), dtype=query.dtype, device=self.device)
        given = output if step.given and self.backend.accept_output_buffer else None
        try:
            with self.ctx.adapter.active(self.ctx.platform), torch.inference_mode():
                metadata = self.metadata(step) if built is None else built
                arguments = (self.layer, query, key, value, self.cache, metadata)
                result = (
                    self.impl.forward(*arguments) if given is None else self.impl.forward(*arguments, given)
                )
        except (Exception, SystemExit) as error:
            raise self.raised("forward", error) from error
        if not isinstance(result, torch.Tensor):
            raise self.fail(
                "forward", "returns the attention of the step's tokens.", f"it gave {kind_of(result)}"
            )
        if result.numel() != query.numel() or result.dtype != query.dtype:
            raise self.fail(
                "forward",
                "returns a tensor like the query, `[T, H, D]` in its dtype.",
                f"for a query of {tuple(query.shape)} in {query.dtype} it gave {tuple(result.shape)} in {result.dtype}",
            )
        return result, given

    def raised(self, method: str, error: BaseException) -> Violation:
        """The violation of a step that raised."""
        place = self.ctx.blame(error)
        return self.fail(
            method,
            "runs a step of every shape that the backend says it takes.",
            f"in {self.case.name} ({self.case.shape}) it raised {describe(error)}{quoted(place)}",
            place=place,
            hint="Correct that line; or let the backend say that it does not take such layers: in "
            "`supported_dtypes`, `get_supported_head_sizes`, `get_supported_kernel_block_sizes` or "
            "`validate_configuration`.",
        )

    def fail(self, method: str, says: str, did: str, *, place: str = "", hint: str = "") -> Violation:
        """A violation that names the implementation's method."""
        cls: type = self.impl.__class__
        return part_fails(
            self.ctx,
            PICKER,
            cls,
            method,
            says=f"`{method}` of an attention implementation {says}",
            did=did,
            hint=hint or f"Change `{cls.__name__}.{method}`.",
            place=place,
        )


def part_fails(
    ctx: CheckContext, member: str, cls: type, method: str, *, says: str, did: str, hint: str, place: str = ""
) -> Violation:
    """Make the violation of a method of a picked class; it points to the method."""
    return Violation(
        Finding(
            contract_says=says,
            platform_did=did,
            member=f"{member} → {cls.__name__}.{method}",
            location=place or place_of(ctx, cls, method),
            hint=hint,
        )
    )


def place_of(ctx: CheckContext, cls: type, method: str) -> str:
    """Where a class has a method, as `file:line`; the class where it has it from the engine."""
    owner = next((one for one in cls.__mro__ if method in vars(one)), cls)
    inherited = ctx.adapter.in_tree(owner) and not ctx.adapter.in_tree(cls)
    raw = None if inherited else inspect.getattr_static(cls, method, None)
    return locate(raw) or locate(cls) or f"{cls.__module__}.{cls.__qualname__}"


def device_of(ctx: CheckContext) -> torch.device:
    """The first device of the platform."""
    import torch

    kind: str = ctx.platform.device_type
    return torch.device("cpu") if kind == "cpu" else torch.device(kind, 0)


def drive(ctx: CheckContext, case: Case, layers: Sequence[str] = (LAYER,)) -> Driver:
    """Make a layer of the shape of a problem, with its cache.

    Args:
        ctx: of the check.
        case: the problem.
        layers: the names of all layers that share its metadata, its own first.

    Raises:
        Refused: the platform serves no layer of this shape.
        Violation: it says that it does, and making its parts raises.
    """
    import torch

    shape = case.shape
    backend = pick(ctx, shape)
    device = device_of(ctx)
    dtype: torch.dtype = getattr(torch, shape.dtype)
    config = _config(shape, dtype)
    impl_cls, builder_cls = backend.get_impl_cls(), backend.get_builder_cls()
    making: type = impl_cls
    try:
        with ctx.adapter.active(ctx.platform):
            ctx.adapter.give_device(ctx.platform, config)
            impl = impl_cls(
                shape.heads,
                shape.head_size,
                shape.scale,
                num_kv_heads=shape.kv_heads,
                sliding_window=shape.window,
                kv_cache_dtype=shape.cache_dtype,
                **_options(shape),
            )
            impl.process_weights_after_loading(dtype)
            making = backend
            spec = backend.customize_spec(_spec(shape, dtype))
            cache = _cache(backend, case, spec, device)
            making = builder_cls
            layer = Layer(layers[0], backend, spec)
            for name in layers:
                config.compilation_config.static_forward_context[name] = attrs.evolve(layer, layer_name=name)
            builder = builder_cls(spec, list(layers), config, device)
    except (Exception, SystemExit) as error:
        if making is impl_cls and _options(shape) and isinstance(error, _REFUSALS):
            raise Refused(describe(error)) from error
        place = ctx.blame(error)
        raise part_fails(
            ctx,
            PICKER,
            making,
            "__init__" if making is not backend else "get_kv_cache_shape",
            says="The parts of a backend are made for every shape that the backend says it takes.",
            did=f"for {shape} it raised {describe(error)}{quoted(place)}",
            hint="Correct that line; or let the backend say that it does not take such layers.",
            place=place,
        ) from error
    return Driver(ctx, case, backend, layer, impl, builder, cache, device)


def _options(shape: Shape) -> Mapping[str, Any]:
    """What an implementation is made with that most layers do not have."""
    options: dict[str, Any] = {"logits_soft_cap": shape.cap} if shape.cap else {}
    if shape.slopes:
        options["alibi_slopes"] = list(shape.slopes)
    return options


def pick(ctx: CheckContext, shape: Shape) -> Any:
    """The backend that the platform picks for a layer of a shape.

    Raises:
        Refused: none, or the one that is picked does not take it.
    """
    import torch

    from platform_abc.config import AttentionSelectorConfig

    dtype: torch.dtype = getattr(torch, shape.dtype)
    stored: Any = shape.cache_dtype  # a name that a backend lists
    question = AttentionSelectorConfig(
        head_size=shape.head_size,
        dtype=dtype,
        kv_cache_dtype=stored,
        block_size=shape.block_size,
        has_sliding_window=shape.window is not None,
    )
    try:
        known = list(ctx.platform.supported_dtypes)
        if dtype not in known:
            raise Refused(f"supported_dtypes has no {shape.dtype}")
        with ctx.adapter.active(ctx.platform):
            name = ctx.platform.get_attn_backend_cls(
                None, attn_selector_config=question, num_heads=shape.heads
            )
            backend: Any = ctx.adapter.resolve(name)
            if backend.is_mla() or backend.is_sparse() or backend.is_ssm():
                raise Refused(f"{name} is for another kind of layer")
            reasons: Sequence[str] = backend.validate_configuration(
                question, ctx.platform.get_device_capability()
            )
    except (ValueError, NotImplementedError) as error:
        raise Refused(describe(error)) from error
    if reasons:
        raise Refused("; ".join(map(str, reasons)))
    return backend


def _config(shape: Shape, dtype: torch.dtype) -> Any:
    from platform_abc.config import CacheConfig, EngineConfig, ModelConfig

    return EngineConfig(
        model_config=ModelConfig(
            dtype=dtype,
            hidden_size=shape.heads * shape.head_size,
            num_attention_heads=shape.heads,
            num_kv_heads=shape.kv_heads,
            head_size=shape.head_size,
            num_layers=1,
            max_model_len=LONGEST,
            sliding_window=shape.window,
        ),
        cache_config=CacheConfig(block_size=shape.block_size, sliding_window=shape.window),
    )


def _spec(shape: Shape, dtype: torch.dtype) -> Any:
    from platform_abc.components.kv_cache import AttentionSpec

    return AttentionSpec(
        block_size=shape.block_size,
        num_kv_heads=shape.kv_heads,
        head_size=shape.head_size,
        dtype=dtype,
        cache_dtype=shape.cache_dtype,
        sliding_window=shape.window,
    )


def _cache(backend: Any, case: Case, spec: Any, device: torch.device) -> torch.Tensor:
    """Allocate the cache of a layer, in the order in memory that the backend asks for."""
    import torch

    whole: tuple[int, ...] = tuple(
        backend.get_kv_cache_shape(
            case.num_blocks, spec.block_size, spec.num_kv_heads, spec.head_size, spec.cache_dtype
        )
    )
    named = str(spec.dtype if spec.cache_dtype == "auto" else spec.cache_dtype).removeprefix("torch.")
    dtype: Any = getattr(torch, named, None)
    if not isinstance(dtype, torch.dtype):
        raise Refused(f"a cache of {named} is not a tensor of one torch dtype")
    try:
        order = tuple(backend.get_kv_cache_stride_order())
    except NotImplementedError:
        order = tuple(range(len(whole)))
    memory = torch.full([whole[one] for one in order], case.stale, dtype=dtype, device=device)
    return memory.permute([order.index(one) for one in range(len(whole))])


def base_shape(ctx: CheckContext) -> Shape:
    """The shape that most problems have: the plainest that the platform serves.

    Raises:
        Skip: the device is not here.
        Unsupported: it serves no layer of usual size.
    """
    ctx.need_device()
    reasons: dict[str, None] = {}
    for dtype in _DTYPES:
        for head_size in _head_sizes(ctx, dtype):
            for block_size in _BLOCK_SIZES:
                shape = Shape(4, 2, head_size, block_size, dtype)
                try:
                    pick(ctx, shape)
                except Refused as reason:
                    reasons[str(reason)] = None
                else:
                    return shape
    raise Unsupported(f"the platform serves no layer of usual size: {next(iter(reasons), '')}")


def _head_sizes(ctx: CheckContext, dtype: str) -> Sequence[int]:
    """Usual head sizes, and those that the backend of the plain case lists."""
    listed: list[int] = []
    try:
        listed = list(pick(ctx, Shape(4, 2, 64, 16, dtype)).get_supported_head_sizes())
    except Refused:
        listed = []
    return [*_HEAD_SIZES, *listed]


def run_case(ctx: CheckContext, case: Case) -> list[tuple[Step, torch.Tensor]]:
    """Run the steps of a problem.

    Returns:
        The judged steps, each with what came out for its tokens, float64 `[T, H, D]` in host memory.

    Raises:
        Refused: the platform serves no layer of this shape.
        Violation: a step raised.
    """
    driver = drive(ctx, case)
    results: list[tuple[Step, torch.Tensor]] = []
    for step in case.steps:
        result, given = driver.run(step)
        if step.judged:
            shaped = (result if given is None else given).reshape(-1, case.shape.heads, case.shape.head_size)
            results.append((step, shaped[: step.tokens].double().cpu()))
    return results


def run_layers(ctx: CheckContext, cases: Sequence[Case]) -> list[list[tuple[Step, torch.Tensor]]]:
    """Run problems that differ in their tokens only, each in a layer of its own, on the metadata of the first.

    Returns:
        For each problem, what `run_case` returns.

    Raises:
        Refused: the platform serves no layer of this shape.
        Violation: a step raised.
    """
    names = [f"model.layers.{number}.attn" for number in range(len(cases))]
    drivers = [
        drive(ctx, case, (name, *(one for one in names if one != name)))
        for name, case in zip(names, cases, strict=True)
    ]
    results: list[list[tuple[Step, torch.Tensor]]] = [[] for _ in cases]
    for steps in zip(*(case.steps for case in cases), strict=True):
        with ctx.adapter.active(ctx.platform):
            try:
                built = drivers[0].metadata(steps[0])
            except (Exception, SystemExit) as error:
                raise drivers[0].raised("forward", error) from error
        for number, (driver, step) in enumerate(zip(drivers, steps, strict=True)):
            result, given = driver.run(step, built)
            shape = driver.case.shape
            shaped = (result if given is None else given).reshape(-1, shape.heads, shape.head_size)
            results[number].append((step, shaped[: step.tokens].double().cpu()))
    return results


def ordered(builder_cls: type, steps: Sequence[Step]) -> list[Step]:
    """The steps with the batches in the order that a builder wants: short requests first."""
    threshold: object = getattr(builder_cls, "reorder_batch_threshold", None)
    if not isinstance(threshold, int):
        return list(steps)
    limit = threshold
    return [
        attrs.evolve(step, asks=tuple(sorted(step.asks, key=lambda ask: ask.new > limit))) for step in steps
    ]
