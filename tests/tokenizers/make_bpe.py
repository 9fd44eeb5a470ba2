"""Writes bpe.json: merges and encodings of Hugging Face's tokenizers, which bpe_reference_test.cpp compares with.

    pip install tokenizers && python3 tests/tokenizers/make_bpe.py > tests/tokenizers/bpe.json
"""
import json
import sys

import tokenizers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

STEMS = ["time", "water", "light", "press", "form", "train", "read", "light house", "river", "stone", "don't", "we'll",
         "she's", "they've", "I'm", "you'd", "aren't", "'tis", "''s", "Größe", "Straße", "naïve", "café", "où", "été",
         "вода", "время", "свет", "поезд", "ουρανός", "νερό", "水", "時間", "光", "電車", "ひかり", "みず", "भाषा",
         "مدينة", "שלום", "한국어", "🙂", "🚂🚃", "👩‍👩‍👧", "🇫🇷", "½", "³", "Ⅷ", "٣٤", "---", "...", "$%&", "x=y+1;", "\"quoted\"",
         "a_b", "<b>", "e\u0301", "\u200b", "_", "#!"]
ENDS = ["", "s", "ed", "ing", "er", "ness", "ung", "en", "ов", "ами", "の", "を", "!", ",", ".", "?", ":"]
SPACES = [" "] * 12 + ["  ", "   ", "\n", "\n\n", "\t", " \t ", "\r\n", "\u00a0", "\u3000", " \n  "]


class Random:
    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n


def text(seed, words):
    random = Random(seed)
    parts = []
    for _ in range(words):
        kind = random.below(10)
        if kind == 0:
            parts.append(str(random.below(10 ** (1 + random.below(6)))))
        elif kind == 1:
            parts.append("".join(chr(97 + random.below(1 + random.below(26))) for _ in range(1 + random.below(9))))
        else:
            parts.append(STEMS[min(random.below(len(STEMS)), random.below(len(STEMS)))] + ENDS[random.below(len(ENDS))])
        parts.append(SPACES[random.below(len(SPACES))])
    return "".join(parts)


PROBES = ["", "a", " ", "  ", "\n", " a", "a ", "a  b", "don't we'll 's 'S 'RE", "  x\n\n  y \t\n", "12 345 6½ ³", "🙂🙂 🚂",
          "unseen wörter ça et là", "<|end|>", "a<|end|>b <|end|><|end|> c", "<|end|", "\u0000\u0001", "e\u0301te\u0301",
          "\u00a0\u3000 x", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "=" * 100]


def case(source, vocab_size, min_frequency, special_tokens):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=min_frequency, special_tokens=special_tokens,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([source], trainer)
    written = tokenizer.to_str()
    merges = [m if isinstance(m, str) else " ".join(m) for m in json.loads(written)["model"]["merges"]]
    vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    probes = PROBES + [source[at:at + 300] for at in range(0, min(len(source), 4000), 1000)]
    return {"text": source, "vocab_size": vocab_size, "min_frequency": min_frequency, "special_tokens": special_tokens,
            "tokens": [token for token, _ in vocab], "merges": merges, "tokenizer_json": written,
            "encodings": [{"text": probe, "ids": tokenizer.encode(probe).ids} for probe in probes]}


if __name__ == "__main__":
    cases = [case(text(1, 3000), 1000, 2, ["<|end|>"]), case(text(2, 800), 5000, 0, []),
             case(text(3, 1500), 600, 5, ["<unk>", "<|end|>"]), case("", 300, 0, [])]
    json.dump({"tokenizers": tokenizers.__version__, "cases": cases}, sys.stdout, indent=None, separators=(",", ":"))
    sys.stdout.write("\n")
