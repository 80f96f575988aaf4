"""The commands of `python -m cute_kernels`, a module each. Each returns what it found as data and says how to print it."""
