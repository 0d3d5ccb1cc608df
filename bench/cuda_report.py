# SPDX-License-Identifier: Apache-2.0
"""What bench/cuda prints: the table of programs, and the budget of a step by part: planned, profiled, at the limit."""

OURS = "megacpp"

# Ops of the micro-step by part; all of the update is one part. What is in none is "other".
PARTS = {
    "products": ("dot", "mixed_dot"),
    "attention forward": ("attention",),
    "attention backward": ("attention_grad",),
    "expert products": ("ragged_dot", "ragged_dot_weight", "ragged_swiglu", "ragged_swiglu_grad"),
    "routing, rows of experts": ("top_k", "top_k_grad", "token_choice_slots", "expert_choice", "expert_counts", "dispatch",
                                 "combine", "slot_dots"),
    "state space": ("ssd", "ssd_grad"),
    "recurrence": ("rg_lru", "rg_lru_grad", "linear_recurrence"),
    "convolution": ("causal_conv", "causal_conv_grad", "causal_conv_weight", "shift_runs"),
    "norms": ("rms_norm", "rms_norm_grad"),
    "rope": ("rope",),
    "embedding": ("take", "scatter_add"),
    "loss": ("cross_entropy", "cross_entropy_grad"),
    "elementwise": ("fused",),
    "sums and layout": ("reduce", "cumsum", "transpose", "concatenate", "slice", "pad"),
}
UPDATE, OTHER = "update", "other"


def part_of(program, op):
    if program == "update":
        return UPDATE
    return next((part for part, ops in PARTS.items() if op in ops), OTHER)


def budget(planned_ops, measured_ops, step_ms):
    """Rows of parts that take any time. planned_ops as `megacpp plan --json` has them, measured_ops as `train --profile`."""
    parts = {part: {"calls": 0, "limit_ms": 0.0, "planned_ms": 0.0, "measured_ms": 0.0} for part in (*PARTS, UPDATE, OTHER)}
    for op in planned_ops:
        row = parts[part_of(op["program"], op["op"])]
        row["calls"] += op["calls"]
        row["limit_ms"] += 1e3 * op["limit_seconds"]
        row["planned_ms"] += 1e3 * op["seconds"]
    for op in measured_ops:
        parts[part_of(op["program"], op["op"])]["measured_ms"] += 1e3 * op["seconds"]
    rows = {part: {key: round(value, 3) for key, value in row.items()} for part, row in parts.items()
            if row["planned_ms"] or row["measured_ms"]}
    total = {key: round(sum(row[key] for row in rows.values()), 3) for key in ("calls", "limit_ms", "planned_ms", "measured_ms")}
    return {"parts": rows, "sum": total, "step_ms": step_ms, "gaps_ms": round(step_ms - total["measured_ms"], 3)}


def print_budget(model, table):
    print(f"\nbudget of {model}: milliseconds of a step")
    print(f"{'part':<26}{'calls':>7}{'limit':>9}{'planned':>9}{'profiled':>10}{'over plan':>11}{'to limit':>10}")

    def line(part, row):
        over, left = row["measured_ms"] - row["planned_ms"], row["measured_ms"] - row["limit_ms"]
        print(f"{part:<26}{row['calls']:>7.0f}{row['limit_ms']:>9.2f}{row['planned_ms']:>9.2f}{row['measured_ms']:>10.2f}"
              f"{over:>+11.2f}{left:>+10.2f}")

    for part, row in sorted(table["parts"].items(), key=lambda item: -item[1]["measured_ms"]):
        line(part, row)
    line("sum", table["sum"])
    print(f"{'a step of the long run':<26}{table['step_ms']:>35.2f}")
    print(f"{'of it in no kernel':<26}{table['gaps_ms']:>35.2f}  (below zero: marks of the profile and its clocks)")


def print_row(name, program):
    if "step_ms" not in program:
        print(f"{name:<28} {program.get('missing') or 'FAILED: ' + program['failed']}")
        return
    clock, power = (program["gpu"].get(key, {}).get("median", float("nan")) for key in ("clock_mhz", "power_w"))
    compiled = program.get("compile_s", program.get("cold_start_seconds"))
    print(f"{name:<28}{program['step_ms']:>9.1f}{program['mfu']:>8.3f}{program['tokens_per_second']:>11.0f}"
          f"{program['peak_bytes'] / 2 ** 30:>10.2f}{compiled:>11.1f}{clock:>8.0f}{power:>8.0f}")


def print_case(result):
    print(f"\n{result['model']} ({result['recipe']}), {result['tokens_per_step']} tokens a step")
    print(f"{'program':<28}{'ms/step':>9}{'MFU':>8}{'tokens/s':>11}{'peak GiB':>10}{'start s':>11}{'MHz':>8}{'W':>8}")
    for name, program in {OURS: result[OURS], **result["peers"]}.items():
        print_row(name, program)
    for start in ("cold", "cached"):
        parts, seconds = (result[OURS].get(f"{start}_start_{what}") for what in ("parts", "seconds"))
        if parts and seconds:
            print(f"{start} start, s: {seconds:.2f}, of it " + ", ".join(f"{part} {own:.2f}" for part, own in parts.items()))
    if "budget" in result[OURS]:
        print_budget(result["model"], result[OURS]["budget"])
    for aim in result["aims"]:
        print(f"{'met   ' if aim['met'] else 'MISSED'} {aim['what']}: {aim['value']} (aim {aim['aim']})")
    for failure in result["failures"]:
        print(f"FAILED {failure}")
