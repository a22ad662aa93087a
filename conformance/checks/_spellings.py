"""Names that look like a member without being one: members of older engines, and misspelt ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

FORMER: Final[Mapping[str, tuple[str, str]]] = {
    "is_hpu": ("0.10.1", ""),
    "get_piecewise_backend_cls": ("0.10.1", "get_static_graph_wrapper_cls"),
    "is_neuron": ("0.10.2", ""),
    "is_async_output_supported": ("0.11.0", ""),
    "supports_v1": ("0.11.0", ""),
    "default_v1": ("0.11.0", ""),
    "get_cu_count": ("0.11.1", "num_compute_units"),
    "is_kv_cache_dtype_supported": ("0.11.1", ""),
    "seed_everything": ("0.16.0", "manual_seed_all"),
    "_find_non_ssm_backend": ("0.31.0", "_find_non_ssm_backends"),
    "get_lora_vocab_padding_size": ("0.32.0", ""),
    "_get_indexer_block_alignment": ("0.32.0", ""),
}
"""Names that the interface once had: the vLLM version without it, and what is there in its place."""

_WORDS: Final = frozenset(
    [
        "all",
        "any",
        "bus",
        "bytes",
        "cache",
        "class",
        "count",
        "core",
        "cores",
        "data",
        "default",
        "fp4",
        "fp8",
        "fp16",
        "free",
        "gpu",
        "id",
        "ids",
        "index",
        "info",
        "int4",
        "int8",
        "limit",
        "list",
        "mask",
        "memory",
        "model",
        "name",
        "names",
        "node",
        "nodes",
        "npu",
        "num",
        "number",
        "ok",
        "pair",
        "path",
        "size",
        "sizes",
        "state",
        "string",
        "total",
        "type",
        "types",
        "units",
        "uuid",
        "version",
        "versions",
        "worker",
        "workers",
    ]
)
"""Words of vendors' own helpers; a name that differs from a member's by one of them means something else."""

_TAILS: Final = ("_cls", "_class", "_classes", "_cls_name", "_class_name", "_qualname")
_DIGITS: Final = re.compile(r"\d+")


def meant(name: str, members: Iterable[str]) -> str:
    """Return the member that a name most likely means; empty if it means none."""
    known = set(members)
    bare = re.sub(r"^_[A-Za-z0-9]+__(?=\w)", "", name).strip("_")  # what Python makes of a private name
    for candidate in (bare, f"_{bare}"):
        if candidate != name and candidate in known:
            return candidate
    words = {word for member in known for word in member.strip("_").split("_")} | _WORDS
    for member in sorted(known):
        if _same_words(bare, member) or _one_slip(bare, member, words):
            return member
    return ""


def _same_words(name: str, member: str) -> bool:
    if name == member:
        return False
    return _stems(name) == _stems(member) or _plain_text(name) == _plain_text(member)


def _stems(name: str) -> list[str]:
    """The words of a name in order of the alphabet, each without its `s`, and without a tail such as `_cls`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    for tail in sorted(_TAILS, key=len, reverse=True):
        if name.endswith(tail):
            name = name.removesuffix(tail)
            break
    return sorted(word.removesuffix("s") for word in name.split("_") if word)


def _plain_text(name: str) -> str:
    return name.replace("_", "").lower()


def _one_slip(name: str, member: str, words: set[str]) -> bool:
    """Say whether one or two letters of one word are wrong, and the word is none that vendors use."""
    mine, theirs = name.split("_"), member.strip("_").split("_")
    if len(mine) != len(theirs) or len(name) < 6:
        return False
    differing = [(a, b) for a, b in zip(mine, theirs, strict=True) if a != b]
    if len(differing) != 1:
        return False
    wrong, right = differing[0]
    if wrong in words or len(right) < 4 or _DIGITS.sub("", wrong) == _DIGITS.sub("", right):
        return False
    return _distance(wrong, right) <= (1 if len(right) < 6 else 2)


def _distance(one: str, other: str) -> int:
    """How many letters have to be put in, taken out, replaced or swapped with the next."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        new = [i]
        for j, b in enumerate(other, 1):
            cost = min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            new.append(cost)
        before, row = row, new
    return row[-1]


_MOST_FILES: Final = 400


def used_in(folder: Path, name: str) -> bool:
    """Say whether Python files below a folder read a name as an attribute, or spell it as text.

    Args:
        folder: the vendor's package; where it is very large, only a part is read.
        name: of a class's member; its definition does not count.
    """
    pattern = re.compile(rf"""\.{re.escape(name)}\b|(?<=["']){re.escape(name)}(?=["'])""")
    for number, path in enumerate(sorted(folder.rglob("*.py"))):
        if number >= _MOST_FILES:
            break
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if name in text and pattern.search(text):
            return True
    return False
