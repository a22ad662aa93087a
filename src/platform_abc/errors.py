"""The errors and warnings of the contract, each with one meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from platform_abc.resolution_report import ResolutionReport

CONTRACT_VERSION: Final = "1.0"
"""The version of the contract, apart from the version of the package.

A minor version adds hooks with defaults; a major version may change a hook.
"""


class NotSupported(NotImplementedError):
    """The one spelling of "this platform does not do that".

    It stays a `NotImplementedError`, which engines already catch.

    Args:
        member: the hook that was called, for example `"get_punica_wrapper"`.
        platform: the platform's class name or device name.
        remedy: what would make it work, as a phrase that follows "to make it work, …".
    """

    def __init__(self, member: str, platform: str, remedy: str) -> None:
        self.member = member
        self.platform = platform
        self.remedy = remedy
        super().__init__(member, platform, remedy)

    def __str__(self) -> str:
        return f"{self.platform} does not support {self.member}; to make it work, {self.remedy}"


class MissingDependency(NotSupported):
    """Supported, but the package that supplies it is not installed here.

    A test kit lists what raises this as skipped: the environment lacks something, not the platform.

    Args:
        member: the hook that was called.
        platform: the platform's class name or device name.
        distribution: what to install, as named on the package index.
    """

    def __init__(self, member: str, platform: str, distribution: str) -> None:
        self.distribution = distribution
        super().__init__(member, platform, f"install it: pip install {distribution}")

    def __str__(self) -> str:
        return f"{self.platform} cannot answer {self.member} without {self.distribution}; {self.remedy}"

    def __reduce__(self) -> tuple[type[MissingDependency], tuple[str, str, str]]:
        return type(self), (self.member, self.platform, self.distribution)


class DeviceUnavailable(NotSupported):
    """Supported, but this machine has no such device (or its driver does not answer).

    A test kit lists what raises this as skipped.
    """

    def __str__(self) -> str:
        return f"{self.platform} finds no device to answer {self.member}; to make it work, {self.remedy}"


class ResolutionError(RuntimeError):
    """No platform could be resolved, and why.

    Never an `AttributeError` or `ImportError`: Python would turn those into a misleading
    "cannot import name" at the place where `current_platform` is imported.
    """

    report: ResolutionReport | None = None
    """What the resolution did until it failed; `None` if it never started."""


class QualnameError(ImportError):
    """A dotted name cannot be resolved; the subclasses say at which step."""


class MalformedQualname(QualnameError):
    """The text is not a dotted name of the form `package.module.Name`."""


class MissingModule(QualnameError):
    """The module that the name points into does not exist."""


class MissingName(QualnameError):
    """The module exists and imports, but has no such name."""


class FailingImport(QualnameError):
    """The module exists, but importing it raises; the cause is chained."""


class ConfigError(ValueError):
    """A configuration is invalid: which field, its value, what was expected, who wrote it."""


class ContractWarning(UserWarning):
    """A subclass of `Platform` breaks the contract where it is defined."""
