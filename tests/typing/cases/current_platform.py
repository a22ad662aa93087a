"""A typo on `current_platform`, or in what is imported with it, is an error; every declared name is known."""

from __future__ import annotations

import platforms
from platforms import curent_platform  # E: mp
from platforms import current_platform
from typing_extensions import assert_type

import platform_abc
from platform_abc import DeviceCapability, Platform
from platform_abc import Platfrom  # E: mp

assert_type(current_platform, Platform)
assert_type(platforms.current_platform, Platform)

assert_type(current_platform.device_type, str)
assert_type(current_platform.is_cpu(), bool)
assert_type(current_platform.get_device_capability(), DeviceCapability | None)
assert_type(current_platform.has_runtime("mem_get_info"), bool)

# Names that torch answers, declared with their types.
assert_type(current_platform.device_count(), int)
assert_type(current_platform.mem_get_info(), tuple[int, int])
current_platform.synchronize()
with current_platform.stream(current_platform.Stream()):
    current_platform.empty_cache()

current_platform.is_cppu()  # E: mp
current_platform.synchronise()  # E: mp
current_platform.device_typ  # E: mp
current_platform.manual_seed(1)  # E: mp
current_platform.is_cpu  # no error: a method that was forgotten to be called has a type
current_platform.device_count().upper()  # E: mp
current_platform.get_device_capability().major  # E: mp
platforms.current_platfrom  # E: mp
platform_abc.Platfrom  # E: mp
