"""Write `docs/members.md`, the list of all members of the contract, from the contract itself.

    python docs/members.py [--check]

With `--check` nothing is written; it ends with 1 if the page is not what would be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from platform_abc.errors import CONTRACT_VERSION
from platform_abc.members import MEMBERS

PAGE = Path(__file__).with_name("members.md")
DEFAULTS = {
    "none": "**mandatory**",
    "value": "a value",
    "answer": "an answer",
    "not-supported": "`NotSupported`",
}


def page() -> str:
    """Return the text of the page."""
    lines = [
        "# Members of the contract",
        "",
        f"Contract {CONTRACT_VERSION}, {len(MEMBERS)} members. Written by `python docs/members.py` from the contract; do not",
        "edit. The last column says what a platform gets that does not define the member.",
        "",
    ]
    for group in dict.fromkeys(member.group for member in MEMBERS.values()):
        lines += [
            f"## {group}",
            "",
            "| member | kind | what it is | without it |",
            "| --- | --- | --- | --- |",
        ]
        for member in MEMBERS.values():
            if member.group == group:
                since = "" if member.version == 1 else f" (V{member.version})"
                what = member.summary.replace("|", "\\|")
                lines.append(
                    f"| `{member.name}`{since} | {member.kind} | {what} | {DEFAULTS[member.default]} |"
                )
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Write the page, or compare."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
