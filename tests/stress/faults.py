"""Faults while files are written: signals, full disks, errors of files, limits, two writers, workers that die.

    python tests/stress/faults.py [--write] [--scale S] [--seed N]

Each trial does one piece of work in a process made by fork, and something happens to it. Then every file must be as it
was before or complete, nothing else may have changed, and the next run must give what it gives without a fault and
leave nothing behind. Some trials use processes of the command itself. Linux only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random

from threadpoolctl import threadpool_limits

import bdkn
from faulty import kinds
from faulty.children import FINE, TOLD, UNEXPECTED, Ending, start, wait
from faulty.members import Dying, Raising, stack
from faulty.trials import SIGNALS, Reference, log_of, not_repaired, problems, reference, run
from faulty.works import WORKS, Work, rows, update_with_other_rows
from record import Found, Record, arguments, read_records, recording

FOUND: list[Found] = [
    Found(
        "No fit where neither the package folder nor the home folder can be written (RuntimeError: no locator)",
        "compiled code is kept by a cache of this library: beside it, in the user's cache, in a private temporary "
        "folder, or nowhere, which is said once",
    ),
    Found(
        "A damaged file of compiled code (empty, half, garbage): EOFError or UnpicklingError at every fit; one changed "
        "bit could crash the interpreter",
        "each file has a digest; whatever does not match is compiled again and replaced",
    ),
    Found(
        "After an update of the library, code compiled from a former version of a called function could be loaded",
        "files are known by a digest of all sources that are compiled",
    ),
    Found(
        "Boosting and PyTorch in a process made by fork, after its parent had used threads: it waited for ever",
        "one thread there, with a warning that names spawn and joblib",
    ),
    Found(
        "A lock of another thread at the moment of a fork kept the child waiting",
        "the lock is made anew in the child",
    ),
    Found("save_figure, when killed, left half a picture under its final name", "pictures are replaced as wholes"),
    Found(
        "Reports that were killed left .draft folders in the user's folder for ever",
        "drafts are made among the temporary files",
    ),
    Found(
        "Two `bdkn update` of one file at the same time: the rows of one were lost",
        "the second waits for the first",
    ),
    Found(
        "`bdkn-paper pack` left out a record that could not be read at the moment (I/O, rights), and wrote the others",
        "only files that are no records are left out; an error of the disk ends the command before it writes",
    ),
    Found("Two `bdkn-paper pack` into one folder at the same time: records of one were lost", "the second waits"),
    Found(
        "A command that was interrupted after it had written its file said that no output was written",
        "it says that every file is complete, or as it was",
    ),
    Found("Too little memory, or a worker that was killed: a traceback", "one sentence with what to try"),
]


NO_THREADS = "without experiments: Python itself waits for ever for a thread that has no memory to begin"


class Trials:
    """Counts trials and what was wrong, by the kind of the fault."""

    def __init__(self, record: Record, base: Path, seed: int = 0, scale: float = 1.0, only: str = "") -> None:
        self.record, self.folder, self.scale, self.only = record, base / "place", scale, only
        self.chance = Random(seed)
        self.known: dict[str, Reference] = {}
        self.endings: Counter[str] = Counter()
        self.folder.mkdir()

    def times(self, n: int) -> range:
        """Return so many repeats at scale 1."""
        return range(max(1, round(n * self.scale)))

    def line(self, what: str, outcomes: Iterator[list[str]], remark: str = "") -> None:
        """Do the trials and add a line about them, unless only others are asked for."""
        if self.only not in what:
            return
        tried, wrong = 0, []
        for found in outcomes:
            tried += 1
            if found:
                wrong.append(found)
                print(f"  {what}, trial {tried}: {'; '.join(found)}", flush=True)
        self.record.add(what, tried, len(wrong), remark)

    def prepare(self, work: Work, folder: Path | None = None) -> Reference:
        """Return the work without a fault, and put what is there before it into the folder."""
        if work.name not in self.known:
            self.known[work.name] = reference(work, self.folder)
        work.begin(kinds.clean(folder or self.folder))
        return self.known[work.name]

    def after(self, work: Work, ending: Ending, folder: Path | None = None, *, aborts: bool = False) -> list[str]:
        """Return all that is wrong after a fault, and after the next run."""
        place, known = folder or self.folder, self.known[work.name]
        return problems(place, known, ending, aborts=aborts) or not_repaired(work, place, known)

    def by_signals(self, n: int) -> Iterator[list[str]]:
        """Signals at random moments of the processor's time."""
        for work in WORKS:
            for number in SIGNALS:
                for _ in self.times(n):
                    known = self.prepare(work)
                    moment = self.chance.uniform(0, known.cpu_seconds)
                    yield self.after(work, run(work, self.folder, kill=(moment, number)))

    def at_steps(self, n: int) -> Iterator[list[str]]:
        """Signals just before a random operation on a file."""
        for work in WORKS:
            for number in SIGNALS:
                for _ in self.times(n):
                    step = self.chance.randint(1, self.prepare(work).steps)
                    arm = kinds.at_step(self.folder, step, kinds.signal_itself(number))
                    yield self.after(work, run(work, self.folder, arm))

    def by_errors(self, n: int) -> Iterator[list[str]]:
        """Operations on files that fail."""
        for work in WORKS:
            for _ in self.times(n):
                step = self.chance.randint(1, self.prepare(work).steps)
                arm = kinds.at_step(self.folder, step, kinds.fail(self.chance.choice(kinds.ERRORS)))
                yield self.after(work, run(work, self.folder, arm))

    def by_limits(self, n: int) -> Iterator[list[str]]:
        """Files that must not become larger than some bytes."""
        for work in WORKS:
            for _ in self.times(n):
                self.prepare(work)
                limit = kinds.file_size_limit(int(10 ** self.chance.uniform(0, 5)))
                yield self.after(work, run(work, self.folder, limit))

    def by_clock(self, n: int) -> Iterator[list[str]]:
        """A clock that jumped back and runs backwards."""
        for work in WORKS:
            for _ in self.times(n):
                self.prepare(work)
                ending = run(work, self.folder, kinds.clock_backwards(self.chance))
                failed = [] if ending.code == 0 else [f"it failed: {ending.text[-300:]}"]
                yield failed or self.after(work, ending)

    def by_memory(self, n: int) -> Iterator[list[str]]:
        """Little memory is left; not for experiments, which start threads: see ``NO_THREADS``."""
        for work in [work for work in WORKS if work.name != "bench"]:
            for _ in self.times(n):
                self.prepare(work)
                ending = run(work, self.folder, kinds.memory_limit(int(10 ** self.chance.uniform(3, 7))))
                self.endings[_name_of(ending)] += 1
                yield self.after(work, ending, aborts=True)

    def on_small_disk(self, n: int, disk: Path) -> Iterator[list[str]]:
        """A disk with a few bytes left."""
        for work in WORKS:
            for _ in self.times(n):
                self.prepare(work)
                self.prepare(work, disk)
                filler = kinds.fill(disk, int(10 ** self.chance.uniform(0, 5.5)))
                ending = run(work, disk)
                filler.unlink()
                yield self.after(work, ending, disk)

    def read_only(self, n: int, disk: Path) -> Iterator[list[str]]:
        """A disk that cannot be written."""
        for work in WORKS:
            for _ in self.times(n):
                self.prepare(work)
                self.prepare(work, disk)
                with kinds.read_only(disk):
                    ending = run(work, disk)
                silent = ["it said nothing"] if ending.code == 0 or not ending.text.strip() else []
                yield silent or self.after(work, ending, disk)

    def two_writers(self, n: int) -> Iterator[list[str]]:
        """Two processes with the same target, of which one may be killed."""
        for work in WORKS:
            for k in self.times(n):
                known = self.prepare(work)
                second = work if work.again else Work("other", work.files, update_with_other_rows)
                logs = [log_of(self.folder), self.folder.with_name("log2.txt")]
                pids = [
                    start(lambda w=one: w.run(self.folder), log)  # type: ignore[misc]
                    for one, log in zip((work, second), logs, strict=True)
                ]
                kill = (self.chance.uniform(0, known.cpu_seconds), SIGNALS[0]) if k % 2 else None
                endings = [wait(pids[0], logs[0], kill), wait(pids[1], logs[1])]
                yield self._both(work, endings)

    def _both(self, work: Work, endings: list[Ending]) -> list[str]:
        if work.again:
            return [*problems(self.folder, self.known[work.name], endings[0]), *self.after(work, endings[1])]
        if endings[1].code != 0:
            return [f"it failed: {endings[1].text[-300:]}"]
        absorbed = len(bdkn.load(self.folder / "model.bdkn").made_["absorbed"])
        expected = {2} if endings[0].code == 0 else {1, 2}
        return [] if absorbed in expected else [f"{absorbed} tables were absorbed by {len(endings)} writers"]

    def raising(self, n: int) -> Iterator[list[str]]:
        """A member whose k-th fit raises."""
        for _ in self.times(n):
            k = self.chance.randint(1, 5)

            def work(folder: Path, k: int = k) -> None:
                try:
                    stack(Raising(str(folder.parent), k)).fit(*rows(60, 0)).save(folder / "model.bdkn")
                except ZeroDivisionError as error:
                    raise SystemExit(TOLD if "member 'odd'" in "".join(error.__notes__) else UNEXPECTED) from error

            yield self._odd(work)

    def dying(self, n: int) -> Iterator[list[str]]:
        """A worker process that is killed while it fits a member."""
        for _ in self.times(n):
            k = self.chance.randint(1, 4)

            def work(folder: Path, k: int = k) -> None:
                model = stack(Dying(str(folder.parent), k), n_jobs=2)
                try:
                    model.fit(*rows(60, 0))
                except RuntimeError as error:
                    if "terminated" not in str(error):
                        raise
                    model.fit(*rows(60, 0)).predict(rows(5, 1)[0])  # the same process goes on
                    raise SystemExit(TOLD) from error

            yield self._odd(work)

    def _odd(self, do: Callable[[Path], None]) -> list[str]:
        (self.folder.parent / "fits.count").unlink(missing_ok=True)
        known = self.prepare(WORKS[0])
        ending = run(Work("odd", dict, do), self.folder)
        silent = [] if ending.code == TOLD else [f"the error was not told: {ending.code} {ending.text[-300:]}"]
        return silent + problems(self.folder, known, ending)

    def commands(self, n: int) -> Iterator[list[str]]:
        """Processes of the command itself, killed at random moments."""
        for k in self.times(n):
            work, number = WORKS[2 + k % 2], SIGNALS[k % 3]
            known = self.prepare(work)
            words = _words(work, self.folder)
            log = log_of(self.folder)
            with log.open("w", encoding="utf-8") as file:
                process = subprocess.Popen([sys.executable, "-m", "bdkn", *words], stdout=file, stderr=file)
            ending = wait(process.pid, log, (self.chance.uniform(1.5, 4.5), number))
            process.returncode = ending.code or 0  # it was waited for
            yield problems(self.folder, known, ending) or not_repaired(work, self.folder, known)


def _name_of(ending: Ending) -> str:
    """Return how a process without memory ended."""
    if ending.code in FINE:
        return "done" if ending.code == 0 else "told"
    return ending.text.strip().rpartition("\n")[2][:60] or f"code {ending.code}"


def _words(work: Work, folder: Path) -> list[str]:
    model, table = str(folder / "model.bdkn"), str(folder / "new.csv")
    if work.name == "update":
        return ["update", model, table, "--out", model, "--quiet"]
    return ["predict", model, table, "--out", str(folder / "out.csv"), "--quiet", "--jobs", "1"]


def all_trials(trials: Trials, base: Path) -> None:
    """Do all trials, one line of the record per kind of fault."""
    for work in WORKS:  # everything is imported and compiled before the first fork
        work_in_this_process(work, trials.folder)
    trials.line("open, rename, remove, ... fails (no space, quota, I/O, rights)", trials.by_errors(7))
    trials.line("1 kB to 10 MB of memory left", trials.by_memory(4), NO_THREADS)
    print(f"  with little memory: {dict(trials.endings)}", flush=True)
    with kinds.small_disk(base / "disk") as disk:
        if disk is None:
            print("no disk can be mounted here: full and read-only disks are left out")
        else:
            trials.line("full disk", trials.on_small_disk(4, disk))
            trials.line("read-only disk", trials.read_only(2, disk))
    trials.line("two writers, one of them killed every second time", trials.two_writers(4))
    trials.line("a member raises an error", trials.raising(20))
    trials.line("a worker process of joblib is killed", trials.dying(5))
    trials.line("clock jumped back and runs backwards", trials.by_clock(2))
    trials.line("commands `bdkn update` and `bdkn predict` killed", trials.commands(21), "processes of their own")
    trials.line("files cannot grow beyond some bytes", trials.by_limits(4))
    trials.line("kill -9, SIGTERM or SIGINT at a random moment", trials.by_signals(4))
    trials.line("kill -9, SIGTERM or SIGINT just before a random step on files", trials.at_steps(4))


def work_in_this_process(work: Work, folder: Path) -> None:
    """Do the work here, so that processes made by fork find all that it imports."""
    work.begin(kinds.clean(folder))
    try:
        with redirect_stdout(StringIO()):
            work.run(folder)
    except SystemExit as end:
        if end.code:
            raise


def keep_other_lines(record: Record) -> None:
    """Add the lines of the record on disk that were not made again, and the time that they took."""
    new = {figure.what for figure in record.figures}
    for former in read_records():
        if former.name == record.name:
            record.figures += [figure for figure in former.figures if figure.what not in new]
            record.seconds, record.cpu_seconds = former.seconds, former.cpu_seconds


if __name__ == "__main__":
    parser = arguments(__doc__ or "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only lines with this text; the others are kept as they were")
    given = parser.parse_args()
    title, command = "Faults", "python tests/stress/faults.py --write"
    with (
        tempfile.TemporaryDirectory() as name,
        threadpool_limits(1),  # threads do not survive a fork
        recording("faults", title, command, FOUND, write=given.write) as record,
    ):
        all_trials(Trials(record, Path(name), given.seed, given.scale, given.only), Path(name))
        if given.only:
            keep_other_lines(record)
