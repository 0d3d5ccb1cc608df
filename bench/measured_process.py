# SPDX-License-Identifier: Apache-2.0
"""A program that is measured: a process of its own, ended with all that it started."""
import atexit
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Process:
    """A child with the lines of its standard error and the moment of its first step."""

    def __init__(self, command, environment):
        self.start, self.told, self.first_step = time.monotonic(), [], None
        self.printed = tempfile.TemporaryFile("w+")
        self.child = subprocess.Popen(command, stdout=self.printed, stderr=subprocess.PIPE, text=True, errors="replace",
                                      start_new_session=True, env=environment, cwd=ROOT)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        atexit.register(self.end, 5)  # where the measuring is stopped

    def read(self):
        for line in self.child.stderr:
            self.told.append(line.rstrip())
            if self.first_step is None and re.match(r"step +\d", line):
                self.first_step = time.monotonic() - self.start

    def await_first_step(self, limit):
        """Until it says that a step is done, it ends, or so many seconds have passed since its start."""
        while not self.is_over() and self.first_step is None and time.monotonic() < self.start + limit:
            time.sleep(0.02)

    def is_over(self):
        return self.child.poll() is not None

    def end(self, limit):
        """Asks it to stop, and kills what does not in that time."""
        for order, seconds in ((signal.SIGTERM, limit), (signal.SIGKILL, 30)):
            if self.is_over():
                break
            os.killpg(self.child.pid, order)
            try:
                self.child.wait(seconds)
            except subprocess.TimeoutExpired:
                continue
        self.reader.join(10)

    def output(self):
        self.printed.seek(0)
        return self.printed.read()

    def why(self):
        starts = [at for at, line in enumerate(self.told) if re.match(r"error E\d|[\w.]*(Error|Exception)\b", line)]
        return " | ".join(line.strip() for line in self.told[starts[-1] if starts else -3:][:8] if line)

    def result(self, limit):
        """The JSON object that it prints, or {"failed": why}."""
        try:
            self.child.wait(limit)
        except subprocess.TimeoutExpired:
            self.end(10)
            return {"failed": f"not done after {limit:.0f} s: {self.why()}"}
        self.reader.join(10)
        if self.child.returncode:
            return {"failed": f"exit status {self.child.returncode}: {self.why()}"}
        printed = self.output()
        for text in (printed, printed.strip().rpartition("\n")[2]):  # libraries may have said something before
            try:
                return json.loads(text)
            except ValueError:
                continue
        return {"failed": f"no JSON: {printed[-200:]!r}"}
