"""Facts about kernel overrides and IR ops."""

from __future__ import annotations

import pytest

from platform_abc.components.kernels import IrOpRegistry, KernelRegistry


def double(x: int) -> int:
    return 2 * x


def triple(x: int) -> int:
    return 3 * x


def registry() -> KernelRegistry:
    made = KernelRegistry()
    made.core("scale")(double)
    return made


def test_an_override_replaces_its_core_kernel_only() -> None:
    """The engine asks by name and gets the override, if there is one."""
    kernels = registry()
    kernels.core("other")(triple)
    assert kernels.get("scale")(2) == 4
    kernels.override("scale", triple)
    assert kernels.get("scale")(2) == 6
    assert kernels.core_of("scale") is double
    assert kernels.overridden() == ("scale",)
    assert kernels.names() == ("other", "scale")
    kernels.clear_overrides()
    assert kernels.get("scale") is double


def test_an_override_may_be_registered_again_but_not_contested() -> None:
    """The hook may run twice; two overrides of one kernel are an error that names the first."""
    kernels = registry()
    kernels.override("scale", triple)
    kernels.override("scale", triple)
    with pytest.raises(ValueError, match="already overridden by .*triple"):
        kernels.override("scale", double)


def test_an_override_of_nothing_is_refused_with_what_there_is() -> None:
    """A typo in a kernel's name, or something that cannot be called, does not pass silently."""
    with pytest.raises(ValueError, match=r"no core kernel 'scal' \(there are: scale\)"):
        registry().override("scal", triple)
    with pytest.raises(ValueError, match="cannot be called"):
        registry().override("scale", 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="already"):
        registry().core("scale")(triple)
    with pytest.raises(KeyError):
        registry().get("none")


def test_the_first_implementation_in_order_that_fits_runs() -> None:
    """Priority first, then what supports the arguments, and native at the end."""
    ops = IrOpRegistry()
    op = ops.op("scale")(double)
    op.register_impl("vendor", supports=lambda x: x > 10)(triple)
    assert op(20) == 40
    ops.set_priorities({"scale": ["vendor"], "unknown-op": ["x"]})
    assert op(20) == 60
    assert op(2) == 4
    with op.with_priority([]):
        assert op(20) == 40
    assert op.choose(20).provider == "vendor"


def test_a_priority_names_implementations_that_exist() -> None:
    """A provider without an implementation is refused with the list of those there are."""
    ops = IrOpRegistry()
    op = ops.op("scale")(double)
    with pytest.raises(ValueError, match=r"no implementation 'vendor' \(there are: native\)"):
        ops.set_priorities({"scale": ["vendor", "native"]})
    assert op.priority == ()
    with pytest.raises(ValueError, match="engine's own"):
        op.register_impl("native")(triple)
    op.register_impl("vendor")(triple)
    op.register_impl("vendor")(triple)
    with pytest.raises(ValueError, match="already has"):
        op.register_impl("vendor")(double)
    with pytest.raises(ValueError, match="already"):
        ops.op("scale")(triple)
