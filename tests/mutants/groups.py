"""Mutants of the process groups that a platform makes."""

from __future__ import annotations

from typing import Any

from tests.mutants.good import Good


class GroupNone(Good):
    """Makes a process group and forgets to return it."""

    @classmethod
    def stateless_init_device_torch_dist_pg(
        cls, backend: str, prefix_store: Any, group_rank: int, group_size: int, timeout: Any
    ) -> Any:
        """Forget the return."""
        GroupOwn.stateless_init_device_torch_dist_pg(backend, prefix_store, group_rank, group_size, timeout)


class GroupDefault(Good):
    """Sets up torch's default group instead of a group apart."""

    @classmethod
    def stateless_init_device_torch_dist_pg(
        cls, backend: str, prefix_store: Any, group_rank: int, group_size: int, timeout: Any
    ) -> Any:
        """Set it up and return it."""
        from torch import distributed

        distributed.init_process_group(
            backend, store=prefix_store, rank=group_rank, world_size=group_size, timeout=timeout
        )
        return distributed.group.WORLD


class GroupOwn(Good):
    """Makes a process group of its own."""

    @classmethod
    def stateless_init_device_torch_dist_pg(
        cls, backend: str, prefix_store: Any, group_rank: int, group_size: int, timeout: Any
    ) -> Any:
        """Return one that torch's global state does not know."""
        from platforms.process_group import make_group

        return make_group("chip", backend, prefix_store, group_rank, group_size, timeout)
