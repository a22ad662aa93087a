"""Lists the generated mutants of vLLM's base."""

from __future__ import annotations

from tests.vllm.generated import names

print("\n".join(names()))
