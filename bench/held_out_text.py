# SPDX-License-Identifier: Apache-2.0
"""Text files of this machine as a training part and a held-out part: the same files give the same parts."""
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import typing

HELD_OUT_EVERY = 20
MOST_FILE_BYTES = 1e6  # larger ones are tables that a program wrote
# One copy of OpenSSL's headers for each processor: what is held out of these would stand in the rest.
LEFT_OUT = {"archs"}


@dataclasses.dataclass
class Source:
    roots: list
    is_wanted: typing.Callable  # of a path
    most_bytes: float           # of the training part
    most_held_out_bytes: float


def read_text(path):
    """The bytes of a file of UTF-8, or none."""
    try:
        text = path.read_bytes() if path.is_file() else b""
        text.decode()
    except (OSError, UnicodeDecodeError):
        return b""
    return text if len(text) <= MOST_FILE_BYTES and b"\0" not in text else b""


def texts_of(source):
    """Each text once, in the order of their hashes: it depends on contents alone, and any part of it is a fair one."""
    found = {}
    for root in source.roots:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in LEFT_OUT]
            for path in (pathlib.Path(folder, name) for name in names):
                text = read_text(path) if source.is_wanted(path) else b""
                if text:
                    found[hashlib.sha256(text).digest()] = text
    return [found[digest] for digest in sorted(found)]


def up_to(texts, most):
    taken, size = [], 0
    for text in texts:
        if size + len(text) <= most:
            taken.append(text)
            size += len(text)
    return taken, size


def write_parts(source, training_file, held_out_folder):
    """The training part as a document in every line of a .jsonl file, the held-out part as files, which eval reads."""
    texts = texts_of(source)
    training, size = up_to([text for i, text in enumerate(texts) if i % HELD_OUT_EVERY], source.most_bytes)
    held_out, held_out_size = up_to(texts[::HELD_OUT_EVERY], source.most_held_out_bytes)
    with open(training_file, "w", encoding="utf-8", newline="\n") as out:
        for text in training:
            out.write(json.dumps({"text": text.decode()}) + "\n")
    shutil.rmtree(held_out_folder, ignore_errors=True)
    held_out_folder.mkdir(parents=True)
    for i, text in enumerate(held_out):
        (held_out_folder / f"{i:04}.txt").write_bytes(text)
    return {"files": len(training), "bytes": size, "held_out_files": len(held_out), "held_out_bytes": held_out_size}
