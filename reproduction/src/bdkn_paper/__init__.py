"""The paper's experiments, run with ``bdkn``: data sets, methods, records, and the pages written from them."""
