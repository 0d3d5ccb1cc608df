# SPDX-License-Identifier: Apache-2.0
"""What the results of bench/cpp_headers say: the table, how far the curves of its layouts are apart, the curves."""
import math

from loss_curve import Curve


def held_out_of(row):
    """[(step, bits per byte)]"""
    return [(int(step), point["bits_per_byte"]) for step, point in row["held_out"].items()]


def largest_difference(one, eight):
    """Of the held-out bits per byte of two runs with the same checkpoints, as a part of the first's."""
    one, eight = dict(held_out_of(one)), dict(held_out_of(eight))
    return max(abs(eight[step] / one[step] - 1) for step in one)


def print_report(report):
    one, eight, lora, data = report["one_chip"], report["eight_chips"], report["lora"], report["data"]
    tokens = one["steps"] * one["tokens_per_step"]
    print(f"machine              {report['machine']}, {one['cores']} cores, {report['date']}")
    for name, row in data.items():
        print(f"{name:<20} {row['bytes'] / 1e6:.1f} MB of {row['files']} files, {row['tokens'] / 1e6:.2f}M tokens of "
              f"{row['bytes'] / row['tokens']:.2f} bytes; held out {row['held_out_bytes'] / 1e3:.0f} kB of "
              f"{row['held_out_files']} files")
    print(f"model                {one['parameters'] / 1e6:.2f}M parameters, {one['steps']} steps, "
          f"{tokens / 1e6:.2f}M tokens\n")
    print(f"{'tokens':>10}{'1 chip':>10}{'8 chips':>10}   held-out bits per byte")
    for (step, left), (_, right) in zip(held_out_of(one), held_out_of(eight)):
        print(f"{step * one['tokens_per_step']:>10}{left:>10.4f}{right:>10.4f}")
    print(f"\nlargest difference   {report['largest_difference']:.2%} (aim {report['aim']:.0%})")
    print(f"tokens/s             {one['tokens_per_second']} on 1 chip, {eight['tokens_per_second']} on 8")
    print(f"LoRA                 {lora['adapters'] / 1e6:.2f}M weights, {lora['steps']} steps: held-out Python "
          f"{lora['python_before']:.3f} -> {lora['python_after']:.3f} bits per byte, headers "
          f"{lora['headers_before']:.3f} -> {lora['headers_after']:.3f}")
    for when, samples in (("1 chip", one["samples"]), ("8 chips", eight["samples"]),
                          ("before LoRA", lora["samples_before"]), ("after LoRA", lora["samples_after"])):
        for sample in samples:
            print(f"--- {when}\n{sample['prompt']}{sample['text']}")


def curves_of(report):
    """Bits per byte over millions of tokens; those of the training text by its mean bytes per token."""
    bits = 1 / math.log(2) / report["data"]["headers"]["bytes"] * report["data"]["headers"]["tokens"]
    curves = []
    for name, label in (("one_chip", "1 chip"), ("eight_chips", "8 chips: data 2 x expert 2 x model 2")):
        row = report[name]
        millions = row["tokens_per_step"] / 1e6
        curves.append(Curve(label=label, training=[(step * millions, loss * bits) for step, loss in row["training"]],
                            held_out=[(step * millions, value) for step, value in held_out_of(row)]))
    return curves
