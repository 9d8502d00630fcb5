"""Parts of hostile_files.py: hostile values, trials in child processes, and what they found."""
