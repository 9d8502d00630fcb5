"""Hold a load on the HTTP example while its model is replaced, it is restarted, and some clients are bad or slow.

python tests/stress/serve.py --write [--minutes 10] [--rate 200]

Requests are sent at fixed times, whether or not former ones were answered; latencies count from these times, so that
waiting for a free connection counts. Every answer is compared with the prediction of the model that it names, to the
last bit.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import bdkn
from bdkn import BDKNRegressor
from record import Found, Record, arguments, recording

TITLE = "A server under load"
COMMAND = "python tests/stress/serve.py --write"
FOUND: list[Found] = []
SCRIPT = Path(__file__).parents[2] / "examples" / "serve.py"
CLIENTS, ROWS, BODIES, BAD_SHARE = 16, 10, 100, 0.03
REPLACE_EVERY, RESTART_EVERY = 5.0, 60.0

BAD: list[tuple[str, str, bytes, int]] = [
    ("POST", "/predict", b"{", 400),
    ("POST", "/predict", b'{"rows": [[NaN, 1, 2]]}', 400),
    ("POST", "/predict", b'{"rows": [[1, 2]]}', 400),
    ("POST", "/predict", b'{"rows": [["a", 1, 2]]}', 400),
    ("POST", "/predict", b'{"rows": [{"x": 1}]}', 400),
    ("POST", "/predict", b'{"rows": [[1e999, 1, 2]]}', 400),
    ("POST", "/predict", b'{"rows": ' + b"[" * 5000, 400),
    ("POST", "/predict", b'{"rows": [[1, 2, 3]], "coverage": 2}', 400),
    ("POST", "/predict", json.dumps({"rows": [[1, 2, 3]] * 1001}).encode(), 413),
    ("POST", "/predict", b" " * 1_500_000, 413),
    ("POST", "/nothing", b"{}", 404),
    ("PUT", "/predict", b"{}", 405),
]


class World:
    """The files of two models, requests with the answers that are right, and what was counted."""

    def __init__(self, folder: Path) -> None:
        self.served, self.files = folder / "served.bdkn", [folder / "one.bdkn", folder / "two.bdkn"]
        rng = np.random.default_rng(0)
        for seed, path in enumerate(self.files):
            X = rng.normal(size=(200, 3))
            y = 10.0 * seed + np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=200)
            BDKNRegressor(effort="fast", n_members=3, epochs=20, n_jobs=1, random_state=seed).fit(X, y).save(path)
        rows = [rng.normal(0.0, 1.5, size=(ROWS, 3)) for _ in range(BODIES)]
        self.bodies = [json.dumps({"rows": part.tolist()}).encode() for part in rows]
        self.right: dict[str, list[dict[str, Any]]] = {}
        for path in self.files:
            self.right[digest(path)] = [expected(bdkn.load(path), part) for part in rows]
        self.lock, self.counts, self.times = threading.Lock(), Counter[str](), list[float]()
        self.wrong: list[str] = []
        self.restarting, self.over, self.files_lock = threading.Event(), threading.Event(), threading.Lock()
        replace(self.served, self.files[0].read_bytes())

    def count(self, what: str, wrong: str = "") -> None:
        """Count a trial, and what was wrong with it."""
        with self.lock:
            self.counts[what] += 1
            if wrong:
                self.counts["wrong " + what] += 1
                self.wrong.append(f"{what}: {wrong}")
                print(f"{what}: {wrong}", flush=True)

    def check(self, number: int, answer: dict[str, Any]) -> str:
        """Return what is wrong with the answer to a request, or nothing."""
        right = self.right.get(answer.pop("model", ""))
        return "of an unknown model" if right is None else "" if answer == right[number] else "another prediction"


def digest(path: Path) -> str:
    """Return what the server calls a model."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def expected(model: Any, rows: np.ndarray) -> dict[str, Any]:
    """Return the right answer, as JSON gives it back."""
    low, high = model.predict_interval(rows).T
    numbers = {"mean": model.predict(rows).tolist(), "low": low.tolist(), "high": high.tolist()}
    told: dict[str, Any] = json.loads(json.dumps({**numbers, "support": model.support(rows).status.tolist()}))
    return told


def replace(path: Path, data: bytes) -> None:
    """Replace a file in one step."""
    new = path.with_name("new")
    new.write_bytes(data)
    os.replace(new, path)


class Process:
    """The server as a process on one port, and the processor time that it has used."""

    def __init__(self, world: World) -> None:
        self.world, self.port, self.cpu, self.renewed = world, 0, 0.0, 0.0
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        """Start a process and wait until it listens; the port stays that of the first start."""
        command = [sys.executable, str(SCRIPT), str(self.world.served), "--share-port", "--port", str(self.port)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stderr is not None
        self.port = int(process.stderr.readline().rpartition(":")[2])
        threading.Thread(target=self._read, args=(process.stderr,), daemon=True).start()
        return process

    def _read(self, lines: Any) -> None:
        with lines:
            for line in lines:
                if "failed" in line or "Traceback" in line:
                    self.world.count("lines of the log", line.strip())

    def renew(self) -> str:
        """Start another process, then terminate the former one; return what is wrong with its end, or nothing."""
        former, self.process = self.process, self.start()
        wrong = self.end(former)
        self.renewed = time.monotonic()
        return wrong

    def end(self, process: subprocess.Popen[str]) -> str:
        """Terminate a process; return what is wrong with its end, or nothing."""
        self.cpu += _processor_seconds(process.pid)
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            return "it did not end within a minute"
        return "" if code == 0 else f"exit status {code}"

    def megabytes(self) -> float:
        """Return the memory that the process occupies."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def health(self) -> dict[str, Any]:
        """Return what the server says about itself."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", "/health")
            told: dict[str, Any] = json.load(connection.getresponse())
            return told
        finally:
            connection.close()


def _processor_seconds(number: int) -> float:
    """Return the processor time that a process has used."""
    parts = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


class Client:
    """One connection that is kept open, and the requests sent on it."""

    def __init__(self, server: Process) -> None:
        self.server, self.opened = server, 0.0
        self.connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON of an answer; ask again if the process that was connected has ended."""
        while True:
            try:
                return self._once(method, path, body)
            except (OSError, http.client.HTTPException):
                self.close()
                if not (self.server.world.restarting.is_set() or self.opened < self.server.renewed):
                    raise
                self.server.world.count("requests asked again")
                time.sleep(0.05)

    def _once(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        if self.connection is None:
            self.opened = time.monotonic()
            self.connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        self.connection.request(method, path, body)
        reply = self.connection.getresponse()
        answer = reply.status, json.loads(reply.read())
        if reply.will_close:
            self.close()
        return answer

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None


def send(world: World, server: Process, due: queue.SimpleQueue[tuple[float, int] | None]) -> None:
    """Send requests at their times until there are none."""
    client, rng = Client(server), random.Random(threading.get_ident())
    while (job := due.get()) is not None:
        when, number = job
        try:
            if rng.random() < BAD_SHARE:
                method, path, body, status = rng.choice(BAD)
                found, answer = client.ask(method, path, body)
                right = found == status and isinstance(answer.get("error"), str)
                world.count("bad requests", "" if right else f"{found} {answer} to {body[:60]!r}")
                continue
            status, answer = client.ask("POST", "/predict", world.bodies[number % BODIES])
            wrong = f"{status} {answer}" if status != 200 else world.check(number % BODIES, answer)
            world.count("requests", wrong)
            with world.lock:
                world.times.append(time.monotonic() - when)
        except Exception as error:
            client.close()
            world.count("requests", repr(error))
    client.close()


def dawdle(world: World, server: Process) -> None:
    """Send a request a byte at a time, again and again; the server has to lose patience."""
    while not world.over.is_set():
        start, restarts = time.monotonic(), world.counts["restarts"]
        try:
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
                for byte in b"POST /predict HTTP/1.1\r\nContent-Length: 1000\r\n\r\n" + b" " * 900:
                    connection.sendall(bytes([byte]))
                    if world.over.wait(0.1):
                        return
        except OSError:
            pass
        took = time.monotonic() - start
        if world.counts["restarts"] == restarts and not (world.over.is_set() or world.restarting.is_set()):
            world.count("slow clients", "" if took < 40.0 else f"served for {took:.0f} s")
        time.sleep(0.1)


def replace_models(world: World, server: Process) -> None:
    """Replace the model every few seconds, every fifth time by a damaged file, and wait until the server knows."""
    number = 0
    while not world.over.wait(REPLACE_EVERY):
        number += 1
        good = world.files[number % 2].read_bytes()
        damaged = number % 5 == 0
        what = "replacements by a damaged file" if damaged else "replacements of the model"
        with world.files_lock:  # a server does not start with a damaged file
            replace(world.served, good[: len(good) // 2] if damaged else good)
            world.count(what, _await(world, server, digest(world.files[number % 2]), damaged=damaged))
            if damaged:
                replace(world.served, good)


def _await(world: World, server: Process, name: str, *, damaged: bool) -> str:
    """Wait until a model is served, or known to be damaged; return what is wrong, or nothing."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end and not world.over.is_set():
        try:
            told = server.health()
            if (told["load_error"] is not None) if damaged else told["model"] == name:
                return ""
        except (OSError, http.client.HTTPException):
            if not world.restarting.is_set():
                return "no answer about the health"
        time.sleep(0.2)
    return "" if world.over.is_set() else "not noticed within a minute"


def restart(world: World, server: Process) -> None:
    """Once a minute, while requests go on, start the server anew and terminate the former process."""
    while not world.over.wait(RESTART_EVERY):
        with world.files_lock:
            world.restarting.set()
            world.count("restarts", server.renew())
            world.restarting.clear()


def drive(world: World, server: Process, seconds: float, rate: float) -> float:
    """Send requests at a rate for so many seconds; return the largest memory of the server."""
    due: queue.SimpleQueue[tuple[float, int] | None] = queue.SimpleQueue()
    senders = [threading.Thread(target=send, args=(world, server, due)) for _ in range(CLIENTS)]
    others = [threading.Thread(target=dawdle, args=(world, server)) for _ in range(3)]
    others.append(threading.Thread(target=replace_models, args=(world, server)))
    others.append(threading.Thread(target=restart, args=(world, server)))
    for thread in senders + others:
        thread.start()
    start, most = time.monotonic(), 0.0
    for number in range(int(seconds * rate)):
        when = start + number / rate
        time.sleep(max(0.0, when - time.monotonic()))
        due.put((when, number))
        if number % int(10 * rate) == 0 and not world.restarting.is_set():
            most = max(most, server.megabytes())
            print(f"{time.monotonic() - start:.0f} s", dict(world.counts), f"{most:.0f} MB", flush=True)
    world.over.set()
    for _ in senders:
        due.put(None)
    for thread in senders + others:
        thread.join()
    return most


def run(record: Record, seconds: float, rate: float) -> None:
    """Fill the record with what happened under load."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        server = Process(world)
        try:
            most = drive(world, server, seconds, rate)
        finally:
            wrong = server.end(server.process)
    world.count("restarts", wrong)
    busy = os.getloadavg()[1]  # of the last five minutes, this run included
    p50, p99, worst = (1e3 * float(value) for value in np.quantile(world.times, (0.5, 0.99, 1.0)))
    load = f"{rate:g} requests/s of {ROWS} rows for {seconds:.0f} s on {CLIENTS} connections, load average {busy:.0f}"
    remarks = {
        "requests": f"{load}: p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {worst:.0f} ms; "
        f"{world.counts['requests asked again']} asked again, as the process had ended; "
        f"{1e3 * server.cpu / world.counts['requests']:.1f} ms of processor time per request, at most {most:.0f} MB",
        "bad requests": "not JSON, NaN, wrong columns, too large, wrong path: each has its status and says why",
        "slow clients": "a byte each tenth of a second: ended by the server within its time for a request",
        "replacements of the model": "the new one answers; until then the former one",
        "replacements by a damaged file": "told by GET /health; the former model goes on",
        "restarts": "the next process listens, then SIGTERM: requests that had arrived were answered, exit status 0",
    }
    for what, remark in remarks.items():
        if world.counts[what]:
            record.add(what, world.counts[what], world.counts["wrong " + what], remark)
    if world.counts["wrong lines of the log"]:
        record.add("lines of the log", world.counts["lines of the log"], world.counts["wrong lines of the log"])


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to hold the load (default 10)")
    parser.add_argument("--rate", type=float, default=200.0, help="requests per second (default 200)")
    options = parser.parse_args()
    said = f"{COMMAND} --rate {options.rate:g}" if options.rate != 200.0 else COMMAND
    with recording("serve", TITLE, said, FOUND, write=options.write) as record:
        run(record, 60.0 * options.minutes * options.scale, options.rate)
