"""Mutants of identity: names, kinds and keys."""

from __future__ import annotations

from typing import Any

from platform_abc.platform import Platform
from platform_abc.types import PlatformEnum
from tests.mutants.good import Good


class Unspecified(Good):
    """Left the placeholder in place."""

    _enum = PlatformEnum.UNSPECIFIED


class Forgetful(Platform, abstract=True):
    """Forgot `device_type`, behind the mark that lets a base leave things open."""

    _enum = PlatformEnum.OOT
    device_name = "chip"

    @classmethod
    def check_and_update_config(cls, vllm_config: Any) -> None:
        """Do nothing."""

    @classmethod
    def get_attn_backend_cls(
        cls, selected_backend: Any, attn_selector_config: Any, num_heads: int | None = None
    ) -> str:
        """Name a backend."""
        return "tests.mutants.components.Backend"

    @classmethod
    def get_device_name(cls, device_id: int = 0) -> str:
        """Return a name."""
        return "CHIP-9"


class NeedsArgument(Good):
    """Cannot be made without an argument."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id


class OpensDriver(Good):
    """Opens the driver when it is made."""

    def __init__(self) -> None:
        raise OSError("libchip.so: cannot open shared object file")


class MadeSimply(Good):
    """Has an `__init__` that does no work."""

    def __init__(self) -> None:
        super().__init__()


class EnumAsText(Good):
    """Writes the kind as text."""

    _enum = "OOT"  # type: ignore[assignment]


class PretendsCuda(Good):
    """Says CUDA although it is a vendor's own device."""

    _enum = PlatformEnum.CUDA


class NameIsProperty(Good):
    """Makes the name a property, which the class cannot answer."""

    @property
    def device_name(self) -> str:  # type: ignore[override]
        """Return the name."""
        return "chip"


class NameIsEmpty(Good):
    """Leaves the name empty."""

    device_name = ""


class TypeSetLate(Good):
    """Sets another device type on the instance."""

    def __init__(self) -> None:
        self.device_type = "meta"


class TypeUnknownToTorch(Good):
    """Uses a device type that torch does not know."""

    device_type = "chip9"


class HostInputs(Good):
    """Uses a device type that torch does not know, and says that inputs stay on the host."""

    device_type = "chip9"

    def uses_host_device_handling(self) -> bool:
        """Say yes."""
        return True


class TwoKinds(Good):
    """Says CPU and out of tree at once."""

    def is_cpu(self) -> bool:
        """Say yes."""
        return True


class PredicateNone(Good):
    """Answers a predicate with None."""

    def is_cuda_alike(self) -> bool:
        """Forget the return."""
        return None  # type: ignore[return-value]


class BackendNone(Good):
    """Writes None where there is no backend."""

    dist_backend = None  # type: ignore[assignment]


class BackendEmpty(Good):
    """Writes the empty string where there is no backend."""

    dist_backend = ""


class UnknownKey(Good):
    """Invents a dispatch key."""

    dispatch_key = "ChipKey"


class PrivateKey(Good):
    """Uses torch's key for devices of one's own."""

    dispatch_key = "PrivateUse1"


class ListIsText(Good):
    """Writes one method as a bare string."""

    supported_quantization = "fp8"  # type: ignore[assignment]


class VariableWithValue(Good):
    """Lists a variable with its value."""

    additional_env_vars = ["CHIP_FAST=1"]


class VariableListed(Good):
    """Lists a variable by its name."""

    additional_env_vars = ["CHIP_FAST"]


class VariableMalformed(Good):
    """Gives a variable a name that no environment can have."""

    device_control_env_var = "CHIP-VISIBLE DEVICES"


class PlaceholderVariable(Good):
    """Has devices of its own and no variable to select them."""

    device_type = "privateuseone"
    device_control_env_var = Platform.device_control_env_var


class OwnVariable(Good):
    """Has devices of its own and a variable to select them."""

    device_type = "privateuseone"


class TypeWithIndex(Good):
    """Gives a device where the bare type belongs."""

    device_type = "cpu:0"


class KindOnInstance(Good):
    """Has another kind on the instance than on the class."""

    def __init__(self) -> None:
        self._enum = PlatformEnum.CUDA


class BackendOnInstance(Good):
    """Has another backend on the instance than on the class."""

    def __init__(self) -> None:
        self.dist_backend = "chipccl"


class KindSwapped(Good):
    """Says another kind than `_enum`, and only that."""

    def is_cuda(self) -> bool:
        """Say yes."""
        return True

    def is_out_of_tree(self) -> bool:
        """Say no."""
        return False


class PredicateFlips(Good):
    """Changes its mind at each question."""

    _asked: list[int] = []

    def is_cuda_alike(self) -> bool:
        """Count."""
        self._asked.append(1)
        return len(self._asked) % 2 == 0
