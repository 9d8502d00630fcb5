"""The GPU engine and its programs in CUDA C++."""
