"""Identity: names and keys that are readable on the class, and a kind that fits them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from conformance.context import CheckContext, describe, is_a, kind_of, short
from conformance.model import Finding, Level, Violation
from conformance.registry import check

_TEXTS: Final = ("dispatch_key", "ray_device_key", "simple_compile_backend", "dist_backend")
_LISTS: Final = ("ray_noset_device_env_vars", "supported_quantization", "additional_env_vars")
_ENV_LISTS: Final = ("ray_noset_device_env_vars", "additional_env_vars")
_KINDS: Final = ("is_cuda", "is_rocm", "is_tpu", "is_xpu", "is_cpu", "is_out_of_tree", "is_unspecified")
_OTHER_PREDICATES: Final = ("is_zen_cpu", "is_cuda_alike", "uses_host_device_handling")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@check(
    "identity.enum",
    group="identity",
    level=Level.STATIC,
    why="Engines branch on the kind by identity of the enum's members; another value matches no branch.",
    hint="Set `_enum` to a member of the engine's own PlatformEnum.",
)
def enum_member(ctx: CheckContext) -> None:
    """`_enum` is a member of the engine's enumeration, on the class."""
    kinds = ctx.adapter.platform_enum()
    value = ctx.raw("_enum")
    if not isinstance(value, kinds):
        raise ctx.fail(
            "_enum",
            contract_says=f"`_enum` is a member of {kinds.__module__}.{kinds.__name__}, set on the class.",
            platform_did=f"`_enum` is {kind_of(value)}",
            hint=f"Write `_enum = PlatformEnum.OOT`, imported from {kinds.__module__}.",
        )
    _same_on_instance(ctx, "_enum")


@check(
    "identity.enum-out-of-tree",
    group="identity",
    severity="should",
    level=Level.STATIC,
    needs=("identity.enum",),
    why="An engine takes paths of its own device for a kind that it ships, with kernels you do not have.",
    hint="A platform outside the engine's tree says OOT, unless it derives from the engine's own platform.",
)
def enum_out_of_tree(ctx: CheckContext) -> None:
    """A class outside the engine's tree says OOT, or has its kind from a platform of the engine."""
    kinds = ctx.adapter.platform_enum()
    value = ctx.raw("_enum")
    if (
        value is kinds["OOT"]
        or ctx.adapter.in_tree(ctx.platform_cls)
        or ctx.adapter.detects(ctx.platform_cls)
    ):
        return
    base = ctx.adapter.base_class()
    parents = [cls for cls in ctx.platform_cls.__mro__[1:] if issubclass(cls, base) and cls is not base]
    if any(ctx.adapter.in_tree(cls) and getattr(cls, "_enum", None) is value for cls in parents):
        return
    raise ctx.fail(
        "_enum",
        contract_says="A platform that ships outside the engine's tree is OOT, whatever its device is.",
        platform_did=f"`_enum` is {value}, but {ctx.qualname} derives from no platform of that kind",
        hint="Write `_enum = PlatformEnum.OOT`.",
    )


def _same_on_instance(ctx: CheckContext, name: str) -> None:
    """Fail unless an instance, where one can be made, has the class's value."""
    try:
        instance = ctx.platform
    except Exception:  # platform.instantiable says so
        return
    on_class, on_instance = getattr(ctx.platform_cls, name, None), getattr(instance, name, None)
    if on_instance != on_class:
        raise ctx.fail(
            name,
            contract_says=f"`{name}` is the same on the class and on its instance: the engine reads both.",
            platform_did=f"the class says {short(on_class)} and an instance says {short(on_instance)}",
            hint=f"Remove the assignment to `self.{name}`, and set `{name}` in the class body.",
            location=ctx.locate_on_instance(name),
        )


def _class_text(ctx: CheckContext, name: str, example: str) -> None:
    """Fail unless `name` is non-empty text that class and instance agree on."""
    raw = ctx.raw(name)
    on_class = getattr(ctx.platform_cls, name, None)
    says = f"`{name}` is non-empty text, set in the class body: the engine reads it on the class too."
    if not isinstance(on_class, str):
        what = "a property" if isinstance(raw, property) else "a function" if callable(raw) else kind_of(raw)
        raise ctx.fail(
            name,
            contract_says=says,
            platform_did=f"on the class it is {what}",
            hint=f"Write `{example}` in the class body.",
        )
    if not on_class.strip() or on_class != on_class.strip():
        raise ctx.fail(
            name,
            contract_says=says,
            platform_did=f"it is {on_class!r}",
            hint=f"Write `{example}` in the class body.",
        )
    on_instance = getattr(ctx.platform, name)
    if on_instance != on_class:
        raise ctx.fail(
            name,
            contract_says=says,
            platform_did=f"the class says {on_class!r} and an instance says {short(on_instance)}",
            hint=f"Remove the assignment to `self.{name}`, and write `{example}` in the class body.",
            location=ctx.locate_on_instance(name),
        )


@check(
    "identity.device-name",
    group="identity",
    level=Level.STATIC,
    why="Engines put the name into messages and use it as a key of tables of tuned kernels.",
    hint='Write `device_name = "mydevice"` in the class body.',
)
def device_name(ctx: CheckContext) -> None:
    """`device_name` is non-empty text on the class."""
    _class_text(ctx, "device_name", 'device_name = "mydevice"')


@check(
    "identity.device-type",
    group="identity",
    level=Level.STATIC,
    why="Every tensor is made on this device type, and the fallback reads torch.<device_type>.",
    hint='Write `device_type = "mydevice"` in the class body.',
)
def device_type(ctx: CheckContext) -> None:
    """`device_type` is non-empty text on the class."""
    _class_text(ctx, "device_type", 'device_type = "mydevice"')


@check(
    "identity.torch-device",
    group="identity",
    needs=("identity.device-type", "identity.predicates"),
    why="The engine calls torch.device(device_type) before it loads a model; torch refuses unknown names.",
    hint="Use a device type that torch knows, rename PrivateUse1 to yours when the module is imported, or "
    "answer True in uses_host_device_handling.",
)
def torch_device(ctx: CheckContext) -> None:
    """torch accepts the device type, unless inputs are prepared on the host."""
    import torch

    value: Any = ctx.attribute("device_type")
    try:
        device = torch.device(value)
    except RuntimeError as error:
        if ctx.knows("uses_host_device_handling") and ctx.platform.uses_host_device_handling():
            return
        raise ctx.fail(
            "device_type",
            contract_says="`device_type` is a name that torch.device() takes, or the platform says that "
            "its inputs are prepared on the host.",
            platform_did=f"device_type is {value!r}, and torch.device({value!r}) raises {describe(error)}",
            hint="Call torch.utils.rename_privateuse1_backend in the platform's module, or override "
            "`uses_host_device_handling` to return True.",
        ) from error
    if device.type != value:
        raise ctx.fail(
            "device_type",
            contract_says="`device_type` is the bare type of a device, `cpu` or `cuda`; the engine adds the index.",
            platform_did=f"device_type is {value!r}, which torch takes for {device!r}",
            hint=f"Write `device_type = {device.type!r}`.",
        )


@check(
    "identity.predicates",
    group="identity",
    needs=("identity.enum",),
    why="Engines choose kernels by these questions; two yeses or none take a path that no one tested.",
    hint="Leave the predicates to the base class: they follow `_enum`.",
)
def predicates(ctx: CheckContext) -> None:
    """Each predicate answers with a bool, and exactly one kind says yes."""
    answers: dict[str, bool] = {}
    kinds = tuple(filter(ctx.knows, _KINDS))
    for name in (*kinds, *filter(ctx.knows, _OTHER_PREDICATES)):
        says = f"`{name}()` answers True or False, without a device."
        value: Any = ctx.ask(name, contract_says=says, hint=f"Return a bool from `{name}`.")
        if not isinstance(value, bool):
            raise ctx.fail(
                name,
                contract_says=says,
                platform_did=f"it returned {kind_of(value)}",
                hint=f"Return a bool from `{name}`.",
            )
        again: Any = ctx.ask(name, contract_says=says, hint=f"Return a bool from `{name}`.")
        if again != value:
            raise ctx.fail(
                name,
                contract_says=f"`{name}()` answers the same each time: the engine asks it all over its code.",
                platform_did=f"it said {value}, and asked again {again}",
                hint=f"Leave `{name}` to the base class, which answers from `_enum`.",
            )
        answers[name] = value
    yes = [name for name in kinds if answers[name]]
    if len(yes) != 1:
        own = [name for name in kinds if ctx.overridden(name)] or ["_enum"]
        raise ctx.fail(
            own[0],
            contract_says=f"Exactly one of {', '.join(kinds)} says True.",
            platform_did=f"{' and '.join(yes) or 'none of them'} said True, while `_enum` is "
            f"{ctx.raw('_enum')}",
            hint=f"Remove the override of {', '.join(own)}: the base answers from `_enum`.",
        )
    fitting = _predicate_of(ctx)
    if fitting and yes != [fitting]:
        raise ctx.fail(
            yes[0] if ctx.overridden(yes[0]) else fitting,
            contract_says="The kind that says True is the one in `_enum`: the engine reads that as well.",
            platform_did=f"`{yes[0]}()` said True, while `_enum` is {ctx.raw('_enum')}",
            hint=f"Remove the overrides of `{yes[0]}` and `{fitting}`, or set `_enum` to the kind you mean.",
        )
    if answers.get("is_zen_cpu") and not answers["is_cpu"]:
        raise ctx.fail(
            "is_zen_cpu",
            contract_says="`is_zen_cpu()` says True only where `is_cpu()` does: it is a kind of CPU.",
            platform_did=f"`is_zen_cpu()` said True and `is_cpu()` False, with `_enum` {ctx.raw('_enum')}",
            hint="Remove the override of `is_zen_cpu`.",
        )


def _predicate_of(ctx: CheckContext) -> str:
    """The predicate that belongs to the class's kind; empty where the engine has none for it."""
    kind: Any = ctx.raw("_enum")
    name = "is_out_of_tree" if kind is ctx.adapter.platform_enum()["OOT"] else f"is_{kind.name.lower()}"
    return name if name in _KINDS and ctx.knows(name) else ""


@check(
    "identity.texts",
    group="identity",
    level=Level.STATIC,
    why="These keys go to torch, Ray and torch.distributed as they stand, some while the engine imports.",
    hint="Set each of them in the class body to a plain string.",
)
def texts(ctx: CheckContext) -> None:
    """The other names and keys are text on the class."""
    findings = [
        ctx.finding(
            name,
            contract_says=f"`{name}` is text, set in the class body; empty where there is none.",
            platform_did=f"on the class it is {kind_of(getattr(ctx.platform_cls, name, None))}",
            hint=f'Write `{name} = "…"` in the class body.',
        )
        for name in filter(ctx.knows, _TEXTS)
        if not isinstance(getattr(ctx.platform_cls, name, None), str)
    ]
    if findings:
        raise Violation(*findings)
    for name in filter(ctx.knows, _TEXTS):
        _same_on_instance(ctx, name)


@check(
    "identity.dispatch-key",
    group="identity",
    needs=("identity.texts",),
    why="Custom operators are registered under this key while the engine is imported; torch refuses others.",
    hint="Use a key of torch's dispatcher: CPU, CUDA, XPU or PrivateUse1.",
)
def dispatch_key(ctx: CheckContext) -> None:
    """torch's dispatcher knows the key."""
    import torch

    key = ctx.attribute("dispatch_key")
    make_library: Any = torch.library.Library
    library: Any = make_library("platform_abc_conformance", "FRAGMENT")
    library.define("probe(Tensor x) -> Tensor")
    try:
        library.impl("probe", _same, dispatch_key=key)
    except (RuntimeError, ValueError) as error:
        raise ctx.fail(
            "dispatch_key",
            contract_says="`dispatch_key` is a key of torch's dispatcher; custom operators register under it.",
            platform_did=f"dispatch_key is {key!r}, under which torch cannot register an operator "
            f"({describe(error).splitlines()[0][:160]})",
            hint='Write `dispatch_key = "PrivateUse1"` for a device of your own, `"CPU"` where torch has '
            "none for you.",
        ) from error


def _same(tensor: object) -> object:
    return tensor


def _wrong_lists(ctx: CheckContext) -> Iterator[Finding]:
    for name in filter(ctx.knows, _LISTS):
        value: Any = getattr(ctx.platform_cls, name, None)
        entries: list[Any] | None = list(value) if is_a(value, list, tuple) else None
        if entries is None or not all(isinstance(one, str) and one for one in entries):
            yield ctx.finding(
                name,
                contract_says=f"`{name}` is a list of non-empty strings, set in the class body.",
                platform_did=f"on the class it is {kind_of(value)}",
                hint=f'Write `{name} = ["…"]`, or leave it out where there is none.',
            )
        elif name in _ENV_LISTS:
            for entry in entries:
                if not _VARIABLE.fullmatch(entry):
                    yield ctx.finding(
                        name,
                        contract_says=f"`{name}` lists names of environment variables.",
                        platform_did=f"{entry!r} in it cannot be the name of a variable",
                        hint="Give the bare name, without `=`, spaces or a value.",
                    )


@check(
    "identity.lists",
    group="identity",
    level=Level.STATIC,
    why="The engine iterates over these lists; a single string would be taken letter by letter.",
    hint="Write lists of strings in the class body.",
)
def lists(ctx: CheckContext) -> None:
    """The list attributes are lists of text, and variables have names that an environment can have."""
    findings = list(_wrong_lists(ctx))
    if findings:
        raise Violation(*findings)
    for name in filter(ctx.knows, _LISTS):
        _same_on_instance(ctx, name)


@check(
    "identity.lists-shared",
    group="identity",
    level=Level.STATIC,
    needs=("identity.lists",),
    why="The default lists belong to the base class: what one platform appends, every other one has too.",
    hint="Assign a new list in the class body instead of appending to the inherited one.",
)
def lists_shared(ctx: CheckContext) -> None:
    """The base's own lists are as they were before the platform's module was imported."""
    members = ctx.adapter.members()
    for name in _LISTS:
        now: Any = vars(ctx.adapter.base_class()).get(name, getattr(ctx.adapter.base_class(), name, None))
        if name in members and is_a(now, list) and now != members[name].value:
            added = [one for one in now if one not in members[name].value]
            raise ctx.fail(
                name,
                contract_says=f"The base's default of `{name}` is shared and stays as it is.",
                platform_did=f"importing {ctx.platform_cls.__module__} put {short(added)} into the base's list",
                hint=f"Write `{name} = {short(now)}` in the class body of {ctx.platform_cls.__name__}.",
            )


@check(
    "identity.device-variable",
    group="identity",
    level=Level.STATIC,
    why="Launchers narrow the devices of a worker through this variable.",
    hint='Write `device_control_env_var = "MYDEVICE_VISIBLE_DEVICES"` in the class body.',
)
def device_variable(ctx: CheckContext) -> None:
    """`device_control_env_var` is the name of a variable."""
    value: Any = getattr(ctx.platform_cls, "device_control_env_var", None)
    if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
        raise ctx.fail(
            "device_control_env_var",
            contract_says="`device_control_env_var` is the name of an environment variable, on the class.",
            platform_did=f"it is {kind_of(value)}",
            hint='Give the bare name: `device_control_env_var = "MYDEVICE_VISIBLE_DEVICES"`.',
        )
    _same_on_instance(ctx, "device_control_env_var")


@check(
    "identity.device-variable-set",
    group="identity",
    severity="should",
    level=Level.STATIC,
    needs=("identity.device-variable", "identity.device-type"),
    why="With the placeholder, every worker of a machine sees all devices and takes the first one.",
    hint="Name the variable that your runtime reads.",
)
def device_variable_set(ctx: CheckContext) -> None:
    """A device other than the host's processor names a variable of its own."""
    base_value = ctx.adapter.members()["device_control_env_var"].value
    value: Any = getattr(ctx.platform_cls, "device_control_env_var", None)
    kind: Any = getattr(ctx.platform_cls, "device_type", "")
    if value == base_value and kind != "cpu":
        raise ctx.fail(
            "device_control_env_var",
            contract_says="A platform with devices of its own names the variable that selects them.",
            platform_did=f"device_type is {kind!r}, and the variable is the base's {value!r}",
            hint='Write `device_control_env_var = "…"`, the variable that your runtime reads.',
        )


@check(
    "identity.ray-key",
    group="identity",
    severity="should",
    level=Level.STATIC,
    needs=("identity.texts", "identity.device-type"),
    why="The Ray executor asks for this resource and refuses a platform that has none, whatever else works.",
    hint='Write `ray_device_key = "…"`, the name of the resource that Ray gives your device: GPU, NPU, TPU, HPU.',
)
def ray_key(ctx: CheckContext) -> None:
    """A device of which a machine may have several is a resource that Ray knows by a name."""
    value: Any = getattr(ctx.platform_cls, "ray_device_key", "")
    kind: Any = getattr(ctx.platform_cls, "device_type", "")
    if value or kind == "cpu":
        return
    raise ctx.fail(
        "ray_device_key",
        contract_says="A platform with devices of its own says in `ray_device_key` under which name Ray counts them.",
        platform_did=f"device_type is {kind!r}, and ray_device_key is empty",
        hint='Write `ray_device_key = "NPU"`, or the name under which your machines offer the device to Ray.',
    )
