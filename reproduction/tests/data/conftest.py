"""A toy data set with two sources, and a server of files on this machine."""

import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import source_files

from bdkn_paper.data import DATASETS, DatasetInfo, Fingerprint, Shuffled, Source
from bdkn_paper.data.fingerprint import statistics
from bdkn_paper.data.formats import read_text

TOY = np.random.default_rng(8).normal(size=(30, 3)) * [1.0, 1e4, 1e-3] / 3
TOY_FILES = {
    "/toy.zip": source_files.zipped("toy.csv", source_files.text(TOY, ",", "a,b,y\n")),
    "/copy.txt": source_files.text(TOY, digits=".18e"),
}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    """Keep the tests away from the user's folders."""
    monkeypatch.delenv("BDKN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)


@pytest.fixture
def toy_table():
    return TOY.copy()


@pytest.fixture
def files():
    """What the server has; tests take away and damage."""
    return dict(TOY_FILES)


@pytest.fixture
def server(files, monkeypatch):
    """Serve ``files`` on this machine; a value that is a number is a status."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer = files.get(self.path, 404)
            if isinstance(answer, int):
                self.send_error(answer)
                return
            promised = len(answer)
            if self.path + " cut" in files:
                answer = answer[: promised // 2]
            self.send_response(200)
            self.send_header("Content-Length", str(promised))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def toy(server, monkeypatch):
    """Register the toy."""
    known = Fingerprint(len(TOY), tuple(map(tuple, statistics(TOY).tolist())))
    info = DatasetInfo(
        name="toy",
        title="A toy",
        description="Numbers.",
        target="y",
        feature_names=("a", "b"),
        rows=30,
        split_rule=Shuffled(30, 3),
        licence="CC0",
        sources=(
            Source((f"{server}/toy.zip",), (partial(read_text, delimiter=",", skip=1),), (0, 1, 2), "toy.csv"),
            Source((f"{server}/copy.txt",), (read_text,), (0, 1, 2)),
        ),
        fingerprint=known,
    )
    monkeypatch.setitem(DATASETS, "toy", info)
    return info
