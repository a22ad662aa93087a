"""Facts about the start of a worker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from platform_abc import device_ids
from platform_abc.config import EngineConfig
from platform_abc.errors import ConfigError
from reference_engine.args import EngineArgs
from reference_engine.engine_config import create_engine_config
from reference_engine.worker_start import install_ir_ops, load_plugins, resolve_worker_cls, start_worker

Use = Callable[..., Any]


@pytest.fixture(autouse=True)
def _kernels_again() -> Iterator[None]:
    sys.modules.pop("reference_model.custom_ops", None)
    yield
    device_ids.assign_physical_devices(None)


def test_kernels_and_overrides_come_before_the_device_and_the_model(use_platform: Use) -> None:
    """Compiled kernels, then overrides, IR kernels, device, seed, backend, block size."""
    seen: list[str] = []
    from platforms.cpu import CpuPlatform

    def note(name: str) -> Callable[..., Any]:
        def hook(_cls: type, *args: Any, **kwargs: Any) -> Any:
            seen.append(name)
            return getattr(CpuPlatform, name)(*args, **kwargs)

        return hook

    names = (
        "import_kernels",
        "register_triton_kernel_overrides",
        "import_ir_kernels",
        "set_device",
        "manual_seed_all",
        "get_attn_backend_cls",
        "update_block_size_for_backend",
    )
    use_platform(**{name: note(name) for name in names})
    config = create_engine_config(EngineArgs(dtype="float32"))
    worker = start_worker(config)
    worker.shutdown()
    assert tuple(dict.fromkeys(seen)) == names


def test_assigned_devices_are_known_before_the_device_is_chosen(use_platform: Use) -> None:
    """What the config assigns is this process's assignment."""
    at_start: list[object] = []
    use_platform(import_kernels=lambda _cls: at_start.append(device_ids.assigned_physical_devices()))
    config = create_engine_config(EngineArgs(dtype="float32"))
    config.parallel_config.assigned_physical_gpu_ids = [0]
    start_worker(config).shutdown()
    assert at_start == [(0,)]


@pytest.mark.parametrize(
    ("name", "text"),
    [("auto", "worker_cls = 'auto'"), ("collections.OrderedDict", "expected a class that derives")],
)
def test_a_name_that_is_no_worker_is_refused(name: str, text: str) -> None:
    """Open, or another class."""
    config = EngineConfig()
    config.parallel_config.worker_cls = name
    with pytest.raises(ConfigError, match=text):
        resolve_worker_cls(config)


def test_a_block_size_that_a_backend_refuses_names_the_hook(use_platform: Use) -> None:
    """A platform's own hook may reset the size to one that its backend cannot do."""

    def resets(_cls: type, config: EngineConfig) -> None:
        config.cache_config.block_size = 24

    use_platform(
        update_block_size_for_backend=resets,
        get_attn_backend_cls=lambda _cls, *_a, **_k: "tests.reference_engine.components.Sixteens",
    )
    with pytest.raises(ValueError, match="24 tokens, from the platform.*SIXTEENS") as caught:
        start_worker(create_engine_config(EngineArgs(dtype="float32")))
    assert caught.value.__notes__ == ["raised in hook update_block_size_for_backend of ChangedPlatform"]


def test_an_order_of_implementations_that_nobody_registered_is_refused(use_platform: Use) -> None:
    """A priority for an op of this engine must name what the platform has imported."""
    use_platform()
    config = EngineConfig()
    config.kernel_config.ir_op_priority.rms_norm = ["no-such"]
    with pytest.raises(ValueError, match="'rms_norm' has no implementation 'no-such'"):
        install_ir_ops(config)
    config.kernel_config.ir_op_priority.rms_norm = ["native"]
    install_ir_ops(config)


def test_a_failing_override_hook_is_named(use_platform: Use) -> None:
    """The exception keeps its type."""

    def fails(_cls: type) -> None:
        raise OSError("seeded")

    use_platform(register_triton_kernel_overrides=fails)
    with pytest.raises(OSError, match="seeded") as caught:
        start_worker(create_engine_config(EngineArgs(dtype="float32")))
    assert caught.value.__notes__ == ["raised in hook register_triton_kernel_overrides of ChangedPlatform"]


def test_every_process_lets_the_platform_speak_its_warnings(use_platform: Use) -> None:
    """Right after the plugins."""
    spoken: list[int] = []
    use_platform(log_warnings=lambda _cls: spoken.append(1))
    load_plugins()
    assert spoken == [1]
