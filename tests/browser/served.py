# SPDX-License-Identifier: Apache-2.0
"""Real runs to look at, and the program that serves them."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# A step of some tens of milliseconds on two cores.
SMALL = ("train.sequence=64", "train.batch=4", "train.log_every=1", f"data.text=[{ROOT / 'docs/errors.md'}]")
INTERRUPTED = 130  # exit status of a command that was asked to stop


class SiteError(Exception):
    """The program did not do what is needed to look at it."""


def train_words(program, run, settings):
    words = [program, "train", "recipes/nam56r-tiny.yaml", "--no-catalog", "--run-dir", str(run)]
    for setting in (*SMALL, *settings):
        words += ["--set", setting]
    return words


def train(program, run, *settings):
    words = train_words(program, run, settings)
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise SiteError(f"{' '.join(words)}: exit status {done.returncode}\n{done.stderr[-2000:]}")


def make_runs(program, folder):
    """Runs with one thing that differs, with two, and one that has a mesh."""
    train(program, folder / "one", "train.steps=120")
    train(program, folder / "two", "train.steps=120", "layout.tensor_parallel=2")
    train(program, folder / "both", "train.steps=40", "layout.tensor_parallel=2", "train.batch=8")
    train(program, folder / "mesh", "train.steps=20", "layout.data_parallel=2", "layout.tensor_parallel=2")


def copy_run(source, target):
    """What the dashboard reads of a run, without its checkpoints."""
    target.mkdir(parents=True)
    for name in ("recipe.yaml", "receipt.json", "log.jsonl"):
        shutil.copyfile(source / name, target / name)


class LiveRun:
    """A training that goes on until it is killed, by its own id."""

    def __init__(self, program, run, work):
        self.run = run
        self.err = pathlib.Path(work) / "train.err"
        with open(self.err, "wb") as err:
            self.process = subprocess.Popen(train_words(program, run, ("train.steps=100000",)),
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, cwd=ROOT)

    def wait_for_steps(self, steps, timeout=120.0):
        log = self.run / "log.jsonl"
        end = time.monotonic() + timeout
        while not (log.exists() and log.read_bytes().count(b"\n") >= steps):
            if self.process.poll() is not None:
                raise SiteError(f"the training ended: {self.err.read_text(errors='replace')[-2000:]}")
            if time.monotonic() > end:
                raise SiteError(f"{log} has no {steps} steps after {timeout} s")
            time.sleep(0.05)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Serve:
    """`megacpp serve` of a folder. A context: leaving it stops the server."""

    def __init__(self, program, runs, work):
        self.err = pathlib.Path(work) / "serve.err"
        with open(self.err, "wb") as err:
            self.process = subprocess.Popen([program, "serve", "--runs", str(runs), "--port", "0", "--no-catalog"],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err, cwd=ROOT)
        self.url = self.process.stdout.readline().decode().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", self.url)
        if not found:
            status = self.stop()
            raise SiteError(f"megacpp serve said {self.url!r} and ended with {status}:\n{self.said()}")
        self.port = int(found.group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def said(self):
        return self.err.read_text(errors="replace")[-3000:]

    def is_alive(self):
        return self.process.poll() is None

    def resident_bytes(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        """Its exit status."""
        if self.is_alive():
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = "no end within 30 s after SIGTERM"
        self.process.stdout.close()
        return status
