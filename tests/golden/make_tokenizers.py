# SPDX-License-Identifier: Apache-2.0
"""Writes golden files of tokenizers: small tokenizer.json files, trained here on this machine's C++ headers, and the ids that Hugging
Face's tokenizers give for code, Unicode, emoji, bytes that are no UTF-8 and added tokens. Needs tokenizers; not part of any build or test.

    python3 tests/golden/make_tokenizers.py tests/golden/tokenizers [CASE ...]

A folder for each case: tokenizer.json, and ids.json with {"version": of tokenizers, "cases": [{"bytes": hexadecimal, "ids": [...]}]}.
The folder ../sentencepiece gets a tokenizer.model and ids.json by the Python package sentencepiece, which is needed for it alone.
The folder trained/ has a tokenizer.json of `megacpp data train-tokenizer`; only its ids.json is written.

Hugging Face's library takes text only. Of other bytes, valid runs are encoded as texts of their own, and the bytes between them
go to the BPE model as one word.
"""
import glob
import json
import pathlib
import random
import sys

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def split(regex, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(regex), behavior=behavior, invert=invert)


def byte_level(*before, use_regex=False):
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
    return pre_tokenizers.Sequence([*before, last]) if before else last


SPECIAL = [AddedToken("<|endoftext|>", special=True, normalized=False)]
ADDED = SPECIAL + [
    AddedToken("<mask>", lstrip=True, special=True, normalized=False),
    AddedToken("<right>", rstrip=True, special=True, normalized=False),
    AddedToken("word", single_word=True, normalized=False),
    AddedToken("<|end", normalized=True),
    AddedToken("<|end|>", normalized=True),
    AddedToken("\u00e9t\u00e9", normalized=True),
    AddedToken("    ", normalized=False),
]
CASES = {  # name: (pre-tokenizer, normalizer, added tokens, changes of the file)
    "gpt2": (byte_level(use_regex=True), None, SPECIAL, {"string_merges": True}),
    "llama3": (byte_level(split(LLAMA3)), None, SPECIAL, {"ignore_merges": True, "drop_merges": 7}),
    "qwen2": (byte_level(split(QWEN2)), normalizers.NFC(), SPECIAL, {}),
    "o200k": (byte_level(split(O200K)), None, SPECIAL, {}),
    "removed": (byte_level(split(LLAMA3, "removed", True)), None, SPECIAL, {}),
    "sequence": (byte_level(split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?[!-/:-~\u4e00-\u9fa5]+"), pre_tokenizers.Split("_", "isolated"),
                            pre_tokenizers.Digits(individual_digits=True)), None, SPECIAL, {}),
    "digits": (byte_level(pre_tokenizers.Digits(individual_digits=False), split(r"\w+|[^\w\s]+"), use_regex=True), None, SPECIAL, {}),
    "added": (byte_level(split(LLAMA3)), normalizers.NFC(), ADDED, {}),
}

TEXTS = [
    "", " ", "a", "\n", "'", "Hello, world!", "  two  spaces  ", "tab\tand\r\nlines\r\n\r\n  end  ", "x\n\n\n  y", "\u00a0\u2003mixed\u3000 spaces\u180e\u0085.",
    "I'm you're he'd we'll they've IT'S DON'T 's 'S '\u017f 'LL 'xy ''", "1 12 123 1234 12345678 3.14159 1e-9 0x7f \u0661\u0662\u0663 \u2167 \u00bd x2 2x",
    "int main(int argc, char** argv) {\n  return argv[argc - 1][0] == '\\0' ? 1 : 0;  // end\n}\n",
    "#include <vector>\n\ttemplate <typename T>\n\tstruct S final { T x_{}; };\n", "caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m A\u030angstro\u0308m \u1e9b\u0323 \u0344 \u2126",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3002\u4e2d\u6587\u6587\u672c\uff0c\u6ca1\u6709\u7a7a\u683c\u3002\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8 \u1112\u1161\u11ab",
    "\u0627\u0644\u0644\u063a\u0629 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea \u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22 \u0f56\u0f7c\u0f51",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd \u2764\ufe0f ok\U0001f389ok", "\u24b6\u24d0 \U0001f130 \u00aa\u00ba _under_score_ a_b",
    "<|endoftext|>", "a<|endoftext|>b <|endoftext|> <|endoftext|><|endoftext|>", "<|endoftex", "  <mask>  x <right>  y<mask><right>\n z",
    "word words sword word's a word. \u00e9word word", "<|end <|end|> <|end|", "\u00e9t\u00e9 e\u0301te\u0301 \u00c9T\u00c9", "if:    x    \n        y", "a" * 300, "ab" * 100, " " * 150, "\n" * 70,
    "!" * 90 + "?", "x" * 49 + " " + "=" * 60, "\x00\x01\x7f\u0080\u009f\ufeff\ufffd\uffff\U0010ffff",
]
BROKEN = [b"\xff", b"\xff\xfe\xfd", b"abc\x80def", b"\xc3", b"\xc3\x28", b"\xe2\x82", b"\xe2\x82\xac\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"  \xff  \xff\n",
          "\u65e5\u672c".encode()[1:-1], bytes(range(256)), bytes(reversed(range(256))), b"<|endoftext|>\xff<|endoftext|>"]


def corpus():
    files = sorted(glob.glob("/usr/include/c++/*/bits/*.h"))[:60]
    return [pathlib.Path(file).read_text("utf-8", "replace") for file in files] + TEXTS * 5


def drawn_inputs(texts):
    draw = random.Random(18)
    points = [*range(32, 127), 9, 10, 13, 32, 32, 39, 0x301, 0x308, 0x17f, 0xa0, 0x2028, *range(0xc0, 0x180), *range(0x391, 0x3c9), *range(0x4e00, 0x4e30),
              *range(0x1f600, 0x1f620), *range(0x660, 0x66a), *range(0x900, 0x950), 0x200d, 0xfe0f]
    for _ in range(60):
        yield "".join(chr(draw.choice(points)) for _ in range(draw.randrange(1, 60))).encode()
    for _ in range(30):
        yield bytes(draw.choice([draw.randrange(256), draw.randrange(128), 32, 0xc3, 0xa9]) for _ in range(draw.randrange(1, 40)))
    for _ in range(40):
        text = draw.choice(texts)
        begin = draw.randrange(max(1, len(text) - 400))
        yield text[begin:begin + draw.randrange(1, 400)].encode()


def char_size(data, at):
    for size in range(1, 5):
        try:
            if at + size <= len(data) and len(data[at:at + size].decode()) == 1:
                return size
        except UnicodeDecodeError:
            pass
    return 0


def runs(data):
    """(bytes, whether they are UTF-8), in turn."""
    begin = at = 0
    valid = True
    while at < len(data):
        size = char_size(data, at)
        if (size > 0) != valid:
            if begin < at:
                yield data[begin:at], valid
            begin, valid = at, size > 0
        at += max(size, 1)
    if begin < at:
        yield data[begin:at], valid


def alphabet():
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def ids_of(tokenizer, data):
    chars, ids = alphabet(), []
    for run, valid in runs(data):
        if valid:
            ids += tokenizer.encode(run.decode(), add_special_tokens=False).ids
        else:
            ids += [token.id for token in tokenizer.model.tokenize("".join(chars[byte] for byte in run))]
    return ids


def train(name, texts):
    pre_tokenizer, normalizer, added, changes = CASES[name]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizer, decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(added)
    content = json.loads(tokenizer.to_str())
    model = content["model"]
    if changes.get("string_merges"):
        model["merges"] = [" ".join(pair) for pair in model["merges"]]
    if changes.get("drop_merges"):  # tokens that only ignore_merges finds
        model["merges"] = [pair for i, pair in enumerate(model["merges"]) if i % changes["drop_merges"]]
    model["ignore_merges"] = changes.get("ignore_merges", False)
    return json.dumps(content, ensure_ascii=False, indent=1)


def make_sentencepiece(folder, texts):
    import sentencepiece
    folder.mkdir(parents=True, exist_ok=True)
    lines = [line for text in texts for line in text.splitlines() if line][:20000]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_prefix=str(folder / "tokenizer"), vocab_size=600,
                                             model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                                             minloglevel=2)
    (folder / "tokenizer.vocab").unlink()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    cases = [{"text": text, "ids": processor.encode(text), "decoded": processor.decode(processor.encode(text))} for text in TEXTS]
    content = {"version": sentencepiece.__version__, "vocabulary": processor.get_piece_size(), "cases": cases}
    (folder / "ids.json").write_text(json.dumps(content, indent=0) + "\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    texts = corpus()
    for name in sys.argv[2:] or [*CASES, "trained", "sentencepiece"]:
        if name == "sentencepiece":
            make_sentencepiece(folder.parent / name, texts)
            continue
        (folder / name).mkdir(parents=True, exist_ok=True)
        file = folder / name / "tokenizer.json"
        if name in CASES:
            file.write_text(train(name, texts))
        tokenizer = Tokenizer.from_file(str(file))
        inputs = [*(text.encode() for text in TEXTS), *BROKEN, *drawn_inputs(texts)]
        cases = ",\n".join(json.dumps({"bytes": data.hex(), "ids": ids_of(tokenizer, data)}) for data in inputs)
        (folder / name / "ids.json").write_text(f'{{"version": "{tokenizers.__version__}", "cases": [\n{cases}\n]}}\n')


main()
