"""Model files: arrays and JSON in one file, without pickle."""
