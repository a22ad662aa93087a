"""What happens when a subclass of `Platform` is defined: mandatory members and overrides are checked."""

from __future__ import annotations

from platform_abc._required import explain, missing

MANDATORY = (
    "_enum",
    "device_name",
    "device_type",
    "check_and_update_config",
    "get_attn_backend_cls",
    "get_device_name",
)


def check_definition(cls: type, root: type, *, abstract: bool) -> None:
    """Check a platform class that was just defined."""
    left_open = [] if abstract else missing(cls, MANDATORY)
    if left_open:
        raise TypeError(explain(cls, left_open))
