"""Programs for GPUs, written in CUDA C++, and the devices that run them."""
