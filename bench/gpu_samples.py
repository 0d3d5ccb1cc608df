# SPDX-License-Identifier: Apache-2.0
"""Clocks, power and memory of an NVIDIA GPU beside a measurement, once a second, as nvidia-smi tells them."""
import statistics
import subprocess
import threading
import time

FIELDS = {"clocks.sm": "clock_mhz", "power.draw": "power_w", "temperature.gpu": "temperature_c", "memory.used": "used_mib"}
FREE_MIB = 2000  # what the driver may hold of a card that nobody uses


def ask(fields):
    """One line of nvidia-smi as a list of texts; empty without it, or without a GPU."""
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return [word.strip() for word in lines[0].split(",")] if lines else []


def facts():
    """Name, driver and limit of the first GPU; empty without one."""
    words = ask("name,driver_version,power.limit")
    return dict(zip(("name", "driver", "power_limit_w"), words))


def wait_until_free(limit=90):
    """A process that was ended keeps its memory for a moment. Whether it is free."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        used = ask("memory.used")
        if not used or float(used[0]) < FREE_MIB:
            return True
        time.sleep(0.5)
    return False


class Samples:
    """Taken from begin() to summary()."""

    def __init__(self):
        self.rows, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self.take, daemon=True)

    def begin(self):
        self.thread.start()
        return self

    def take(self):
        while not self.over.wait(1.0):
            words = ask(",".join(FIELDS))
            try:
                self.rows.append([float(word) for word in words])
            except ValueError:  # "[N/A]": this card does not tell
                continue

    def summary(self):
        self.over.set()
        self.thread.join()
        columns = zip(FIELDS.values(), zip(*[row for row in self.rows if row]))
        return {"count": len(self.rows)} | {name: {"least": min(values), "median": statistics.median(values), "most": max(values)}
                                            for name, values in columns}
