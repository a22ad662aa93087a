"""Mutants of the config hooks that only an unusual config, parser or copy shows, and their right twins."""

from __future__ import annotations

import copy
import logging
from typing import Any

from tests.mutants.good import HERE, Good

_logger = logging.getLogger(__name__)
_NOTED: dict[str, Any] = {}
_SEEN: set[str] = set()


class SectionNeedsKey(Good):
    """Reads a key inside a section of the options without a test whether it is there."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Read it."""
        super().check_and_update_config(vllm_config)
        options = vllm_config.additional_config or {}
        if "chip_compile" in options and options["chip_compile"]["fast"]:
            vllm_config.scheduler_config.policy = "priority"


class SectionMayBeNone(Good):
    """Reads a section of the options that may lack its keys or be None."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Read it."""
        super().check_and_update_config(vllm_config)
        section = (vllm_config.additional_config or {}).get("chip_compile") or {}
        if section.get("fast"):
            vllm_config.scheduler_config.policy = "priority"


class LoopsOverOptions(Good):
    """Takes every option for a section of its own."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Loop over them."""
        super().check_and_update_config(vllm_config)
        for section in (vllm_config.additional_config or {}).values():
            if section["probe" if "probe" in section else "fast"] == "fast":
                vllm_config.scheduler_config.policy = "priority"


class RefusesSection(Good):
    """Refuses a section without its key, by name."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Refuse it."""
        super().check_and_update_config(vllm_config)
        options = vllm_config.additional_config or {}
        if "chip_compile" in options and "fast" not in (options["chip_compile"] or {}):
            raise ValueError("additional_config['chip_compile'] needs the key 'fast'")


class SeqsFixed(Good):
    """Puts its own number of sequences in the place of the user's."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it there."""
        super().check_and_update_config(vllm_config)
        vllm_config.scheduler_config.max_num_seqs = 128


class SeqsLimited(Good):
    """Lowers the number of sequences to what the chip has slots for."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Lower it."""
        super().check_and_update_config(vllm_config)
        scheduler = vllm_config.scheduler_config
        scheduler.max_num_seqs = min(scheduler.max_num_seqs, 96)


class GraphsOn(Good):
    """Turns graphs on that the user turned off."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Turn them on."""
        super().check_and_update_config(vllm_config)
        if vllm_config.model_config is not None:
            vllm_config.model_config.enforce_eager = False


class GraphsOff(Good):
    """Turns graphs off, which the chip does not have."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Turn them off."""
        super().check_and_update_config(vllm_config)
        if vllm_config.model_config is not None:
            vllm_config.model_config.enforce_eager = True


class BackendReplaced(Good):
    """Puts its own attention backend in the place of the one that the user chose."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put it there."""
        super().check_and_update_config(vllm_config)
        vllm_config.attention_config.backend = None


class SeedFixed(Good):
    """Replaces the seed in the defaults hook."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Replace it."""
        if vllm_config.model_config is not None:
            vllm_config.model_config.seed = 0


class OpsReplaced(Good):
    """Assigns a new list of ops, without those of the user."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Assign it."""
        vllm_config.compilation_config.custom_ops = ["all"]


class OpsExtended(Good):
    """Assigns a new list of ops, with those of the user."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Assign it."""
        ops = vllm_config.compilation_config.custom_ops
        vllm_config.compilation_config.custom_ops = [*(one for one in ops if one != "all"), "all"]


class OptionRequired(Good):
    """Adds an option to the command line that everybody has to give."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Add it."""
        if parser is not None:
            parser.add_argument("--chip-level", required=True)


class HelpBroken(Good):
    """Adds an option whose help text has a bare percent sign."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Add it."""
        if parser is not None:
            parser.add_argument("--chip-share", type=float, default=0.5, help="50% of the chip")


class OptionTaken(Good):
    """Adds an option that writes to the place of one of the engine's."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Add it."""
        if parser is not None:
            for action in list(parser._actions):
                if "--model" in action.option_strings:
                    action.type = lambda text: f"chip:{text}"


class OptionAdded(Good):
    """Adds an option of its own, and changes a default."""

    @classmethod
    def pre_register_and_update(cls, parser: Any = None) -> None:
        """Add it."""
        if parser is not None:
            parser.add_argument("--chip-share", type=float, default=0.5, help="50%% of the chip")
            parser.set_defaults(quantization="chip_w8")


class MarksConfig(Good):
    """Leaves a mark in the config and returns at once where it finds the mark."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Look for the mark."""
        options = vllm_config.additional_config
        if options and options.get("chip_done"):
            return
        if vllm_config.model_config is not None:
            super().check_and_update_config(vllm_config)
        if options is not None:
            options["chip_done"] = True
        elif vllm_config.model_config is None:
            super().check_and_update_config(vllm_config)


class WaitsForModel(Good):
    """Does its work once there is a model."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Wait for it."""
        if vllm_config.model_config is not None:
            super().check_and_update_config(vllm_config)


class WantsGraphs(Good):
    """Asks for a mode that the engine refuses when it completes the config."""

    @classmethod
    def apply_config_platform_defaults(cls, vllm_config: Any) -> None:
        """Refuse what the engine's own defaults have."""
        if vllm_config.cache_config.num_gpu_blocks_override == 64:
            raise RuntimeError("cache_config.num_gpu_blocks_override: the chip has no 64 blocks")


class _Uncopied(dict[str, Any]):
    """Options that pickle, and refuse a copy."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("these options cannot be copied")


class _Shared(dict[str, Any]):
    """Options whose copy is themselves."""

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class _Copied(dict[str, Any]):
    """Options with a copy of their own kind."""

    def __deepcopy__(self, memo: Any) -> Any:
        return _Copied({key: copy.deepcopy(value, memo) for key, value in self.items()})


def _with_options(vllm_config: Any, kind: type[dict[str, Any]]) -> None:
    options = vllm_config.additional_config
    if not isinstance(options, kind):
        vllm_config.additional_config = kind({**(options or {}), "chip_level": 3})


class RefusesCopy(Good):
    """Puts options into the config that cannot be copied."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put them there."""
        super().check_and_update_config(vllm_config)
        _with_options(vllm_config, _Uncopied)


class SharesCopy(Good):
    """Puts options into the config that every copy of it shares."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put them there."""
        super().check_and_update_config(vllm_config)
        _with_options(vllm_config, _Shared)


class OwnCopy(Good):
    """Puts options of a class of its own into the config, which copy whole."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Put them there."""
        super().check_and_update_config(vllm_config)
        _with_options(vllm_config, _Copied)


class ConfigInModule(Good):
    """Keeps the config in its module, where its worker looks for it."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Keep it."""
        super().check_and_update_config(vllm_config)
        _NOTED["config"] = vllm_config


class LogsOnce(Good):
    """Says something about the first config, and notes that it has."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Say it."""
        super().check_and_update_config(vllm_config)
        if "chip" not in _SEEN:
            _SEEN.add("chip")
            _logger.info("the chip runs %s", vllm_config.parallel_config.worker_cls)


class DerivedInModule(Good):
    """Keeps what it derives from the options in its module."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Keep it."""
        super().check_and_update_config(vllm_config)
        _NOTED["seqs"] = vllm_config.scheduler_config.max_num_seqs


class WorkerElsewhere(Good):
    """Names a worker that needs what the config hook left in this process."""

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Name it, and leave a note for it."""
        if vllm_config.parallel_config.worker_cls == "auto":
            vllm_config.parallel_config.worker_cls = f"{HERE}.NeedsNote"
        from tests.mutants import components

        components.NOTE["ready"] = True
