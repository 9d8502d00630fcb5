"""The process that fits rivals: ``python worker.py`` answers requests on its standard input, in a rival's environment.

A request is a line of JSON that says what to do and how many bytes of arrays (NumPy's npz) follow; an answer has the
same form. What libraries print goes to standard error.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from typing import IO, Any

import numpy as np

Arrays = dict[str, Any]


def send(stream: IO[bytes], message: dict[str, Any], arrays: Arrays | None = None) -> None:
    """Write a message and arrays."""
    buffer = io.BytesIO()
    np.savez(buffer, **(arrays or {}))
    content = buffer.getvalue()
    stream.write(json.dumps({**message, "bytes": len(content)}).encode() + b"\n" + content)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], Arrays] | None:
    """Return the next message and its arrays, None at the end of the stream."""
    line = stream.readline()
    if not line:
        return None
    message = json.loads(line)
    with np.load(io.BytesIO(stream.read(message["bytes"]))) as arrays:
        return message, {name: arrays[name] for name in arrays.files}


def answer(message: dict[str, Any], arrays: Arrays, models: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Do what a message asks for: "load" a module, "fit", "predict" or "forget" a model."""
    if message["do"] == "load":
        __import__(message["module"])
        return {"versions": _versions(message["packages"])}, {}
    if message["do"] == "forget":
        models.pop(message["key"], None)
        return {}, {}
    began = time.process_time()
    if message["do"] == "predict":
        found = models[message["key"]](arrays["X"])
        return {"cpu": time.process_time() - began}, found
    from adaptors import ADAPTORS

    fit, given = ADAPTORS[message["rival"]], message["options"]
    models[message["key"]] = fit(arrays["X"], arrays["y"], seed=message["seed"], threads=message["threads"], **given)
    return {"cpu": time.process_time() - began}, {}


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are no more."""
    models: dict[str, Any] = {}
    while (asked := receive(requests)) is not None:
        try:
            send(answers, *answer(*asked, models))
        except Exception:
            send(answers, {"error": traceback.format_exc()})


def _versions(packages: list[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    reply = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing but answers may be written there
    serve(sys.stdin.buffer, reply)
