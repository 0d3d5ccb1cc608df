# SPDX-License-Identifier: Apache-2.0
"""Which recorded rows rules may be fitted to (tuning), and which judge them: as tests/support/blind_split.h says."""


def split_of(recipe, hardware, backend, settings):
    """"tuning" or "judging", by a hash of what was measured: nobody chooses."""
    text = f"167 {recipe} {hardware} backend={backend} {' '.join(settings)}"
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return "judging" if value >> 63 else "tuning"
