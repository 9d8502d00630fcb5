"""Measure training on a GPU: steps, the distance to the limits of the device, rivals, the paper's columns, whole fits.

    python benchmarks/gpu.py [--parts steps,rivals,paper,precision,fits] [--minutes 8] [--write] [--data FOLDER]

Each part is a list of measurements. With ``--write`` each is written to benchmarks/records/gpu.json as soon as it is
done, those that are there already are not repeated (``--again`` repeats them), and benchmarks/records/gpu.md is made of
all. After ``--minutes`` nothing new is begun: call it again to go on.

steps: µs of a step of 1 to 1000 networks side by side, from the difference of a long and a short training, beside two
limits: the multiply-adds of single precision that a multiprocessor does without tensor cores, 128 a clock, and the
bytes that its shared memory gives, 128 a clock. Multiprocessors that have no network count as well. rivals: PyTorch
batched over the members, and JAX, on the same device, each in a process of its own. paper: all fits of BDKN in the
paper's settings on ten sets, several fits at once on threads. precision: columns of setting 2 again, with products in
tf32. fits: whole calls of ``fit``, with ``n_jobs=-1`` for what the CPU does.

``--emulated`` runs everything on an emulated device with tiny sizes: to test this program, not to measure.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gpu_fits
from bdkn.environment import describe_machine
from bdkn.networks import Job, TrainingConfig
from bdkn.networks.gpu.cuda import Cuda
from bdkn.networks.gpu.engine import GPUEngine
from bdkn.networks.gpu.prediction import gpu_packing_of
from engine import Work
from gpu_rivals import rivals

RECORDS = Path(__file__).parent / "records"
NETWORKS = (1, 40, 132, 1000)
SHAPES = (
    Work("8-50-50-2", rows=4096, inputs=8),
    Work("9-36-36-36-36-36-2", rows=4096, inputs=9, hidden=(36,) * 5),
    Work("153-28-28-28-28-28-2, as with bins", rows=4096, inputs=153, hidden=(28,) * 5),
)
RIVAL_NETWORKS = (5, 132, 1000)
Found = dict[str, Any]
Measurement = Callable[[], Found]


@dataclass(frozen=True)
class Setting:
    """The device, and how large the measurements are: 1, or less for a test."""

    device: Cuda
    scale: float
    data: str | None
    at_once: int
    precision: str = "float32"

    @property
    def engine(self) -> GPUEngine:
        """The engine on the device."""
        return GPUEngine(self.device, self.precision)

    @property
    def torch_name(self) -> str:
        """What PyTorch calls the device."""
        return self.device.torch_name or "cpu"

    def count(self, number: int, least: int = 1) -> int:
        """Return a number in the scale of the measurements."""
        return max(least, round(self.scale * number))


def train_seconds(setting: Setting, work: Work, epochs: int) -> float:
    """Return the seconds of a training, the shortest of three."""
    config, rows = TrainingConfig(epochs=epochs), work.data()
    jobs = [Job(work.spec, config, seed) for seed in np.random.SeedSequence(0).spawn(work.members)]
    times = []
    for _ in range(3):
        began = time.perf_counter()
        setting.engine.train(jobs, rows)
        times.append(time.perf_counter() - began)
    return min(times)


def step_time(setting: Setting, work: Work) -> Found:
    """Return µs of a step of all networks, and its share of what the device could do."""
    few, more = setting.count(10), setting.count(50, 2)
    short, long = (train_seconds(setting, work, epochs) for epochs in (few, more))
    seconds = (long - short) / ((more - few) * work.steps)
    limits = device_limits(setting.device)
    flops = work.flops / work.steps * work.members
    return {
        "us_per_step": 1e6 * seconds,
        "us_per_member_step": 1e6 * seconds / work.members,
        "gflops": flops / seconds / 1e9,
        "share_of_flops": flops / seconds / limits["flops"],
        "share_of_shared_bytes": shared_bytes(work) * work.members / seconds / limits["shared bytes"],
        "start_s": short - seconds * few * work.steps,
        "launches": launches(setting, work, more),
    }


def device_limits(device: Cuda) -> dict[str, float]:
    """Return the flops and the bytes of shared memory per second that a device can reach."""
    clock = 1e3 * device.attribute("CLOCK_RATE") if hasattr(device, "attribute") else 1e9
    return {"flops": clock * device.multiprocessors * 128 * 2, "shared bytes": clock * device.multiprocessors * 128}


def shared_bytes(work: Work) -> float:
    """Return the bytes that warps read of shared memory in one step, by the tiles of the program."""
    shapes = [(rows, columns) for _, rows, columns in gpu_packing_of(work.spec).places]
    batch = -(-work.batch // 16) * 16
    products = sum(batch * rows * columns for rows, columns in shapes)  # forward
    products += sum(batch * rows * columns for rows, columns in shapes[1:])  # deltas
    products += sum(work.batch * -(-rows // 16) * 16 * columns for rows, columns in shapes)  # gradients
    return 0.75 * products + 24.0 * gpu_packing_of(work.spec).size  # 768 bytes for 1024 products; three numbers of Adam


def launches(setting: Setting, work: Work, epochs: int) -> int:
    """Return how many launches a training takes."""
    counting = Counting(setting.device)
    jobs = [Job(work.spec, TrainingConfig(epochs=epochs), s) for s in np.random.SeedSequence(0).spawn(work.members)]
    GPUEngine(counting).train(jobs, work.data())  # type: ignore[arg-type]
    return counting.launches


class Counting:
    """A device that counts launches."""

    def __init__(self, device: Cuda) -> None:
        self._device, self.launches = device, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def launch(self, *arguments: Any) -> None:
        """Count and launch."""
        self.launches += 1
        self._device.launch(*arguments)


def against_rivals(setting: Setting, work: Work) -> Found:
    """Return µs of a step of all networks, by us and by the rivals, and how many times faster we are."""
    steps = setting.count(400, 6)
    ours = step_time(setting, work)["us_per_step"]
    found: Found = {"bdkn": ours}
    for name, timer in rivals(replace(work, rows=setting.count(7373, 200)), setting.torch_name, steps).items():
        if isinstance(timer, str):
            found[name] = timer
            continue
        try:
            found[name] = 1e6 * timer()
        except RuntimeError as error:  # a library that cannot use the device
            found[name] = str(error).splitlines()[0]
    times = {name: value / ours for name, value in found.items() if isinstance(value, float) and name != "bdkn"}
    return {"us_per_step": found, "times faster": times}


def measurements(setting: Setting, parts: list[str]) -> Iterator[tuple[str, str, Measurement]]:
    """Yield the part, the name and the function of each measurement."""
    numbers = NETWORKS if setting.scale == 1 else (1, 3)
    shapes = SHAPES if setting.scale == 1 else SHAPES[:1]
    if "steps" in parts:
        for shape in shapes:
            for n in numbers:
                work = replace(shape, members=n, rows=setting.count(shape.rows, 64))
                yield "steps", f"{shape.name}, {n} networks", partial(step_time, setting, work)
            if setting.scale == 1:
                work, rounded = replace(shape, members=132), replace(setting, precision="tf32")
                yield "steps", f"{shape.name}, 132 networks, tf32", partial(step_time, rounded, work)
    if "rivals" in parts:
        for n in RIVAL_NETWORKS if setting.scale == 1 else (2,):
            work = replace(SHAPES[0], members=n, rows=setting.count(SHAPES[0].rows, 64))
            yield "rivals", f"{work.name}, {n} networks", partial(against_rivals, setting, work)
    if "paper" in parts:
        for number in (1, 2) if setting.scale == 1 else (1,):
            columns = gpu_fits.SETS if setting.scale == 1 else gpu_fits.SETS[:1]
            for name in columns:
                column = partial(
                    gpu_fits.paper_column, number, name, setting.engine, setting.data, setting.at_once, setting.scale
                )
                yield "paper", f"setting {number}, {name}", column
    if "precision" in parts:
        engine = replace(setting, precision="tf32").engine
        for name in gpu_fits.SMALL_SETS if setting.scale == 1 else gpu_fits.SETS[:1]:
            column = partial(gpu_fits.paper_column, 2, name, engine, setting.data, setting.at_once, setting.scale)
            yield "precision", f"setting 2, {name}", column
    if "fits" in parts:
        for name in gpu_fits.FITS if setting.scale == 1 else list(gpu_fits.FITS)[-1:]:
            yield "fits", name, partial(gpu_fits.whole_fit, name, setting.engine, setting.scale)


def page(record: Found) -> str:
    """Return all measurements as Markdown."""
    lines = ["# Training on a GPU", "", "`python benchmarks/gpu.py --write`", "", f"Device: {record['device']}."]
    lines += [f"Machine: {record['machine']}.", ""]
    lines += [
        "| networks | µs a step | µs a member-step | share of flops | share of shared memory | launches | start, s |"
    ]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for name, found in record.get("steps", {}).items():
        shares = f"{found['share_of_flops']:.0%} | {found['share_of_shared_bytes']:.0%} | {found['launches']}"
        times = f"{found['us_per_step']:.1f} | {found['us_per_member_step']:.3f}"
        lines.append(f"| {name} | {times} | {shares} | {found['start_s']:.2f} |")
    for name, found in record.get("rivals", {}).items():
        lines += ["", f"{name}:", "", "| program | µs a step of all | times bdkn |", "| --- | ---: | ---: |"]
        for rival, value in found["us_per_step"].items():
            shown = value if isinstance(value, str) else f"{value:.1f}"
            of_ours = "" if isinstance(value, str) else f"{value / found['us_per_step']['bdkn']:.1f}"
            lines.append(f"| {rival} | {shown} | {of_ours} |")
    lines += paper_lines(record.get("paper", {})) + precision_lines(record) + fit_lines(record.get("fits", {}))
    return "\n".join(lines) + "\n"


def paper_lines(found: Found) -> list[str]:
    """Return the table of the paper's columns, and their sums."""
    if not found:
        return []
    lines = ["", "The paper's columns of BDKN, all splits:", ""]
    lines += ["| setting and set | splits | rows | seconds | minutes printed | data | RMSE | NLL |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |"]
    for name, one in found.items():
        scores = " | ".join(f"{one[key]:.3f}" if key in one else "" for key in ("rmse", "nll"))
        printed = "" if one["minutes printed"] is None else one["minutes printed"]
        numbers = f"{one['splits']} | {one['rows']} | {one['seconds']:.2f} | {printed}"
        lines.append(f"| {name} | {numbers} | {one['data']} | {scores} |")
    for setting in (1, 2):
        own = [one for name, one in found.items() if name.startswith(f"setting {setting},")]
        if len(own) == len(gpu_fits.SETS):
            printed, seconds = sum(one["minutes printed"] for one in own), sum(one["seconds"] for one in own)
            lines += ["", f"Setting {setting}, all ten sets: {seconds:.1f} s, against {printed:.0f} minutes printed."]
    return lines


def precision_lines(record: Found) -> list[str]:
    """Return the table of scores with products in single precision and in tf32."""
    pairs = [(name, record.get("paper", {}).get(name), one) for name, one in record.get("precision", {}).items()]
    lines = ["", "Products in tf32 beside single precision:", ""]
    lines += ["| setting and set | seconds, tf32 | RMSE | RMSE, tf32 | NLL | NLL, tf32 |"]
    lines += ["| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, single, rounded in pairs:
        if single and "rmse" in single:
            scores = " | ".join(f"{one[key]:.3f}" for key in ("rmse", "nll") for one in (single, rounded))
            lines.append(f"| {name} | {rounded['seconds']:.2f} | {scores} |")
    return lines if pairs else []


def fit_lines(found: Found) -> list[str]:
    """Return the table of whole fits."""
    if not found:
        return []
    lines = ["", "| fit | seconds | of these training | members in use |", "| --- | ---: | ---: | ---: |"]
    for name, one in found.items():
        training = one["stages"].get("train", 0.0)
        lines.append(f"| {name} | {one['seconds']:.1f} | {training:.1f} | {one['members in use']} |")
    return lines


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="steps,rivals,paper,precision,fits")
    parser.add_argument("--minutes", type=float, default=8.0, help="begin nothing new after so long")
    parser.add_argument("--write", action="store_true", help="write benchmarks/records/gpu.json and .md")
    parser.add_argument("--results", type=Path, default=RECORDS, help="folder to write them to")
    parser.add_argument("--again", action="store_true", help="repeat what is in benchmarks/records/gpu.json already")
    parser.add_argument("--data", help="folder of the paper's data sets; random rows of their size without it")
    parser.add_argument("--at-once", type=int, default=20, help="fits at once in the part paper")
    parser.add_argument("--emulated", action="store_true", help="tiny sizes on an emulated device, as a test")
    return parser.parse_args(arguments)


def get_setting(given: argparse.Namespace) -> Setting:
    """Return the device and the sizes."""
    if given.emulated:
        sys.path.append(str(Path(__file__).parents[1] / "tests" / "training"))
        from emulated_gpu import Emulated

        return Setting(Emulated(), 0.02, given.data, 2)
    from bdkn.networks.gpu.cuda import find_cuda

    return Setting(find_cuda(), 1.0, given.data, given.at_once)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print and, with ``--write``, write what is not there yet."""
    given = parse(arguments)
    setting, began, file = get_setting(given), time.monotonic(), given.results / "gpu.json"
    record: Found = json.loads(file.read_text("utf-8")) if given.write and file.exists() else {}
    record |= {"device": setting.device.name, "machine": describe_machine()}
    for part, name, measure in measurements(setting, given.parts.split(",")):
        if name in record.get(part, {}) and not given.again:
            continue
        if time.monotonic() - began > 60 * given.minutes:
            print("time is up; call it again to go on")
            break
        found = measure()
        print(part, name, json.dumps(found), flush=True)
        record.setdefault(part, {})[name] = found
        if given.write:
            file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
            (given.results / "gpu.md").write_text(page(record), encoding="utf-8")
    print(page(record))


if __name__ == "__main__":
    main()
