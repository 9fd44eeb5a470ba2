// Writes tokenizer_json.json: small tokenizer.json files of many kinds, and what Hugging Face's tokenizers make of texts.
//
//     npm install @anush008/tokenizers && node tests/tokenizers/make_tokenizer_json.js
//
// The vocabulary is that of bpe.json; what does not fit its pieces falls apart into bytes.
const fs = require("fs"),
  os = require("os"),
  path = require("path");
const { Tokenizer } = require("@anush008/tokenizers");

const here = __dirname;
const bpe = JSON.parse(fs.readFileSync(path.join(here, "bpe.json")));
const base = JSON.parse(bpe.cases[0].tokenizer_json);
const texts = [
  "",
  " ",
  "Hello  world ",
  "I'm you're WE'LL it'S 'tis",
  "1234567 3.14 \u00bd \u00b2",
  "\u6c34\u6642\u9593 \ud55c\uad6d\uc5b4\u3000x",
  "\ud83d\ude42\ud83d\udc69\u200d\ud83d\udc69",
  "e\u0301 cafe\u0301 \u1e9b\u0323 n\u0327\u0301\u0300",
  "a\r\nb\r\n\r\n c\n\n\nd \n e",
  "\t\ttabs\t x",
  "\u00a0nbsp\u00a0x",
  "\uff21\uff22 \ufb01 \u2163",
  "f(x):\n    return x  # note\n\n",
  "$100... !? <sep>  x",
  "<sep> time<mark>  water <mark> times <note>x",
  "river stone light house",
  "\u0130\u01c5 STRA\u00dfE \u1e9e",
  "a\u180eb \u0085c",
  "water, time; light (press) form...",
  "   leading",
  "<s>hi</s>",
  "the-river_stone",
];
const split = (pattern, behavior = "Isolated", invert = false) => ({ type: "Split", pattern, behavior, invert });
const regex = (text, ...more) => split({ Regex: text }, ...more);
const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
const words = { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true };
const llama3 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const qwen2 = llama3.replace("\\p{N}{1,3}", "\\p{N}");
const pre = (...pretokenizers) => ({ pre_tokenizer: { type: "Sequence", pretokenizers } });
const normal = (...normalizers) => ({ ...pre(regex(llama3), bytes), normalizer: { type: "Sequence", normalizers } });
const added = (id, content, more) => ({
  id,
  content,
  single_word: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: false,
  ...more,
});
const size =
  Object.keys(base.model.vocab).length + base.added_tokens.filter((t) => !(t.content in base.model.vocab)).length;

// A vocabulary of characters, for SentencePiece's way of spelling.
const spaced = {},
  merges = [];
for (const t of ["<unk>", "<s>", "</s>"]) spaced[t] = Object.keys(spaced).length;
for (let b = 0; b < 256; ++b)
  spaced[`<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`] = Object.keys(spaced).length;
for (const c of "\u2581abcdefghijklmnopqrstuvwxyz.,'") spaced[c] = Object.keys(spaced).length;
for (const [a, b] of [
  ["\u2581", "\u2581"],
  ["t", "i"],
  ["m", "e"],
  ["ti", "me"],
  ["\u2581", "time"],
  ["w", "a"],
  ["t", "e"],
  ["te", "r"],
  ["wa", "ter"],
  ["\u2581", "water"],
  ["r", "i"],
  ["v", "e"],
  ["ve", "r"],
  ["\u2581", "ri"],
  ["\u2581ri", "ver"],
  ["o", "n"],
  ["e", "\u2581"],
]) {
  spaced[a + b] = Object.keys(spaced).length;
  merges.push([a, b]);
}
const bos = {
  type: "TemplateProcessing",
  single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
  pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
  special_tokens: { "<s>": { id: "<s>", ids: [1], tokens: ["<s>"] } },
};
const llama = (more) => ({
  version: "1.0",
  truncation: null,
  padding: null,
  added_tokens: [
    added(0, "<unk>", { special: true }),
    added(1, "<s>", { special: true }),
    added(2, "</s>", { special: true }),
  ],
  normalizer: {
    type: "Sequence",
    normalizers: [
      { type: "Prepend", prepend: "\u2581" },
      { type: "Replace", pattern: { String: " " }, content: "\u2581" },
    ],
  },
  pre_tokenizer: null,
  post_processor: bos,
  decoder: {
    type: "Sequence",
    decoders: [
      { type: "Replace", pattern: { String: "\u2581" }, content: " " },
      { type: "ByteFallback" },
      { type: "Fuse" },
      { type: "Strip", content: " ", start: 1, stop: 0 },
    ],
  },
  model: {
    type: "BPE",
    dropout: null,
    unk_token: "<unk>",
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: true,
    byte_fallback: true,
    vocab: spaced,
    merges: merges.map((m) => m.join(" ")),
  },
  ...more,
});
const metaspace = { type: "Metaspace", replacement: "\u2581", add_prefix_space: true, prepend_scheme: "always" };
const pieces = [
  ["<unk>", 0],
  ["<s>", 0],
  ["</s>", 0],
].concat(
  Object.keys(spaced)
    .filter((t) => !/^<(0x..|unk|s|\/s)>$/.test(t))
    .map((t, i) => [t, -2 - 0.37 * i + 1.1 * [...t].length]),
);
const unigram = (more) => ({
  ...llama({
    normalizer: { type: "NFKC" },
    pre_tokenizer: metaspace,
    decoder: metaspace,
    post_processor: bos,
    ...more,
  }),
  model: { type: "Unigram", unk_id: 0, vocab: pieces, byte_fallback: false },
});

const kinds = {
  "llama 3": { ...pre(regex(llama3), bytes), model: { ...base.model, ignore_merges: true } },
  "qwen 2": { ...pre(regex(qwen2), bytes), normalizer: { type: "NFC" } },
  "prefix space": { pre_tokenizer: words },
  digits: pre({ type: "Digits", individual_digits: true }, words),
  falcon: pre(
    { type: "Punctuation", behavior: "Contiguous" },
    words,
    { type: "Digits", individual_digits: false },
    regex("[0-9][0-9][0-9]"),
  ),
  deepseek: pre(
    regex("\\p{N}{1,3}"),
    regex("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
    regex(
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    ),
    bytes,
  ),
  previous: pre(split({ String: " " }, "MergedWithPrevious"), bytes),
  next: pre(split({ String: "e" }, "MergedWithNext"), bytes),
  contiguous: pre(regex("[a-f ]", "Contiguous"), bytes),
  inverted: pre(regex("[a-z]+", "MergedWithNext", true), bytes),
  removed: pre({ type: "WhitespaceSplit" }, { type: "CharDelimiterSplit", delimiter: "i" }, bytes),
  nfkc: normal({ type: "NFKC" }, { type: "Lowercase" }),
  "no accents": normal(
    { type: "NFD" },
    { type: "StripAccents" },
    { type: "Strip", strip_left: true, strip_right: false },
  ),
  replaced: normal(
    { type: "Replace", pattern: { Regex: "[0-9]+" }, content: "#" },
    { type: "Prepend", prepend: "X" },
  ),
  added: {
    ...normal({ type: "Lowercase" }),
    added_tokens: base.added_tokens.concat(
      [
        added(size, "<sep>", { lstrip: true, rstrip: true }),
        added(size + 1, "<mark>", { rstrip: true, special: true }),
        added(size + 2, "river stone", { normalized: true }),
        added(size + 3, "e-r", { single_word: true }),
        added(size + 4, "time", { single_word: true, normalized: true }),
        added(size + 5, "<note>", { lstrip: true }),
      ]
        .filter((t) => !(t.content in base.model.vocab))
        .map((t, i) => ({ ...t, id: size + i })),
    ),
  },
  "llama 2": llama(),
  metaspace: llama({ normalizer: null, pre_tokenizer: metaspace, decoder: metaspace }),
  "metaspace first": llama({
    normalizer: null,
    pre_tokenizer: { ...metaspace, prepend_scheme: "first", split: false },
  }),
  unknown: { ...llama(), model: { ...llama().model, byte_fallback: false } },
  unigram: unigram(),
  "unigram precompiled": null,
};
const models = JSON.parse(fs.readFileSync(path.join(here, "sentencepiece.json")));
{
  // The rules of one of SentencePiece's models: field 3 (normalizer) has field 2, which begins with the size of its trie.
  const model = Buffer.from(models.find((m) => m.name === "unigram").model, "base64");
  let at = 0,
    rules = null;
  const varint = (from) => {
    let v = 0,
      s = 0,
      i = from;
    for (; ; ++i) {
      v += (model[i] & 127) * 2 ** s;
      s += 7;
      if (model[i] < 128) return [v, i + 1];
    }
  };
  const walk = (begin, end, visit) => {
    for (let i = begin; i < end;) {
      let [tag, j] = varint(i),
        v;
      if ((tag & 7) === 2) {
        [v, j] = varint(j);
        visit(tag >> 3, j, j + v);
        i = j + v;
      } else if ((tag & 7) === 5) i = j + 4;
      else [v, i] = varint(j);
    }
  };
  walk(0, model.length, (field, a, b) => {
    if (field === 3)
      walk(a, b, (inner, c, d) => {
        if (inner === 2) rules = model.subarray(c, d);
      });
  });
  kinds["unigram precompiled"] = unigram({
    normalizer: { type: "Precompiled", precompiled_charsmap: rules.toString("base64") },
  });
}

(async () => {
  const out = [];
  for (const [name, change] of Object.entries(kinds)) {
    const text = JSON.stringify(change.version ? change : { ...base, ...change });
    const file = path.join(os.tmpdir(), `tokenizer-${process.pid}.json`);
    fs.writeFileSync(file, text);
    const tokenizer = Tokenizer.fromFile(file);
    fs.unlinkSync(file);
    const cases = [];
    for (const t of texts) {
      const ids = Array.from((await tokenizer.encode(t, null, { addSpecialTokens: false })).getIds());
      const prompt = Array.from((await tokenizer.encode(t)).getIds());
      cases.push({ text: t, ids, prompt, decoded: ids.length ? await tokenizer.decode(ids, true) : "" });
    }
    // The vocabulary of bpe.json is not written again.
    out.push({ name, change: change.version ? change : change, whole: !!change.version, cases });
  }
  fs.writeFileSync(
    path.join(here, "tokenizer_json.json"),
    "[" + out.map((o) => JSON.stringify(o)).join(",\n") + "]\n",
  );
})();
