"""What is done, and what is done to it, by tests/stress/faults.py."""
