"""What platform-abc costs, beside vLLM in the same environment: `python -m benchmarks`."""
