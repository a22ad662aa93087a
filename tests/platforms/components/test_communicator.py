"""Facts of `platforms.components.communicator`: two gloo processes, and a group of one."""

from __future__ import annotations

import multiprocessing as mp
import queue
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._C._distributed_c10d import FileStore, PrefixStore

from platforms.components.communicator import TorchDistributedCommunicator
from platforms.cpu import CpuPlatform

TIMEOUT = timedelta(seconds=60)


def communicator(path: str, rank: int, size: int) -> TorchDistributedCommunicator:
    group = CpuPlatform.stateless_init_device_torch_dist_pg(
        backend="gloo",
        prefix_store=PrefixStore("test", FileStore(path, size)),
        group_rank=rank,
        group_size=size,
        timeout=TIMEOUT,
    )
    return TorchDistributedCommunicator(group, torch.device("cpu"), unique_name="test")


def _run(body: Callable[..., Any], path: str, rank: int, answers: Any) -> None:
    torch.set_num_threads(1)
    try:
        answers.put((rank, body(communicator(path, rank, 2)), ""))
    except BaseException:
        answers.put((rank, None, traceback.format_exc()))


def on_two_ranks(body: Callable[..., Any], tmp_path: Path) -> list[Any]:
    """Run `body(communicator)` in two processes; return the answers by rank."""
    context = mp.get_context("spawn")
    answers = context.Queue()
    ranks = [
        context.Process(target=_run, args=(body, str(tmp_path / "store"), rank, answers)) for rank in range(2)
    ]
    for process in ranks:
        process.start()
    found: dict[int, Any] = {}
    try:
        for _ in ranks:
            rank, value, error = answers.get(timeout=120)
            assert not error, error
            found[rank] = value
    except queue.Empty:
        pytest.fail("a rank did not answer within 120 s")
    finally:
        for process in ranks:
            process.join(20)
            if process.is_alive():
                process.kill()
    return [found[0], found[1]]


def _every_collective(comm: TorchDistributedCommunicator) -> dict[str, Any]:
    rank = comm.rank_in_group
    base = torch.arange(8, dtype=torch.float32).reshape(2, 4)
    mine = base + 100 * rank
    kept = mine.clone()
    answers: dict[str, Any] = {
        "sum": comm.all_reduce(mine).tolist(),
        "sum of a view": comm.all_reduce(mine.t()).tolist(),
        "rows": comm.all_gather(mine, dim=0).tolist(),
        "columns": comm.all_gather(mine, dim=-1).tolist(),
        "share of columns": comm.reduce_scatter(mine, dim=1).tolist(),
        "share of rows": comm.reduce_scatter(mine, dim=-2).tolist(),
        "bfloat16": comm.all_reduce(mine.bfloat16()).float().tolist(),
        "unchanged": torch.equal(mine, kept),
    }
    gathered = comm.gather(mine, dst=1, dim=0)
    answers["gathered"] = None if gathered is None else gathered.tolist()
    answers["from 1"] = comm.broadcast(mine.clone(), src=1).tolist()
    view = mine.clone().t()
    answers["view from 0"] = comm.broadcast(view, src=0).tolist()
    if rank == 0:
        comm.send(mine)
        answers["received"] = comm.recv((4,), torch.int64).tolist()
    else:
        answers["received"] = comm.recv((2, 4), torch.float32).tolist()
        comm.send(torch.arange(4), dst=0)
    comm.barrier()
    return answers


def test_every_collective_moves_what_it_says(two_ranks: dict[str, list[Any]]) -> None:
    """Sums, joins, shares, one-to-all and one-to-one on two ranks, of views and of bfloat16 too."""
    base = torch.arange(8, dtype=torch.float32).reshape(2, 4)
    both = [base, base + 100]
    total = both[0] + both[1]
    answers = two_ranks["collectives"]
    for rank, got in enumerate(answers):
        assert got["sum"] == total.tolist()
        assert got["sum of a view"] == total.t().tolist()
        assert got["rows"] == torch.cat(both, 0).tolist()
        assert got["columns"] == torch.cat(both, 1).tolist()
        assert got["share of columns"] == total.chunk(2, 1)[rank].tolist()
        assert got["share of rows"] == total.chunk(2, 0)[rank].tolist()
        assert got["bfloat16"] == total.tolist()
        assert got["unchanged"] is True
        assert got["from 1"] == both[1].tolist()
        assert got["view from 0"] == both[0].t().tolist()
    assert answers[0]["gathered"] is None
    assert answers[1]["gathered"] == torch.cat(both, 0).tolist()
    assert answers[0]["received"] == [0, 1, 2, 3]
    assert answers[1]["received"] == both[0].tolist()


@pytest.fixture
def alone(tmp_path: Path) -> TorchDistributedCommunicator:
    return communicator(str(tmp_path / "store"), 0, 1)


def test_a_group_of_one_moves_nothing(alone: TorchDistributedCommunicator) -> None:
    """Each collective of a single rank gives the tensor itself."""
    tensor = torch.arange(6.0).reshape(2, 3)
    assert alone.all_reduce(tensor) is tensor
    assert alone.all_gather(tensor) is tensor
    assert alone.reduce_scatter(tensor) is tensor
    assert alone.gather(tensor) is tensor
    assert alone.broadcast(tensor) is tensor
    alone.barrier()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c, t: c.all_gather(t, dim=2), "got 2"),
        (lambda c, t: c.gather(t, dst=1), "rank from 0 to 0"),
        (lambda c, t: c.broadcast(t, src=-1), "got -1"),
        (lambda c, t: c.send(t), "with itself"),
        (lambda c, t: c.recv((1,), torch.float32, src=3), "got 3"),
        (lambda c, t: c.all_gather(t.sum()), "got -1"),
    ],
)
def test_wrong_ranks_and_dimensions_are_named(
    alone: TorchDistributedCommunicator, call: Callable[..., Any], message: str
) -> None:
    """A rank or dimension that does not exist is a ValueError with its number, before anything moves."""
    with pytest.raises(ValueError, match=message):
        call(alone, torch.zeros(2, 2))


def _odd(comm: TorchDistributedCommunicator) -> dict[str, Any]:
    """Tensors without elements, without dimensions, and that lie in memory in other ways."""
    rank = comm.rank_in_group
    wide = torch.arange(24.0).reshape(2, 3, 4) * (1 + rank)
    turned = torch.complex(torch.ones(2), torch.ones(2) * (1 + rank)).conj()
    empty = torch.empty(0, 4)
    received = torch.empty(0)
    if rank == 0:
        comm.send(empty)
        comm.send(wide[:, ::2].transpose(0, 2))
    else:
        empty = comm.recv((0, 4), torch.float32)
        received = comm.recv((4, 2, 2), torch.float32)
    scalar = torch.tensor(5.0 + rank)
    target = torch.zeros(3, 2).t()
    source = torch.arange(6.0).reshape(2, 3)
    comm.broadcast(target.copy_(source) if rank == 1 else target, src=1)
    return {
        "nothing summed": tuple(comm.all_reduce(empty).shape),
        "nothing joined": tuple(comm.all_gather(empty, 1).shape),
        "nothing shared": tuple(comm.reduce_scatter(empty, 1).shape),
        "nothing sent": tuple(empty.shape),
        "broadcast nothing": tuple(comm.broadcast(empty).shape),
        "scalar": float(comm.all_reduce(scalar)),
        "scalar from 1": float(comm.broadcast(scalar, src=1)),
        "steps": comm.all_reduce(wide[:, ::2]).tolist(),
        "expanded": comm.all_gather(wide[0, 0, 1].expand(2, 2), 0).tolist(),
        "middle": comm.all_gather(wide.transpose(0, 2), 1).tolist(),
        "share of a view": comm.reduce_scatter(wide.transpose(0, 2), 0).tolist(),
        "conjugate": comm.all_reduce(turned).imag.tolist(),
        "conjugates": comm.all_gather(turned, 0).imag.tolist(),
        "with a gradient": comm.all_reduce(torch.ones(2, requires_grad=True)).requires_grad,
        "half of a complex": comm.all_reduce(turned.to(torch.complex32)).to(torch.complex64).imag.tolist(),
        "received": received.tolist(),
        "into a view": target.tolist(),
    }


def _uneven(comm: TorchDistributedCommunicator) -> str:
    try:
        comm.reduce_scatter(torch.zeros(3))
    except ValueError as error:
        return str(error)
    return ""


def test_an_uneven_share_is_refused(two_ranks: dict[str, list[Any]]) -> None:
    """A dimension that the ranks cannot share evenly is a ValueError on each of them."""
    assert all("multiple of the 2 ranks" in text for text in two_ranks["uneven"])


def test_tensors_of_any_form_move(two_ranks: dict[str, list[Any]]) -> None:
    """Empty ones, scalars, slices, expanded and transposed ones, conjugates that torch only notes."""
    wide = torch.arange(24.0).reshape(2, 3, 4)
    for rank, got in enumerate(two_ranks["odd"]):
        assert got["nothing summed"] == got["nothing sent"] == got["broadcast nothing"] == (0, 4)
        assert got["nothing joined"] == (0, 8)
        assert got["nothing shared"] == (0, 2)
        assert (got["scalar"], got["scalar from 1"]) == (11, 6)
        assert got["steps"] == (3 * wide[:, ::2]).tolist()
        assert got["expanded"] == [[1, 1], [1, 1], [2, 2], [2, 2]]
        turned = wide.transpose(0, 2)
        assert got["middle"] == torch.cat((turned, 2 * turned), 1).tolist()
        assert got["share of a view"] == (3 * turned).chunk(2)[rank].tolist()
        assert got["conjugate"] == got["half of a complex"] == [-3, -3]
        assert got["conjugates"] == [-1, -1, -2, -2]
        assert got["with a gradient"] is False
        assert got["into a view"] == [[0, 1, 2], [3, 4, 5]]
    assert two_ranks["odd"][1]["received"] == wide[:, ::2].transpose(0, 2).tolist()


def test_the_process_group_refuses_another_backend(tmp_path: Path) -> None:
    """Asked for nccl, the CPU platform says that it has gloo."""
    with pytest.raises(ValueError, match="'gloo' on cpu, got 'nccl'"):
        CpuPlatform.stateless_init_device_torch_dist_pg(
            "nccl", PrefixStore("x", FileStore(str(tmp_path / "s"), 1)), 0, 1, TIMEOUT
        )


MOVED = (
    torch.bool,
    torch.uint8,
    torch.int16,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.float8_e4m3fn,
    torch.complex64,
    torch.uint16,
    torch.float8_e5m2,
)


def _each_dtype(comm: TorchDistributedCommunicator) -> list[str]:
    """Return what went wrong, by dtype."""
    wrong = []
    both = [torch.arange(6).reshape(2, 3) + rank for rank in range(2)]
    for dtype in MOVED:
        parts = [part.float().to(dtype) for part in both]
        total = (both[0] + both[1]).float().to(dtype)
        mine, other = parts[comm.rank_in_group], parts[1 - comm.rank_in_group]
        kept = mine.clone()
        if comm.rank_in_group == 0:
            comm.send(mine)
            received = comm.recv((2, 3), dtype)
        else:
            received = comm.recv((2, 3), dtype)
            comm.send(mine)
        answers = {
            "sum": (comm.all_reduce(mine), total),
            "share": (comm.reduce_scatter(mine, 0), total.chunk(2)[comm.rank_in_group]),
            "joined": (comm.all_gather(mine.t(), 0), torch.cat([part.t() for part in parts])),
            "broadcast": (comm.broadcast(mine.clone(), 1), parts[1]),
            "received": (received, other),
            "kept": (mine, kept),
        }
        for name, (got, expected) in answers.items():
            same = got.dtype is dtype and got.shape == expected.shape
            # By bytes: a boolean that holds 2 compares as true.
            if (
                not same
                or got.contiguous().view(torch.uint8).tolist()
                != expected.contiguous().view(torch.uint8).tolist()
            ):
                wrong.append(f"{dtype} {name}: {got}")
    return wrong


def test_every_dtype_moves_and_adds_up(two_ranks: dict[str, list[Any]]) -> None:
    """Also those that gloo itself refuses; the sum of booleans is a boolean."""
    assert two_ranks["dtypes"] == [[], []]


def _all(comm: TorchDistributedCommunicator) -> dict[str, Any]:
    return {
        "collectives": _every_collective(comm),
        "odd": _odd(comm),
        "uneven": _uneven(comm),
        "dtypes": _each_dtype(comm),
    }


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Return the answers of both ranks, by what they were asked; two processes serve all tests."""
    by_rank = on_two_ranks(_all, tmp_path_factory.mktemp("ranks"))
    return {name: [answers[name] for answers in by_rank] for name in by_rank[0]}
