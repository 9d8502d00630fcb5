"""Tables of results as text, Markdown, LaTeX and CSV."""
