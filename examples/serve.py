"""Serve the predictions of a model file over HTTP, with nothing but the standard library.

    python examples/serve.py model.bdkn --port 8000

    curl localhost:8000/predict -d '{"rows": [[0.1, 0.2, 0.3]], "coverage": 0.9}'
    {"mean": [...], "low": [...], "high": [...], "support": ["inside"], "model": "3f7a..."}

Rows are lists of numbers in the order of the training table's columns, or objects with the names of its columns.
``GET /health`` returns which model is served. The model is loaded again when its file is replaced, or on SIGHUP: until
the new one is loaded, and if it cannot be loaded, the old one serves. On SIGTERM or SIGINT requests that have
arrived are answered, and the process ends. To restart without a gap, start the next one with the same port before you
end the old one, both with ``--share-port``.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import math
import os
import signal
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bdkn
from bdkn.errors import BDKNError, ColumnsWarning, InvalidParameterError, OutsideDataWarning

MOST_BYTES, MOST_ROWS, MOST_CONNECTIONS = 1_000_000, 1000, 256
REQUEST_SECONDS, ANSWER_SECONDS, LAST_SECONDS, LOOK_SECONDS = 20.0, 10.0, 0.5, 1.0
"""Time to send a request, to receive an answer, for what still comes at the end, and between looks at the file."""

PATHS = "POST /predict and GET /health are what there is"

log = logging.getLogger("serve")


class RequestError(Exception):
    """An error of a request, with its status code."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Served:
    """A loaded model and the digest of its file. It is never changed, so that one request uses one model."""

    model: Any
    digest: str

    @classmethod
    def load(cls, path: Path) -> Served:
        """Read a model file, and predict once: the first prediction loads compiled code."""
        digest, served = "", None
        while served is None or served.digest != digest:  # the file may be replaced meanwhile
            digest = _digest(path)
            served = cls(bdkn.load(path), _digest(path))
        value = 0.0 if served.model.model_.reader.encoder is None else None
        served.answer({"rows": [[value] * served.model.n_features_in_]})
        return served

    def answer(self, request: Any) -> dict[str, Any]:
        """Return means, interval ends and support of the rows of a request."""
        rows, coverage = _checked(request)
        try:
            X = self.table(rows)
            mean, (low, high) = self.model.predict(X), self.model.predict_interval(X, coverage).T
            support = self.model.support(X).status.tolist() if hasattr(self.model, "support") else None
        except (BDKNError, ValueError, TypeError, OverflowError) as error:
            raise RequestError(400, str(error)) from error
        numbers = {"mean": _plain(mean), "low": _plain(low), "high": _plain(high)}
        return {**numbers, "support": support, "model": self.digest}

    def table(self, rows: list[Any]) -> Any:
        """Return rows for the model: a frame of named columns if it was fitted to one, else an array."""
        names = getattr(self.model, "feature_names_in_", None)
        by_name = isinstance(rows[0], dict)
        if by_name and names is None:
            raise InvalidParameterError("the model's columns have no names: send each row as a list of numbers")
        columns = list(range(self.model.n_features_in_)) if names is None else list(names)
        for number, row in enumerate(rows):
            _check_row(number, row, columns, dict if by_name else list)
            if names is None and not all(isinstance(value, int | float) for value in row):
                raise RequestError(400, f"values must be numbers; row {number} is {row!r:.80}")
        if names is None:
            return np.array(rows, dtype=np.float64)
        return pd.DataFrame(rows, columns=columns)


def _checked(request: Any) -> tuple[list[Any], float]:
    """Return the rows and the coverage of a request."""
    if not isinstance(request, dict) or not isinstance(rows := request.get("rows"), list) or not rows:
        raise RequestError(400, 'send an object such as {"rows": [[1.0, 2.0], [3.0, 4.0]], "coverage": 0.9}')
    if unknown := sorted(set(request) - {"rows", "coverage"}):
        raise RequestError(400, f"a request has rows and coverage; got {', '.join(unknown)}, too")
    if len(rows) > MOST_ROWS:
        raise RequestError(413, f"send at most {MOST_ROWS} rows at once; got {len(rows)}")
    coverage = request.get("coverage", 0.9)
    if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0.0 < coverage < 1.0:
        raise RequestError(400, f"coverage must be a number between 0 and 1; got {coverage!r:.40}")
    return rows, float(coverage)


def _check_row(number: int, row: Any, columns: list[Any], kind: type) -> None:
    """Raise unless a row has the type of the first one, with one value for each column."""
    if not isinstance(row, kind):
        raise RequestError(400, f"rows must be all lists or all objects; row {number} is no {kind.__name__}")
    if isinstance(row, dict) and (wrong := sorted(set(row) ^ set(columns))):
        raise RequestError(400, f"rows must have the columns {', '.join(columns)}; row {number}: {', '.join(wrong)}?")
    if len(row) != len(columns):
        raise RequestError(400, f"rows must have {len(columns)} values; row {number} has {len(row)}")
    for value in row if isinstance(row, list) else row.values():
        if isinstance(value, list | dict):
            raise RequestError(
                400, f"values must be numbers, text, true, false or null; row {number} has a {value!r:.40}"
            )


def _plain(values: np.ndarray) -> list[float | None]:
    """Return numbers for JSON, which has no infinity: null."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _no_constant(name: str) -> float:
    raise RequestError(400, f"{name} is not JSON: send finite numbers, and null for a value that is missing")


class TimedReader(io.RawIOBase):
    """The bytes of a connection, up to a deadline, also for clients that send single bytes slowly."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.deadline = connection, 0.0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Wait for bytes until the deadline, and return how many there are; none at the end."""
        left = self.deadline - time.monotonic()
        if left <= 0.0:
            raise TimeoutError("the request took too long")
        self.connection.settimeout(left)
        return self.connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """Handler of the requests of one connection, each answered by the model that is served when it has arrived."""

    protocol_version, default_request_version, server_version = "HTTP/1.1", "HTTP/1.0", "bdkn-example"
    server: Server

    def setup(self) -> None:
        """Read the connection up to a deadline, and send answers without delay."""
        super().setup()
        self.reader = TimedReader(self.connection)
        self.rfile = io.BufferedReader(self.reader)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle_one_request(self) -> None:
        """Read and answer one request within its time; the connection is idle until the first byte has arrived."""
        try:
            with self.server.idle(self.connection, self.reader):
                self.rfile.peek(1)
            self.reader.deadline, self.unread = time.monotonic() + REQUEST_SECONDS, True
            super().handle_one_request()
        except OSError:  # the client has gone, or was too slow to send or to receive
            self.close_connection = True

    def do_GET(self) -> None:
        """Answer with the state of the server."""
        self.unread = bool(self.headers.get("Content-Length") or self.headers.get("Transfer-Encoding"))
        if self.path == "/health":
            self._send(200, self.server.health())
        else:
            self._send(405 if self.path == "/predict" else 404, {"error": PATHS})

    def do_POST(self) -> None:
        """Predict rows."""
        try:
            if self.path != "/predict":
                raise RequestError(405 if self.path == "/health" else 404, PATHS)
            request = self._body()
            self._send(200, self.server.served.answer(request))
        except RequestError as error:
            self._send(error.status, {"error": str(error)})
        except OSError:
            raise
        except Exception:
            log.exception("a request failed")
            self._send(500, {"error": "the prediction failed; see the log of the server"})

    def _body(self) -> Any:
        """Return the JSON of a request."""
        length = self.headers.get("Content-Length")
        if length is None or not (length.isascii() and length.isdigit()) or "Transfer-Encoding" in self.headers:
            raise RequestError(411, "send the number of bytes as Content-Length")
        if len(length) > 12 or int(length) > MOST_BYTES:
            raise RequestError(413, f"send at most {MOST_BYTES} bytes; got {length:.20}")
        try:
            body = self.rfile.read(int(length))
        except TimeoutError:
            raise RequestError(408, f"send a request within {REQUEST_SECONDS:g} seconds") from None
        self.unread = False
        if len(body) < int(length):
            raise RequestError(400, f"Content-Length says {length} bytes; got {len(body)}")
        try:
            return json.loads(body, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise RequestError(400, f"the body is not JSON: {error}") from error

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is not HTTP, or has an unknown method, in JSON too."""
        self._send(405 if code == 501 else code, {"error": message or self.responses.get(code, ("bad request",))[0]})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        """Answer; the connection ends if the server does, or if the request was not read to its end."""
        data = json.dumps(body, allow_nan=False).encode()
        self.close_connection |= self.server.ending or self.unread
        self.connection.settimeout(ANSWER_SECONDS)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)
        self.server.count(status)
        if self.unread:
            self._read_rest()

    def _read_rest(self) -> None:
        """Read the rest of a request, for a short time: the answer is lost if the client cannot send to the end."""
        self.connection.shutdown(socket.SHUT_WR)
        self.reader.deadline = min(self.reader.deadline, time.monotonic() + LAST_SECONDS)
        while self.rfile.read1(65536):
            pass

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing for each request."""


class Server(ThreadingHTTPServer):
    """A server with a thread for each connection, one model for all, and the numbers of ``GET /health``."""

    daemon_threads, request_queue_size = False, 128

    def __init__(self, address: tuple[str, int], path: Path, *, share_port: bool = False) -> None:
        self.allow_reuse_port = share_port
        self.path, self.seen, self.failed = path, _signature(path), ""
        self.served, self.started = Served.load(path), time.time()
        self.ending, self.pending, self.counts = False, True, dict[int, int]()
        self._lock, self._idle = threading.Lock(), set[socket.socket]()
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__(address, Handler)

    def look(self, *, always: bool = False) -> None:
        """Load the model again if its file was replaced; if that fails, log it and keep the old one."""
        signature = _signature(self.path)
        if not always and signature in (self.seen, None):
            return
        self.seen = signature
        try:
            self.served, self.failed = Served.load(self.path), ""  # one assignment each; requests read the first once
            log.info("serving %s", self.served.digest)
        except (BDKNError, OSError) as error:
            self.failed = str(error)
            log.error("the new file cannot be loaded, %s goes on: %s", self.served.digest, error)

    def health(self) -> dict[str, Any]:
        """Return the model, the time since its start, an error of loading a newer one, and counts of status codes."""
        served, uptime = self.served, time.time() - self.started
        with self._lock:
            counts = {str(status): n for status, n in sorted(self.counts.items())}
        names = [str(name) for name in getattr(served.model, "feature_names_in_", range(served.model.n_features_in_))]
        known = {"model": served.digest, "columns": names, "version": bdkn.__version__, "uptime": round(uptime, 1)}
        return {
            "status": "ending" if self.ending else "ok",
            **known,
            "load_error": self.failed or None,
            "counts": counts,
        }

    def count(self, status: int) -> None:
        """Count an answer."""
        with self._lock:
            self.counts[status] = self.counts.get(status, 0) + 1

    @contextmanager
    def idle(self, connection: socket.socket, reader: TimedReader) -> Iterator[None]:
        """Wait for the next request of a connection inside of the block; at the end of the server, not for long."""
        with self._lock:
            self._idle.add(connection)
            reader.deadline = time.monotonic() + (LAST_SECONDS if self.ending else REQUEST_SECONDS)
        try:
            yield
        finally:
            with self._lock:
                self._idle.discard(connection)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or answer that there are too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            refuse(request)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_timeout(self) -> None:
        """Note that no connection is waiting to be accepted."""
        self.pending = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an exception that no handler has caught."""
        log.exception("a connection failed")

    def end(self) -> None:
        """Answer arrived requests, close idle connections, and close; ``serve_forever`` must have ended."""
        with self._lock:
            self.ending, self.timeout = True, 0
            for connection in self._idle:
                with suppress(OSError):  # the client may be faster
                    connection.shutdown(socket.SHUT_RD)  # what has arrived is read, and then the end
        while self.pending:
            self.handle_request()
        self.server_close()  # waits for the threads


def refuse(connection: socket.socket) -> None:
    """Answer a connection for which there is no thread."""
    data = json.dumps({"error": f"at most {MOST_CONNECTIONS} connections at once: try again"}).encode()
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n"
    with suppress(OSError):
        connection.settimeout(1.0)
        connection.sendall(head.encode() + b"Connection: close\r\nRetry-After: 1\r\n\r\n" + data)


def _signature(path: Path) -> tuple[int, int, int] | None:
    """Return numbers that change when a file is replaced; None if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def main(arguments: list[str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="file that save() wrote")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0: any free one")
    parser.add_argument("--share-port", action="store_true", help="let the next process listen before this one ends")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for category in (OutsideDataWarning, ColumnsWarning):  # answers contain the support; nobody reads warnings here
        warnings.simplefilter("ignore", category)
    server = Server((options.host, options.port), options.model, share_port=options.share_port)
    wake, wishes = threading.Event(), set[int]()

    def wish(number: int, frame: object) -> None:
        wishes.add(number)
        wake.set()

    for name in ("SIGTERM", "SIGINT", "SIGHUP"):  # Windows has no SIGHUP
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), wish)
    accepting = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
    accepting.start()
    log.info("serving %s on http://%s:%d", server.served.digest, options.host, server.server_port)
    while not wishes & {signal.SIGTERM, signal.SIGINT}:
        wake.wait(LOOK_SECONDS)
        wake.clear()
        again = getattr(signal, "SIGHUP", None) in wishes
        wishes.discard(getattr(signal, "SIGHUP", 0))
        server.look(always=again)
    server.shutdown()
    accepting.join()
    server.end()
    log.info("ended")


if __name__ == "__main__":
    main()
