"""The engine for GPUs: training and prediction by programs in CUDA C++."""
