"""Signals end a command without leaving a broken or a temporary file."""

import os
import signal
import subprocess
import sys
import time

import pytest

from bdkn.cli.terminal import Screen, errors_as_messages


@pytest.fixture(autouse=True)
def python_handles_interrupts():
    """A process started in the background of a shell ignores SIGINT; the tests must not depend on it."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


FIT = ["fit", "flats.csv", "--target", "price", "--drop", "id", "--out", "model.bdkn", "--effort", "best"]


LOADED = """
import numpy as np
from bdkn import BDKNRegressor
from bdkn.__main__ import main

X = np.random.default_rng(0).normal(size=(60, 2))
BDKNRegressor(n_members=2, epochs=1, random_state=0).fit(X, X[:, 0])
main()
"""
"""Loads compiled code before the command begins: LLVM discards an exception that is raised while it loads code."""


def start(folder, words, code=None):
    command = [sys.executable, *(["-m", "bdkn"] if code is None else ["-c", code]), *words]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def wait_for(condition, process):
    for _ in range(2400):
        if condition():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    pytest.fail("it did not begin")


def test_interrupting_a_fit_keeps_the_former_model(home, tmp_path):
    (tmp_path / "flats.csv").write_text((home / "flats.csv").read_text())
    (tmp_path / "model.bdkn").write_text("former")
    process = start(tmp_path, FIT, LOADED)
    for line in process.stderr:
        if line.startswith("Fitting bdkn to 119 rows"):
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert err == "Interrupted: every file is complete, or as it was.\n"
    assert (tmp_path / "model.bdkn").read_text() == "former"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["flats.csv", "model.bdkn"]


def test_interrupting_a_prediction_leaves_no_file(home, tmp_path):
    lines = (home / "flats.csv").read_text().splitlines(keepends=True)
    (tmp_path / "flats.csv").write_text(lines[0] + "".join(lines[1:]) * 3_000)
    (tmp_path / "model.bdkn").write_bytes((home / "flats.bdkn").read_bytes())
    process = start(tmp_path, ["predict", "model.bdkn", "flats.csv", "--out", "out.csv"])
    wait_for(lambda: any(item.name.startswith(".out.csv") for item in tmp_path.iterdir()), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert err.endswith("Interrupted: every file is complete, or as it was.\n")
    assert sorted(item.name for item in tmp_path.iterdir()) == ["flats.csv", "model.bdkn"]


def test_a_reader_that_wants_no_more_is_no_error(home, tmp_path):
    lines = (home / "flats.csv").read_text().splitlines(keepends=True)
    (tmp_path / "flats.csv").write_text(lines[0] + "".join(lines[1:]) * 30)
    process = start(tmp_path, ["predict", str(home / "flats.bdkn"), "flats.csv", "--quiet"])
    assert process.stdout.readline().startswith('"mean"')
    process.stdout.close()
    assert process.wait(timeout=120) == 0
    assert process.stderr.read() == ""
    process.stderr.close()


def test_notes_are_told_once_and_kept(capsys):
    import warnings

    screen = Screen(json=True)
    with screen.noting_warnings():
        warnings.warn("odd", UserWarning, stacklevel=1)
        warnings.warn("odd", UserWarning, stacklevel=1)
    screen.finish({"value": float("nan")})
    shown = capsys.readouterr()
    assert shown.err == "Note: odd\n"
    assert '"value": null' in shown.out
    assert '"odd"' in shown.out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_this_process_is_an_exit_code(number, code):
    import typer

    former = signal.getsignal(number)

    def be_ended():
        with errors_as_messages():
            os.kill(os.getpid(), number)
            time.sleep(1)

    with pytest.raises(typer.Exit) as caught:
        be_ended()
    assert caught.value.exit_code == code
    assert signal.getsignal(number) is former


def test_an_interrupt_that_became_another_error_is_still_one(capsys):
    import typer

    def be_ended():
        with errors_as_messages():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)
            except KeyboardInterrupt as error:  # as modules in C++ do while they are imported
                raise ImportError("initialization failed") from error

    with pytest.raises(typer.Exit) as caught:
        be_ended()
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == "Interrupted: every file is complete, or as it was.\n"


def test_an_interrupt_inside_executed_code_has_the_same_exit_code(tmp_path):
    # With python -m, a plain KeyboardInterrupt that passed through exec ends Python by the signal, whoever caught it.
    code = """
import os, signal, typer
from bdkn.cli.terminal import errors_as_messages

app = typer.Typer()

@app.command()
def wait():
    with errors_as_messages():
        exec("import time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)")

app()
"""
    (tmp_path / "waits.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "waits"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 130, done.stderr


def test_a_signal_that_is_ignored_stays_ignored():
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with errors_as_messages():
            os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, former)


def test_notes_for_developers_are_left_out(capsys):
    import warnings

    screen = Screen()
    with screen.noting_warnings():
        warnings.warn("a file was not closed", ResourceWarning, stacklevel=1)
    assert screen.notes == []
    assert capsys.readouterr().err == ""
