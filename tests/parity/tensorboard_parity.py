#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares event files of megacpp, as TensorBoard reads them, with the log of the same run.

Needs the package tensorboard (TensorFlow is not needed). A tiny model with experts is trained with --tensorboard, goes
back to an earlier checkpoint with --resume, and is exported; what EventAccumulator and EventFileLoader find must be the
numbers of log.jsonl, rounded to f32: every metric, at its step and wall time, and no step twice.

usage: tests/parity/tensorboard_parity.py build/release/bin/megacpp [--json FILE]
The exit status is the verdict.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy
import tensorboard
from tensorboard.backend.event_processing import event_accumulator, event_file_loader

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KEYS = ["train.steps=8", "train.log_every=3", "checkpoint.every=4", "train.sequence=32", "train.batch=2",
        f"data.text=[{ROOT}/docs/errors.md]"]


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def logged_scalars(log):
    """{name: {step: (wall time, value)}} of every number in a log, with the names that end tags."""
    scalars = {}

    def add(name, step, line, value):
        if value is not None:
            scalars.setdefault(name, {})[step] = (line["logged_at"], float(numpy.float32(value)))

    for line in map(json.loads, log.read_text().splitlines()):
        step = line["step"]
        for name, value in line.items():
            if not isinstance(value, list) and name not in ("step", "logged_at"):
                add(name, step, line, value)
        add("tokens_per_second", step, line, line["tokens"] / line["seconds"])
        seconds = line["step_seconds"]
        for i, value in enumerate(seconds):
            add("step_seconds", step + 1 - len(seconds) + i, line, value)
        for block in line["experts"]:
            add(f"{block['block']}/imbalance", step, line, block["imbalance"])
            for name in ("share", "dropped"):
                for expert, value in enumerate(block[name]):
                    add(f"{block['block']}/{name}/{expert}", step, line, value)
    return scalars


def read_scalars(folder):
    """The same of a folder of event files, and tags that hold a step twice."""
    accumulator = event_accumulator.EventAccumulator(str(folder), size_guidance={event_accumulator.SCALARS: 0})
    accumulator.Reload()
    scalars, repeated = {}, []
    for tag in accumulator.Tags()["scalars"]:
        events = accumulator.Scalars(tag)
        group, name = tag.split("/", 1)
        scalars[name] = {event.step: (event.wall_time, event.value) for event in events}
        if len(scalars[name]) != len(events):
            repeated.append(tag)
    return scalars, repeated


def loaded_tags(file):
    """Tags whose values TensorBoard's own loader shows in its scalars page."""
    tags = set()
    for event in event_file_loader.EventFileLoader(str(file)).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars" or value.HasField("tensor"):
                tags.add(value.tag.split("/", 1)[1])
    return tags


def compare(what, folder, log):
    wanted = logged_scalars(log)
    got, repeated = read_scalars(folder)
    differ = sorted(name for name in wanted.keys() | got.keys() if wanted.get(name) != got.get(name))
    files = sorted(folder.glob("*tfevents*"))
    unseen = sorted(wanted.keys() - set().union(*map(loaded_tags, files)))
    row = {"what": what, "files": len(files), "scalars": len(got), "values": sum(map(len, got.values())),
           "differ": differ, "repeated": repeated, "unseen": unseen,
           "passed": bool(got) and not differ and not repeated and not unseen}
    print(f"{what:<24} {row['files']} files, {row['scalars']} scalars, {row['values']} values; differ {differ or 'none'}, "
          f"steps twice {repeated or 'none'}, not shown {unseen or 'none'}")
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--json", help="write the result there")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())
    sets = [word for key in KEYS for word in ("--set", key)]
    with tempfile.TemporaryDirectory() as work:
        directory = pathlib.Path(work) / "run"
        log = directory / "log.jsonl"
        run(program, "train", ROOT / "recipes/nam56r-tiny.yaml", *sets, "--run-dir", directory, "--no-catalog", "--tensorboard")
        rows = [compare("train --tensorboard", directory, log)]
        run(program, "train", "--resume", directory / "checkpoints/step-00000004", "--no-catalog", "--tensorboard")
        rows.append(compare("gone back to step 4", directory, log))
        run(program, "runs", "export", directory, "--tensorboard", pathlib.Path(work) / "events")
        rows.append(compare("runs export", pathlib.Path(work) / "events" / "run", log))
    result = {"tensorboard": tensorboard.__version__, "date": time.strftime("%Y-%m-%d"), "rows": rows}
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(result, indent=2) + "\n")
    return 0 if all(row["passed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
