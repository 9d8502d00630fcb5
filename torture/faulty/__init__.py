"""What is done, and what is done to it, by torture/faults.py."""
