"""Kernels in Triton's language, one module for each kind of work; `triton_launch` loads and starts them.

Their bodies are no Python that a checker could judge: arguments are pointers and block sizes, and what is
computed are blocks. Each kernel computes in float32 and rounds once, where it stores. Strides are in
elements. Names in capitals are known when a kernel is compiled.
"""
