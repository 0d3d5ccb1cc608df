#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small datasets in Megatron's .bin/.idx format, following the documented layout and nothing of ours.

The data tests read these files and compare them with what the C++ writer makes of the same documents. Each element
type has one dataset; `sentences` has documents of several sequences, as Megatron's --split-sentences writes them.
Run in this folder to make the files again."""
import itertools
import struct

# Codes of the element types, with their names in numpy and their letters in struct.
TYPES = {1: ("uint8", "B"), 2: ("int8", "b"), 3: ("int16", "h"), 4: ("int32", "i"), 5: ("int64", "q"),
         6: ("float64", "d"), 7: ("float32", "f"), 8: ("uint16", "H")}
DOCUMENTS = [[1, 2, 3], [], [4, 5, 6, 7, 8], [9], [10, 11, 12, 13], [100, 101, 102]]


def write(prefix, code, documents):
    """documents: lists of sequences of tokens."""
    sequences = [sequence for document in documents for sequence in document]
    letter = TYPES[code][1]
    lengths = [len(sequence) for sequence in sequences]
    offsets = [end * struct.calcsize("<" + letter) for end in [0] + list(itertools.accumulate(lengths))[:-1]]
    bounds = [0] + list(itertools.accumulate(len(document) for document in documents))
    with open(prefix + ".bin", "wb") as out:
        for sequence in sequences:
            out.write(struct.pack(f"<{len(sequence)}{letter}", *sequence))
    with open(prefix + ".idx", "wb") as out:
        out.write(b"MMIDIDX\x00\x00")
        out.write(struct.pack("<QBQQ", 1, code, len(lengths), len(bounds)))
        out.write(struct.pack(f"<{len(lengths)}i", *lengths))
        out.write(struct.pack(f"<{len(offsets)}q", *offsets))
        out.write(struct.pack(f"<{len(bounds)}q", *bounds))


for number, (name, _) in TYPES.items():
    write(name, number, [[document] for document in DOCUMENTS])
write("sentences", 4, [[[1, 2], [3]], [[4], [5, 6], [7, 8]], [[9, 10]]])
