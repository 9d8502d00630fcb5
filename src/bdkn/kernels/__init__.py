"""Compiled inner loops: dense products, trees, conjugate posteriors and Student-t mixtures."""
