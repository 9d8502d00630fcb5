"""What builds the site and the gallery: hooks of MkDocs, docstrings as they are at run time, executed examples."""
