"""Writes sentencepiece.json: small models that SentencePiece trained, and what it makes of texts.

    apt-get install python3-sentencepiece && python3 tests/tokenizers/make_sentencepiece.py
"""
import base64
import json
import os
import random
import tempfile

import sentencepiece as sp

here = os.path.dirname(os.path.abspath(__file__))
random.seed(3)
TEXTS = ["", " ", "   ", "Hello world", "  Hello  world ", "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "I'm you're WE'LL it'S", "1234567 3.14 \u00bd",
  "\u65e5\u672c\u8a9e \u4e2d\u6587 \ud55c\uad6d\uc5b4", "\U0001f600\U0001f468\u200d\U0001f469", "e\u0301 caf\u00e9 n\u0303", "a\r\nb\r\n\r\n c\n\n\nd \n e", "\t\ttabs\t x",
  "\u00a0nbsp\u00a0x \u3000 wide", "\uff21\uff22\uff23\uff11 \ufb01 \ufb02", "def f(x):\n    return x  # comment\n\n", "$100 <sep>||| the of the of", "<s>hi</s> <unk> <0x41> \u2581\u2581x \u2581",
  "the device and the tensor", "training step after training step", "x" * 70, "\ufeffbom \ufffd x", "Straße \u0130 \u01c5"]
words = "the of and to tensor device memory step training graph kernel model loss with for on a is in that one".split()
alphabet = "abcdefgh ABC 0123 .,!'\"-\n\t \u00e9\u00fc\u65e5\U0001f600\u0301\u00a0\u2581<>|\ufb01"
TEXTS += [" ".join(random.choice(words) for _ in range(12)) for _ in range(8)]
TEXTS += ["".join(random.choice(alphabet) for _ in range(40)) for _ in range(16)]
RULES = {"\ufb01": "fi", "\ufb02": "fl", "\uff21": "A", "\uff22": "B", "e\u0301": "\u00e9", "\u00a0": " ", "\u3000": " ",
         "\t": " ", "\n": " ", "\u200d": "", "\u00bd": "1/2"}
MODELS = {
  "bpe with bytes": dict(model_type="bpe", vocab_size=460, byte_fallback=True, normalization_rule_name="identity",
                         remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
                         user_defined_symbols=["<sep>", "    ", "|||", "the of"]),
  "bpe": dict(model_type="bpe", vocab_size=220, rules=True),
  "unigram": dict(model_type="unigram", vocab_size=220, rules=True, user_defined_symbols=["<sep>", "|||"]),
  "unigram with bytes": dict(model_type="unigram", vocab_size=460, byte_fallback=True,
                             normalization_rule_name="identity", add_dummy_prefix=False),
  "spaces behind words": dict(model_type="bpe", vocab_size=200, treat_whitespace_as_suffix=True,
                              normalization_rule_name="identity"),
}
out = []
with tempfile.TemporaryDirectory() as folder:
    corpus = os.path.join(folder, "corpus.txt")
    with open(corpus, "w") as f:
        for name in ("tutorial.md", "training.md", "architecture.md"):
            f.writelines(l for l in open(os.path.join(here, "../../docs", name)) if l.strip() and l.isascii())
    rules = os.path.join(folder, "rules.tsv")
    with open(rules, "w") as f:
        for left, right in RULES.items():
            f.write("\t".join(" ".join("%x" % ord(c) for c in side) for side in (left, right)) + "\n")
    for name, options in MODELS.items():
        options = dict(options)
        if options.pop("rules", False): options["normalization_rule_tsv"] = rules
        prefix = os.path.join(folder, "m")
        sp.SentencePieceTrainer.train(input=corpus, model_prefix=prefix, minloglevel=2, num_threads=1,
                                        character_coverage=0.999, **options)
        bytes_ = open(prefix + ".model", "rb").read()
        model = sp.SentencePieceProcessor(model_proto=bytes_)
        cases = [{"text": t, "ids": model.encode(t), "decoded": model.decode(model.encode(t))} for t in TEXTS]
        out.append({"name": name, "model": base64.b64encode(bytes_).decode(), "size": model.get_piece_size(),
                    "cases": cases})
with open(os.path.join(here, "sentencepiece.json"), "w") as f:
    f.write("[" + ",\n".join(json.dumps(m) for m in out) + "]\n")
