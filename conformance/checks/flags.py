"""What a platform declares against what it has: flags, dtypes and methods, broken or forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from conformance.checks import _configs
from conformance.context import CheckContext, describe, is_a, kind_of, short
from conformance.model import NotRun, Skip, Unsupported, Violation
from conformance.registry import check

_ANSWERS: Final = "capabilities.answers"
_NOWHERE: Final = "conformance_kit_no_such_method"


def _yes(ctx: CheckContext, member: str) -> bool:
    """Ask a yes/no question; False where the engine lacks it or the platform declines."""
    if not ctx.knows(member):
        return False
    try:
        with ctx.adapter.active(ctx.platform):
            return bool(
                ctx.ask(
                    member,
                    contract_says=f"`{member}()` answers True or False.",
                    hint=f"Return a bool from `{member}`.",
                )
            )
    except Unsupported:
        return False


@check(
    "capabilities.pin-memory",
    group="capabilities",
    needs=("members.kinds", _ANSWERS, "device.answers"),
    asks=("is_pin_memory_available",),
    why="The engine makes pinned buffers wherever the answer is True; where torch cannot, each of them raises.",
    hint="Answer False in is_pin_memory_available where torch cannot pin memory for your device.",
)
def pin_memory(ctx: CheckContext) -> None:
    """Where `is_pin_memory_available` says True, torch pins memory."""
    import torch

    member = "is_pin_memory_available"
    if not ctx.overridden(member) or not _yes(ctx, member):
        raise Unsupported(f"{member} is the base's, or says False")
    ctx.need_device()
    try:
        torch.empty(1).pin_memory()
    except Exception as error:
        raise ctx.fail(
            member,
            contract_says=f"Where `{member}()` says True, torch can pin host memory.",
            platform_did=f"it said True, and torch.empty(1).pin_memory() raised {short(describe(error), 160)}",
            hint=f"Return False from `{member}`, or make torch's pinned memory work for {ctx.platform.device_type!r}.",
        ) from error


@check(
    "capabilities.fp8",
    group="capabilities",
    needs=(_ANSWERS, "device.answers"),
    why="Kernels take the type from fp8_dtype and the range from is_fp8_fnuz; where they differ numbers are wrong.",
    hint="Let fp8_dtype and is_fp8_fnuz speak of the same type.",
)
def fp8(ctx: CheckContext) -> None:
    """`fp8_dtype` is an FP8 type, and the FNUZ one exactly where `is_fp8_fnuz` says so."""
    import torch

    member = "fp8_dtype"
    known: dict[str, Any] = {
        name: getattr(torch, name)
        for name in dir(torch)
        if name.startswith("float8_e4m3") and name != "float8_e4m3"
    }
    says = f"`{member}()` is one of torch's {', '.join(known)}."
    hint = f"Return torch.float8_e4m3fn from `{member}`, or torch.float8_e4m3fnuz with `is_fp8_fnuz` True."
    value: Any = ctx.ask(member, contract_says=says, hint=hint)
    name = next((name for name, one in known.items() if one is value), "")
    if not name:
        raise ctx.fail(member, contract_says=says, platform_did=f"it gave {kind_of(value)}", hint=hint)
    fnuz = _yes(ctx, "is_fp8_fnuz")
    if fnuz != name.endswith("fnuz"):
        mine = member if ctx.overridden(member) or not ctx.overridden("is_fp8_fnuz") else "is_fp8_fnuz"
        raise ctx.fail(
            mine,
            contract_says="`is_fp8_fnuz()` says True exactly where `fp8_dtype()` is torch.float8_e4m3fnuz.",
            platform_did=f"`is_fp8_fnuz()` said {fnuz}, and `fp8_dtype()` gave torch.{name}",
            hint=hint,
        )


def _raises(call: Callable[..., object], *args: object) -> BaseException | None:
    try:
        call(*args)
    except (Exception, SystemExit) as error:
        return error
    return None


@check(
    "capabilities.quantization",
    group="capabilities",
    needs=("identity.lists", "members.kinds", "members.engine-calls"),
    asks=("verify_quantization",),
    why="The engine asks verify_quantization; a listed method that it refuses, or one that it lets pass, misleads.",
    hint="Let verify_quantization follow supported_quantization, as the base does.",
)
def quantization(ctx: CheckContext) -> None:
    """`verify_quantization` takes every listed method and refuses others with a ValueError."""
    member = "verify_quantization"
    listed: list[str] = list(getattr(ctx.platform_cls, "supported_quantization", ()))
    if not ctx.overridden(member) or not ctx.knows(member):
        raise Unsupported(f"{member} is the base's")
    with ctx.adapter.active(ctx.platform):
        ask = getattr(ctx.platform, member)
        for name in listed:
            refused = _raises(ask, name)
            if refused is not None:
                raise ctx.fail(
                    member,
                    contract_says=f"`{member}` accepts each method in `supported_quantization`.",
                    platform_did=f"{name!r} is listed, and `{member}({name!r})` raised {describe(refused)}",
                    hint=f"Remove {name!r} from the list, or accept it in `{member}`.",
                    location=ctx.blame(refused),
                ) from refused
        answer = _raises(ask, _NOWHERE)
    if listed and answer is None:
        raise ctx.fail(
            member,
            contract_says=f"`{member}` raises ValueError for a method that `supported_quantization` does not list.",
            platform_did=f"`{member}({_NOWHERE!r})` returned, and the list is {short(listed)}",
            hint=f"Raise ValueError in `{member}` for what is not in the list; super().{member}(quant) does.",
        )
    if answer is not None and not isinstance(answer, ValueError | NotImplementedError):
        raise ctx.raised(
            member,
            answer,
            contract_says=f"`{member}` refuses a method with a ValueError that names it.",
            hint=f'Write `raise ValueError(f"quantization {{quant}} is not supported")` in `{member}`.',
        )


@check(
    "capabilities.quantization-known",
    group="capabilities",
    severity="should",
    needs=("identity.lists",),
    why="A listed method that the engine does not know cannot be asked for: it is misspelt, or not registered yet.",
    hint="Register your method in pre_register_and_update, and write the engine's spelling of its own.",
    engines=("vllm",),
)
def quantization_known(ctx: CheckContext) -> None:
    """Each listed method is one that the engine knows once the platform has registered its own."""
    listed: list[str] = list(getattr(ctx.platform_cls, "supported_quantization", ()))
    owner = ctx.owner("supported_quantization")
    if not listed or owner is None or ctx.adapter.in_tree(owner):
        raise Unsupported("the platform lists no quantization methods of its own")
    with ctx.adapter.active(ctx.platform):
        _raises(getattr(ctx.platform, "pre_register_and_update", lambda: None))
    known = set(ctx.adapter.quantization_names())
    if not known:
        raise Unsupported("the installed engine has no quantization methods of its own")
    unknown = [name for name in listed if name not in known]
    if unknown:
        like = {name: _alike(name, known) for name in unknown}
        means = "".join(f" For {name!r} it has {other!r}." for name, other in like.items() if other)
        raise ctx.fail(
            "supported_quantization",
            contract_says="`supported_quantization` lists methods that the engine knows by these names, its own and "
            "those that `pre_register_and_update` registers.",
            platform_did=f"the engine knows none of the name {', '.join(map(repr, unknown))}.{means}",
            hint="Correct the name, or register the method in `pre_register_and_update`.",
        )


def _alike(name: str, known: set[str]) -> str:
    import difflib

    plain = {one.replace("-", "").replace("_", "").lower(): one for one in sorted(known)}
    bare = name.replace("-", "").replace("_", "").lower()
    if bare in plain:
        return plain[bare]
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
    return close[0] if close else ""


@check(
    "device.dtypes",
    group="device",
    needs=("device.answers", "members.kinds", "members.engine-calls"),
    asks=("check_if_supports_dtype",),
    why="The engine picks the model's dtype from the list, and a worker then asks whether the device has it.",
    hint="List each dtype once, and accept in check_if_supports_dtype what you list.",
)
def dtypes(ctx: CheckContext) -> None:
    """The list of dtypes names each one once, and the dtype check accepts what is listed."""
    member, asked = "supported_dtypes", "check_if_supports_dtype"
    try:
        listed: Any = ctx.platform.supported_dtypes
    except NotImplementedError as error:
        raise Unsupported(f"{member} raises {describe(error)}") from error
    except Exception as error:
        missing = ctx.device_missing()
        if missing:
            raise Skip(missing, "run the kit where the device is") from error
        raise NotRun(f"{member} raised {describe(error)}, see device.answers") from error
    if not is_a(listed, list, tuple):
        raise NotRun(f"{member} is no list, see device.answers")
    twice = sorted({str(one) for one in listed if list(listed).count(one) > 1})
    if twice:
        raise ctx.fail(
            member,
            contract_says=f"`{member}` lists each dtype once: its order is the order of preference.",
            platform_did=f"it lists more than once: {', '.join(twice)}",
            hint=f"Remove the second {twice[0]} from `{member}`.",
        )
    if not ctx.overridden(asked) or not ctx.knows(asked):
        return
    for dtype in listed:
        with ctx.adapter.active(ctx.platform):
            refused = _raises(getattr(ctx.platform, asked), dtype)
        if refused is None or isinstance(refused, NotImplementedError):
            continue
        if ctx.device_missing() and not isinstance(refused, TypeError | AttributeError | NameError):
            raise Skip(ctx.device_missing(), "run the kit where the device is") from refused
        raise ctx.fail(
            asked,
            contract_says=f"`{asked}` accepts every dtype that `{member}` lists.",
            platform_did=f"{dtype} is listed, and `{asked}({dtype})` raised {describe(refused)}",
            hint=f"Remove {dtype} from `{member}`, or accept it in `{asked}`.",
            location=ctx.blame(refused),
        ) from refused


@check(
    "device.capability-kind",
    group="device",
    severity="should",
    needs=("device.capability", "identity.predicates"),
    why="Kernels take the pair for CUDA's: a device of another kind then gets kernels that it cannot run.",
    hint="Return None from get_device_capability; say what the device can in supports_fp8 and its like.",
)
def capability_kind(ctx: CheckContext) -> None:
    """A device that is not like CUDA has no CUDA capability."""
    member = "get_device_capability"
    owner = ctx.owner(member)
    if owner is None or ctx.adapter.in_tree(owner):
        raise Unsupported(f"{member} is the engine's own")
    if _yes(ctx, "is_cuda_alike") or ctx.attribute("device_type") == "cuda":
        return
    says = f"Where `is_cuda_alike()` says False, `{member}()` gives None: the numbers are CUDA's."
    hint = f"Remove `{member}`, or return None from it."
    answer = ctx.ask(member, contract_says=says, hint=hint)
    if answer is not None:
        raise ctx.fail(member, contract_says=says, platform_did=f"it gave {kind_of(answer)}", hint=hint)


@check(
    "capabilities.has-device-capability",
    group="capabilities",
    needs=("device.capability", "members.engine-calls"),
    asks=("has_device_capability", "is_device_capability", "is_device_capability_family"),
    why="The engine chooses kernels by these three questions; they have to agree with the pair itself.",
    hint="Leave the questions to the base, which answers from get_device_capability.",
)
def has_capability(ctx: CheckContext) -> None:
    """The three questions about the capability agree with `get_device_capability`."""
    pair = "get_device_capability"
    if not ctx.knows(pair):
        raise Unsupported(f"the installed engine has no {pair}")
    hint = f"Remove the override: the base answers from `{pair}`."
    current = ctx.ask(pair, contract_says=f"`{pair}()` gives None or a capability.", hint=hint)
    for member, asked, expected in _questions(current):
        if not ctx.knows(member) or not ctx.overridden(member):
            continue
        says = f"Where `{pair}()` gives {short(current)}, `{member}({asked!r})` says {expected}."
        answer = ctx.ask(member, asked, contract_says=says, hint=hint)
        if answer is not expected:
            raise ctx.fail(member, contract_says=says, platform_did=f"it said {short(answer)}", hint=hint)


def _questions(current: Any) -> list[tuple[str, object, bool]]:
    if current is None:
        return [
            ("has_device_capability", 10, False),
            ("is_device_capability", (8, 0), False),
            ("is_device_capability_family", 80, False),
        ]
    major, minor = current.major, current.minor
    number = major * 10 + minor
    return [
        ("has_device_capability", number, True),
        ("has_device_capability", (major, minor), True),
        ("has_device_capability", number + 10, False),
        ("is_device_capability", (major, minor), True),
        ("is_device_capability", (major + 1, minor), False),
        ("is_device_capability_family", major * 10, True),
        ("is_device_capability_family", (major + 1) * 10, False),
    ]


@check(
    "capabilities.sleep-mode",
    group="capabilities",
    needs=(_ANSWERS,),
    why="With sleep mode the engine hands the model's memory to the allocator, which then has to be there.",
    hint="Answer False in is_sleep_mode_available, or True in is_cumem_allocator_available where you have one.",
)
def sleep_mode(ctx: CheckContext) -> None:
    """An own yes to sleep mode comes with the allocator that it uses."""
    flag, allocator = "is_sleep_mode_available", "is_cumem_allocator_available"
    if not ctx.knows(flag) or not ctx.knows(allocator) or not ctx.overridden(flag) or not _yes(ctx, flag):
        raise Unsupported(f"{flag} is the base's, or says False")
    owner = ctx.owner(flag)
    if owner is not None and ctx.adapter.in_tree(owner):
        raise Unsupported(f"{flag} is the engine's own")
    if not _yes(ctx, allocator) and not _own_allocator(ctx):
        raise ctx.fail(
            flag,
            contract_says=f"Where `{flag}()` says True, `{allocator}()` does too, or the worker has sleep and wake_up.",
            platform_did=f"`{flag}()` said True, `{allocator}()` False, and the worker has no sleep and wake_up of its "
            "own",
            hint=f"Let `{flag}` return False until the allocator is there.",
        )


def _own_allocator(ctx: CheckContext) -> bool:
    """Say whether the platform's worker brings sleep mode itself."""
    try:
        name = ctx.adapter.worker_cls_field(_configs.ran(ctx).config)
        cls: Any = name if isinstance(name, type) else ctx.adapter.resolve(name)
    except (_configs.Refused, Violation, Skip, NotRun, Unsupported, ImportError, AttributeError, ValueError):
        return True  # it cannot be told here
    own = [one for one in cls.__mro__ if not ctx.adapter.in_tree(one)]
    return all(any(name in vars(one) for one in own) for name in ("sleep", "wake_up"))
