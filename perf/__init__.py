"""Benchmarks side by side with peers, on the GPU at hand: `python -m perf OPERATOR [--peers …]`.

A figure is only ever a ratio within one run. A benchmark refuses to print where the operator's correctness check fails in the same process.
"""
