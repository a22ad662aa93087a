"""The one table of which hook runs when, in which process, how often, and what it may change.

The documentation prints it (`python -m platform_abc.timeline > docs/timeline.md`), the reference
engine's tests compare their traces with it, and a test kit asks it what a hook may do.
"""

from __future__ import annotations

import enum
from typing import Final, Literal

import attrs


class Process(enum.Enum):
    """A process of a running engine. With one process in all, it plays every part."""

    FRONT_END = "front end"
    ENGINE_CORE = "engine core"
    WORKER = "worker"


Layout = Literal["one-process", "worker-processes"]
"""Whether everything runs in one process, or front end, engine core and workers in their own."""

Kind = Literal["step", "hook", "read"]
"""A step of the engine itself; a hook that the engine calls; a query or attribute that it reads."""

EVERYWHERE: Final = (Process.FRONT_END, Process.ENGINE_CORE, Process.WORKER)
FRONT: Final = (Process.FRONT_END,)
CORE: Final = (Process.ENGINE_CORE,)
WORKERS: Final = (Process.WORKER,)


@attrs.frozen
class HookTime:
    """One line of the table: something that happens at one moment.

    Args:
        moment: the phase of the engine's life, in the order of the table.
        processes: where it happens with worker processes.
        name: the member of the platform, or the engine's step.
        kind: step, hook or read.
        least: how often at least, in each of those processes; 0 where `when` is a condition.
        most: how often at most; `None` for any number.
        when: the condition or the unit, for example `with LoRA` or `once a step`.
        may_change: what it may change; empty for nothing.
        note: what follows for who writes the platform.
        layouts: where this line holds.
        ordered: its place in the order is promised; else only that it happens there.
    """

    moment: str
    processes: tuple[Process, ...]
    name: str
    kind: Kind = "hook"
    least: int = 1
    most: int | None = 1
    when: str = ""
    may_change: str = ""
    note: str = ""
    layouts: tuple[Layout, ...] = ("one-process", "worker-processes")
    ordered: bool = True

    def runs_in(self, layout: Layout) -> tuple[Process, ...]:
        """Return the processes in which this happens with a layout; none if it does not happen."""
        if layout not in self.layouts:
            return ()
        return FRONT if layout == "one-process" else self.processes


BOTH: Final[tuple[Layout, ...]] = ("one-process", "worker-processes")


def _reads(
    moment: str,
    processes: tuple[Process, ...],
    names: str,
    note: str,
    when: str = "",
    layouts: tuple[Layout, ...] = BOTH,
) -> list[HookTime]:
    return [
        HookTime(moment, processes, name, "read", 0, None, when, note=note, layouts=layouts, ordered=False)
        for name in names.split()
    ]


_REPEATED = "runs on the config that it has already changed: a second call must change nothing more"

TIMELINE: Final[tuple[HookTime, ...]] = (
    HookTime(
        "resolution",
        EVERYWHERE,
        "detector",
        "step",
        least=0,
        most=2,
        when="the winning one twice, every other one once; a forced CPU asks one, once",
        note="must be cheap, import nothing heavy, start no device, answer the same each time and read no "
        "`current_platform`",
    ),
    HookTime("resolution", EVERYWHERE, "import of the platform's module", "step", note="must be repeatable"),
    HookTime(
        "resolution",
        EVERYWHERE,
        "making of the platform object",
        "step",
        note="one object a process; nothing is carried from one process to another",
    ),
    *_reads(
        "import of the engine",
        EVERYWHERE,
        "dispatch_key simple_compile_backend fp8_dtype is_cuda_alike is_rocm is_pin_memory_available",
        "read while the engine is only half imported: an exception breaks the import itself, and the engine's "
        "own modules are not there yet",
    ),
    *_reads(
        "import of the engine",
        FRONT,
        "is_cpu get_compile_backend",
        "asked for the default compile settings, before general plugins and before any config hook",
    ),
    HookTime(
        "plugins",
        EVERYWHERE,
        "general plugins",
        "step",
        note="the platform is already chosen, so a general plugin cannot change which one it is",
    ),
    # An engine may call it before the general plugins in some processes and after them in others.
    HookTime("plugins", EVERYWHERE, "log_warnings", least=0, note="an exception is fatal", ordered=False),
    HookTime(
        "command line",
        FRONT,
        "pre_register_and_update",
        least=0,
        when="with the parser, when there is a command line",
        may_change="the parser; the environment",
        note="add options and change defaults here",
    ),
    HookTime(
        "config creation",
        FRONT,
        "pre_register_and_update",
        when="without a parser, first thing",
        may_change="the environment; registries of the engine",
        note="register quantization methods and the like here; runs although there was no command line",
    ),
    HookTime(
        "config creation",
        FRONT,
        "validate_environ",
        may_change="the environment",
        note="may refuse variables",
    ),
    *_reads(
        "config creation",
        FRONT,
        "device_type uses_host_device_handling get_cpu_architecture use_custom_allreduce is_tpu",
        "asked while the parts of the config are made",
    ),
    *_reads(
        "config creation",
        FRONT,
        "get_device_total_memory get_device_name",
        "asked for default batch sizes; here an exception is tolerated",
    ),
    *_reads(
        "config creation",
        FRONT,
        "check_if_supports_dtype check_max_model_len verify_quantization",
        "asked where the model's config has a dtype, a length or a quantization to check",
        "as the model needs",
    ),
    HookTime(
        "config creation",
        FRONT,
        "import_kernels",
        least=0,
        most=None,
        when="where the engine looks at the model's class for the first time",
        may_change="torch's operator registry",
        note="must be repeatable; an exception is fatal",
        ordered=False,
    ),
    *_reads("config construction", FRONT, "get_device_capability", "asked before the hooks"),
    HookTime(
        "config construction",
        FRONT,
        "apply_config_platform_defaults",
        may_change="defaults of the config that the user has not set",
        note="comes before the engine fills in its own defaults",
    ),
    *_reads(
        "config construction",
        FRONT,
        "get_default_ir_op_priority support_static_graph_mode",
        "between the hooks",
    ),
    HookTime(
        "config construction",
        FRONT,
        "check_and_update_config",
        may_change="the config; the environment, which child processes inherit",
        note="late: the parts are there, `model_config` may be `None`; must set `parallel_config.worker_cls` "
        "where it is `auto`",
    ),
    *_reads("config construction", FRONT, "support_hybrid_kv_cache", "asked after the hooks"),
    HookTime(
        "hand-over",
        (Process.FRONT_END, Process.ENGINE_CORE),
        "the config is pickled",
        "step",
        least=0,
        most=None,
        when="to the engine core, and from there to the workers",
        note="what a hook put there must pickle; what it put on the class stays behind",
        layouts=("worker-processes",),
        ordered=False,
    ),
    HookTime(
        "worker start",
        WORKERS,
        "import_kernels",
        most=None,
        when="first when the custom-op module is imported",
        may_change="torch's operator registry",
        note="must be repeatable; an exception is fatal",
        # Whatever imports the module first decides, before or after the hooks around it.
        ordered=False,
    ),
    HookTime(
        "worker start",
        WORKERS,
        "register_triton_kernel_overrides",
        may_change="registries of Triton kernels",
    ),
    HookTime(
        "worker start",
        WORKERS,
        "import_ir_kernels",
        least=0,
        most=None,
        when="from the kernel config",
        may_change="the registry of IR operators",
        note="an exception is fatal",
        ordered=False,
    ),
    HookTime(
        "worker start",
        WORKERS,
        "the worker class is imported",
        "step",
        note="`parallel_config.worker_cls`, set by `check_and_update_config`, which does not run here",
    ),
    HookTime(
        "device",
        WORKERS,
        "set_device",
        least=0,
        most=None,
        when="as the worker wants",
        may_change="the current device",
    ),
    *_reads(
        "device",
        WORKERS,
        "dist_backend use_custom_op_collectives is_cuda_alike is_xpu is_tpu is_out_of_tree",
        "asked for each process group",
    ),
    HookTime(
        "device",
        WORKERS,
        "get_device_communicator_cls",
        least=0,
        when="as the worker wants, once a group",
        most=None,
        note="some workers ask with a single device too, and some do not, so that a wrong name is not seen there",
    ),
    *_reads(
        "device",
        WORKERS,
        "device_type device_name uses_host_device_handling logical_device_id_to_visible_device_id "
        "get_device_capability check_if_supports_dtype get_device_total_memory get_current_memory_usage",
        "asked while the worker takes its device and measures it",
    ),
    HookTime("device", WORKERS, "manual_seed_all", least=0, most=None, may_change="random generators"),
    *_reads("model", WORKERS, "verify_model_arch", "may refuse a model"),
    *_reads(
        "model",
        WORKERS,
        "use_sync_weight_loader make_synced_weight_loader opaque_attention_op supported_dtypes use_all_gather",
        "asked for each weight or layer",
    ),
    HookTime(
        "model",
        WORKERS,
        "get_attn_backend_cls",
        least=0,
        most=None,
        when="once for each attention configuration; the answer is cached",
        note="an empty answer is an error; arguments come by keyword",
    ),
    HookTime(
        "model",
        WORKERS,
        "get_punica_wrapper",
        least=0,
        most=None,
        when="with LoRA",
        note="a wrong name is not seen without LoRA",
        ordered=False,
    ),
    HookTime(
        "model",
        WORKERS,
        "get_pass_manager_cls",
        least=0,
        most=None,
        when="with compilation",
        ordered=False,
    ),
    HookTime(
        "model",
        WORKERS,
        "get_static_graph_wrapper_cls",
        least=0,
        most=None,
        when="with static graphs",
        ordered=False,
    ),
    HookTime(
        "block size",
        WORKERS,
        "update_block_size_for_backend",
        may_change="`cache_config.block_size` and what is aligned to it",
        note="in each worker with worker processes, in the engine core with the in-process executor; the "
        "backends are known only now",
    ),
    HookTime(
        "cache",
        CORE,
        "register_custom_kv_cache_specs",
        least=0,
        may_change="the registry of KV-cache specs",
        note="an exception is fatal",
    ),
    *_reads(
        "cache", CORE, "get_kv_cache_config_builder_cls", "asked once the workers have told what they need"
    ),
    *_reads(
        "config construction again",
        CORE,
        "get_device_capability get_default_ir_op_priority support_static_graph_mode support_hybrid_kv_cache "
        "get_compile_backend",
        "asked around the hooks, as in the front end",
        layouts=("worker-processes",),
    ),
    HookTime(
        "config construction again",
        CORE,
        "apply_config_platform_defaults",
        may_change="defaults of the config that the user has not set",
        note=_REPEATED,
        layouts=("worker-processes",),
    ),
    HookTime(
        "config construction again",
        CORE,
        "check_and_update_config",
        may_change="the config; the environment",
        note=_REPEATED + "; an exception here can leave the front end waiting for ever",
        layouts=("worker-processes",),
    ),
    *_reads("request", FRONT, "get_max_output_tokens", "asked for each request", "once a request"),
    HookTime(
        "request",
        FRONT,
        "validate_request",
        least=0,
        most=None,
        when="once a request",
        note="refuse by raising ValueError; must not rely on what another process has seen",
    ),
    HookTime(
        "step",
        WORKERS,
        "set_additional_forward_context",
        least=0,
        most=None,
        when="once a step, also of the warm-up",
        may_change="the fields that it returns for the forward context",
        ordered=False,
    ),
    *_reads("step", WORKERS, "inference_mode", "the context of every forward pass", "once a step"),
)
"""The table, in the order of time."""


def rows(
    name: str | None = None, *, process: Process | None = None, layout: Layout = "worker-processes"
) -> tuple[HookTime, ...]:
    """Return lines of the table, in the order of time.

    Args:
        name: only those of this member or step.
        process: only those that happen in this process.
        layout: how the engine is spread over processes.
    """
    return tuple(
        row
        for row in TIMELINE
        if layout in row.layouts
        and (name is None or row.name == name)
        and (process is None or process in row.runs_in(layout))
    )


def processes_of(name: str, layout: Layout = "worker-processes") -> frozenset[Process]:
    """Return the processes in which the table has a member or step.

    For a query or attribute these are the places known from traces; an engine may read it elsewhere.
    """
    return frozenset(process for row in rows(name, layout=layout) for process in row.runs_in(layout))


def runs_on_updated_config(name: str) -> bool:
    """Say whether a hook is called again on a config that it has already changed."""
    return any(row.note.startswith(_REPEATED) for row in rows(name))


def promised_order(process: Process, layout: Layout = "worker-processes") -> tuple[str, ...]:
    """Return the names whose order in a process is promised; each once, at its first place."""
    return tuple(dict.fromkeys(row.name for row in rows(process=process, layout=layout) if row.ordered))


if __name__ == "__main__":
    import sys

    from platform_abc.timeline_page import markdown

    sys.stdout.write(markdown())
