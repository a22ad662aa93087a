"""A component whose library is not on this machine."""

import chip_library_of_another_machine  # type: ignore[import-not-found]  # noqa: F401
