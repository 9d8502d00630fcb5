"""The pages docs/reproduction.md and docs/results.md, written from records."""
