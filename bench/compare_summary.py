# SPDX-License-Identifier: Apache-2.0
"""Reads the JSON files of one bench/compare run (<model>-<program>-<round>.json), prints the table, records it."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

PROGRAMS = {"megacpp": "megacpp", "jax_idiomatic": "JAX, idiomatic", "jax_tuned": "JAX, tuned"}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--load", type=float, required=True, help="load average before the first run")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--version", required=True, help="of megacpp")
    parser.add_argument("--record", type=pathlib.Path, help="folder to write the JSON file to")
    return parser.parse_args()


def machine():
    """The processor's name, as lscpu knows it."""
    text = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"^Model name:\s*(\S.*)$", text, re.MULTILINE)
    return found.group(1).strip() if found and found.group(1) != "-" else platform.machine()


def record(report, folder, kind):
    """Writes the report as <date>-<machine>-<kind>.json."""
    folder.mkdir(exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", report["machine"].lower()).strip("-")
    path = folder / f"{report['date']}-{slug}-{kind}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nrecorded in {path}")


def load_runs(folder):
    """{model: {program: [run, ...]}}"""
    runs = {}
    for path in sorted(folder.glob("*-*-*.json")):
        model, program, _ = path.stem.split("-")
        runs.setdefault(model, {}).setdefault(program, []).append(json.loads(path.read_text()))
    return runs


def rate(run):
    return run["tokens_per_second"] if "tokens_per_second" in run else run["tokens_per_s"]


def compile_seconds(run):
    return run["compile_seconds"] if "compile_seconds" in run else run["compile_s"]


def summarise(programs, matmul_gflops):
    """Medians of each program of one model. FLOPs are counted the same way for all: the JAX script's figure."""
    jax = programs["jax_idiomatic"][0]
    flops_per_token = jax["flops_per_step"] / jax["tokens_per_step"]
    rows = {}
    for program in PROGRAMS:
        runs = programs[program]
        tokens = statistics.median(map(rate, runs))
        rows[program] = {
            "tokens_per_second": round(tokens, 1), "rounds": [round(rate(run), 1) for run in runs],
            "compile_seconds": round(statistics.median(map(compile_seconds, runs)), 4),
            "gflops": round(tokens * flops_per_token / 1e9, 1),
            "fraction_of_matmul": round(tokens * flops_per_token / 1e9 / matmul_gflops, 3),
        }
    ours = rows["megacpp"]
    for program in ("jax_idiomatic", "jax_tuned"):
        rows[program]["megacpp_speedup"] = round(ours["tokens_per_second"] / rows[program]["tokens_per_second"], 3)
        rows[program]["megacpp_compile_speedup"] = round(rows[program]["compile_seconds"] / ours["compile_seconds"], 1)
    return rows


def print_table(report):
    print(f"{report['machine']}, {report['threads']} cores, {report['date']}, "
          f"load average {report['load_average_before']} before, {report['load_average_after']} after")
    print(f"{report['megacpp']}, JAX {report['jax']}, NumPy {report['numpy']}, matrix product "
          f"{report['matmul_gflops']} GFLOP/s (2048^3, f32, OpenBLAS)\n")
    print(f"{'model':<8}{'program':<17}{'tokens/s':>9}{'ours is':>9}{'compile s':>11}{'ours is':>9}"
          f"{'GFLOP/s':>9}{'of matmul':>11}")
    for model, rows in report["models"].items():
        for program, row in rows.items():
            speedup = f"{row['megacpp_speedup']:.2f}x" if "megacpp_speedup" in row else ""
            compile_speedup = f"{row['megacpp_compile_speedup']:.0f}x" if "megacpp_compile_speedup" in row else ""
            print(f"{model:<8}{PROGRAMS[program]:<17}{row['tokens_per_second']:>9.1f}{speedup:>9}"
                  f"{row['compile_seconds']:>11.3f}{compile_speedup:>9}{row['gflops']:>9.1f}"
                  f"{row['fraction_of_matmul']:>10.0%}")


def main():
    args = parse_args()
    runs = load_runs(args.folder)
    every_jax = [run for programs in runs.values() for name in ("jax_idiomatic", "jax_tuned") for run in programs[name]]
    matmul_gflops = statistics.median(run["matmul_gflops_numpy"] for run in every_jax)
    report = {
        "machine": machine(), "arch": platform.machine(), "threads": args.threads,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "load_average_before": args.load,
        "load_average_after": round(os.getloadavg()[0], 2),
        "megacpp": args.version, "jax": every_jax[0]["jax"],
        "numpy": every_jax[0]["numpy"], "steps": args.steps, "matmul_gflops": matmul_gflops,
        "models": {model: summarise(programs, matmul_gflops) for model, programs in runs.items()},
    }
    print_table(report)
    if report["load_average_after"] > args.threads + 0.5:
        print("compare: WARNING: other work shared the cores during the run; these figures are low", file=sys.stderr)
    if args.record:
        record(report, args.record, "peers")


if __name__ == "__main__":
    main()
