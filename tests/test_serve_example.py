"""The HTTP example: answers, errors, slow clients, a model that is replaced, and its end."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bdkn
from bdkn import BDKNRegressor, DeepEnsembleRegressor

SCRIPT = Path(__file__).parent.parent / "examples" / "serve.py"
SMALL = {"n_members": 2, "epochs": 5, "n_jobs": 1}


@pytest.fixture(scope="module")
def serve() -> Iterator[Any]:
    """Return the example as a module."""
    spec = importlib.util.spec_from_file_location("serve_example", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["serve_example"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["serve_example"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the files of two models of arrays, one of a frame, and one without support."""
    folder, rng = tmp_path_factory.mktemp("models"), np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=60)
    frame = pd.DataFrame({"size": X[:, 0], "kind": np.where(X[:, 1] > 0, "a", "b")})
    made = {
        "one": BDKNRegressor(**SMALL, density="student-t", random_state=0).fit(X, y),
        "two": BDKNRegressor(**SMALL, density="student-t", random_state=1).fit(X, 100 + y),
        "frame": BDKNRegressor(**SMALL, density="student-t", random_state=0).fit(frame, y),
        "ensemble": DeepEnsembleRegressor(**SMALL, random_state=0).fit(X, y),
    }
    for name, model in made.items():
        model.save(folder / f"{name}.bdkn")
    return {name: folder / f"{name}.bdkn" for name in made}


class Running:
    """A server on a thread of this process."""

    def __init__(self, serve: Any, path: Path) -> None:
        self.server = serve.Server(("127.0.0.1", 0), path)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=20)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, headers)
            reply = connection.getresponse()
            return reply.status, json.load(reply)
        finally:
            connection.close()

    def end(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.end()


@pytest.fixture
def start(serve: Any, models: dict[str, Path], tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    running: list[Running] = []

    def begin(name: str) -> Running:
        path = tmp_path / "model.bdkn"
        path.write_bytes(models[name].read_bytes())
        running.append(Running(serve, path))
        return running[-1]

    yield begin
    for one in running:
        one.end()


def test_answers_are_predictions_of_the_model(start: Callable[[str], Running], models: dict[str, Path]) -> None:
    running, model = start("one"), bdkn.load(models["one"])
    rows = [[0.1, 0.2], [50.0, 0.0]]
    status, answer = running.ask("POST", "/predict", {"rows": rows, "coverage": 0.5})
    assert status == 200
    assert answer["mean"] == model.predict(rows).tolist()
    assert [answer["low"], answer["high"]] == model.predict_interval(rows, 0.5).T.tolist()
    assert answer["support"] == ["inside", "outside"]
    status, health = running.ask("GET", "/health")
    assert (status, health["status"], health["model"]) == (200, "ok", answer["model"])
    assert health["counts"] == {"200": 1}


@pytest.mark.filterwarnings("ignore::bdkn.errors.ColumnsWarning")
def test_rows_have_the_names_of_the_columns(start: Callable[[str], Running], models: dict[str, Path]) -> None:
    running, model = start("frame"), bdkn.load(models["frame"])
    rows = [{"kind": "a", "size": 0.3}, {"kind": None, "size": -0.3}]
    status, answer = running.ask("POST", "/predict", {"rows": rows})
    assert (status, answer["mean"]) == (200, model.predict(pd.DataFrame(rows)[["size", "kind"]]).tolist())
    assert running.ask("POST", "/predict", {"rows": [[0.3, "a"]]})[1]["mean"] == answer["mean"][:1]
    status, answer = running.ask("POST", "/predict", {"rows": [{"kind": "a", "sise": 0.3}]})
    assert (status, answer["error"]) == (400, "rows must have the columns size, kind; row 0: sise, size?")


def test_a_model_without_support_is_served(start: Callable[[str], Running]) -> None:
    status, answer = start("ensemble").ask("POST", "/predict", {"rows": [[0.1, 0.2]]})
    assert (status, answer["support"]) == (200, None)


BAD: list[tuple[str, str, Any, int, str]] = [
    ("POST", "/predict", b"{", 400, "the body is not JSON"),
    ("POST", "/predict", b"\xff", 400, "the body is not JSON"),
    ("POST", "/predict", b"[" * 100_000, 400, "the body is not JSON"),
    ("POST", "/predict", b'{"rows": [[NaN, 1.0]]}', 400, "NaN is not JSON"),
    ("POST", "/predict", {"rows": [[1e999, 1.0]]}, 400, "is not JSON"),
    ("POST", "/predict", b'{"rows": [[1e999, 1.0]]}', 400, "infinity"),
    ("POST", "/predict", {"rows": [[10**400, 1.0]]}, 400, "int"),
    ("POST", "/predict", {"rows": [[None, 1.0]]}, 400, "values must be numbers"),
    ("POST", "/predict", {"rows": [["a", 1.0]]}, 400, "values must be numbers"),
    ("POST", "/predict", {"rows": [[[1.0], 1.0]]}, 400, "values must be numbers"),
    ("POST", "/predict", {"rows": [[1.0]]}, 400, "rows must have 2 values; row 0 has 1"),
    ("POST", "/predict", {"rows": [[1.0, 2.0], {"a": 1}]}, 400, "all lists or all objects; row 1"),
    ("POST", "/predict", {"rows": [{"a": 1.0, "b": 2.0}]}, 400, "have no names"),
    ("POST", "/predict", {"rows": []}, 400, "send an object such as"),
    ("POST", "/predict", [[1.0, 2.0]], 400, "send an object such as"),
    ("POST", "/predict", {"rows": [[1.0, 2.0]], "level": 0.9}, 400, "got level, too"),
    ("POST", "/predict", {"rows": [[1.0, 2.0]], "coverage": 1.5}, 400, "between 0 and 1; got 1.5"),
    ("POST", "/predict", {"rows": [[1.0, 2.0]] * 1001}, 413, "at most 1000 rows at once; got 1001"),
    ("POST", "/predict", b" " * 3_000_000, 413, "at most 1000000 bytes; got 3000000"),
    ("POST", "/health", {"rows": []}, 405, "POST /predict"),
    ("GET", "/predict", None, 405, "POST /predict"),
    ("GET", "/", None, 404, "GET /health"),
    ("DELETE", "/predict", None, 405, "DELETE"),
]


def test_bad_requests_are_told_what_is_wrong_and_nothing_else_happens(start: Callable[[str], Running]) -> None:
    running = start("one")
    expected = running.ask("POST", "/predict", {"rows": [[0.1, 0.2]]})
    for method, path, body, status, text in BAD:
        found, answer = running.ask(method, path, body)
        assert (found, text in answer["error"]) == (status, True), (method, path, found, answer)
    found, answer = running.ask("POST", "/predict", None, **{"Transfer-Encoding": "chunked"})
    assert (found, "Content-Length" in answer["error"]) == (411, True)
    assert running.ask("POST", "/predict", {"rows": [[0.1, 0.2]]}) == expected


def raw(running: Running, data: bytes) -> bytes:
    """Send bytes, and return all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", running.server.server_port), timeout=20) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_bytes_that_are_not_http_are_answered_in_json(start: Callable[[str], Running]) -> None:
    running = start("one")
    for data, status in ((b"\x16\x03\x01\r\n\r\n", b"400"), (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414")):
        reply = raw(running, data)
        assert status in reply.split(b"\r\n")[0]
        assert b'{"error": ' in reply


def test_a_slow_client_is_not_waited_for(
    start: Callable[[str], Running], serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "REQUEST_SECONDS", 0.2)
    running = start("one")
    assert raw(running, b"POST /predict HTTP/1.1\r\nContent-Length: 30\r\n\r\n{").startswith(b"HTTP/1.1 408")
    assert raw(running, b"POST /predict HT") == b""
    assert raw(running, b"") == b""


def test_more_connections_than_threads_are_refused(
    start: Callable[[str], Running], serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "MOST_CONNECTIONS", 1)
    running = start("one")
    with socket.create_connection(("127.0.0.1", running.server.server_port), timeout=20) as first:
        first.sendall(b"POST /predict HTTP/1.1\r\n")
        assert raw(running, b"").startswith(b"HTTP/1.1 503")


def test_a_replaced_file_is_served_and_a_damaged_one_is_not(
    start: Callable[[str], Running], models: dict[str, Path]
) -> None:
    running, rows = start("one"), {"rows": [[0.1, 0.2]]}
    first = running.ask("POST", "/predict", rows)[1]
    new = running.server.path.with_name("new")
    new.write_bytes(models["two"].read_bytes())
    os.replace(new, running.server.path)
    assert running.ask("POST", "/predict", rows)[1] == first
    running.server.look()
    second = running.ask("POST", "/predict", rows)[1]
    assert second["mean"][0] > 50 > first["mean"][0]
    new.write_bytes(models["one"].read_bytes()[:-100])
    os.replace(new, running.server.path)
    running.server.look()
    assert running.ask("POST", "/predict", rows)[1] == second
    health = running.ask("GET", "/health")[1]
    assert health["model"] == second["model"]
    assert "model.bdkn" in health["load_error"]
    running.server.path.unlink()
    running.server.look()
    assert running.ask("POST", "/predict", rows)[1] == second


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM that a process can catch")
def test_a_terminated_server_answers_what_has_arrived(models: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "model.bdkn"
    path.write_bytes(models["one"].read_bytes())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(path), "--port", "0"], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr is not None
    try:
        port = int(process.stderr.readline().rpartition(":")[2])
        body = json.dumps({"rows": [[0.1, 0.2]]}).encode()
        head = f"POST /predict HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with (
            socket.create_connection(("127.0.0.1", port), timeout=20) as idle,
            socket.create_connection(("127.0.0.1", port), timeout=20) as busy,
        ):
            busy.sendall(head + body[:5])
            time.sleep(0.3)  # both have been accepted
            process.send_signal(signal.SIGTERM)
            assert idle.recv(100) == b""
            busy.sendall(body[5:])
            reply = b"".join(iter(lambda: busy.recv(65536), b""))
        assert reply.startswith(b"HTTP/1.1 200")
        assert b"Connection: close" in reply
        assert process.wait(20) == 0
        assert process.stderr.read().endswith("ended\n")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
