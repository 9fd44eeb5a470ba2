import assert from "node:assert/strict";
import { before, test } from "node:test";
import { EtnaErrorOf } from "./claims.mjs";
import { load, read, skip_stories } from "./load.mjs";

let etna;
before(async () => {
  etna = await load();
});
const open = (options) =>
  etna.load_model(read("checkpoint_legacy.bin"), { tokenizer: read("tokenizer.bin"), name: "stories.bin", ...options });

test("stories260K writes its greedy text exactly", { skip: skip_stories }, async () => {
  const model = await open();
  assert.equal(model.source, "llama2.c");
  let streamed = "";
  const result = await model.generate("", { max_tokens: 256, temperature: 0, on_token: (text) => (streamed += text) });
  assert.equal(result.text, read("expected_greedy.txt").toString());
  assert.equal(streamed, result.text);
  assert.ok(result.tokens_per_second > 0 && result.first_token_ms > 0);
  await model.free();
});

test("the same seed writes the same text, and another one another", { skip: skip_stories }, async () => {
  const model = await open();
  const write = async (seed) => (await model.generate("Once", { max_tokens: 40, temperature: 1, seed })).text;
  assert.equal(await write(1), await write(1));
  assert.notEqual(await write(1), await write(2));
  await assert.rejects(model.generate("", { temperature: 1, top_p: 7 }), /top_p/);
  await model.free();
});

test("a signal ends a text, and the next one begins", { skip: skip_stories }, async () => {
  const model = await open();
  const controller = new AbortController();
  let pieces = 0;
  const result = await model.generate("", {
    max_tokens: 256,
    temperature: 0,
    signal: controller.signal,
    on_token: () => ++pieces === 2 && controller.abort(),
  });
  assert.equal(result.stopped, "aborted");
  assert.ok(result.tokens.length < 256);
  assert.equal((await model.generate("", { max_tokens: 8, temperature: 0 })).tokens.length, 8);
  await model.free();
});

test("a text ends before a stop word", { skip: skip_stories }, async () => {
  const model = await open();
  const write = (options) => model.generate("", { max_tokens: 256, temperature: 0, ...options });
  const whole = await write({});
  let streamed = "";
  const { text, stopped } = await write({ stop: ["She loved", "no such"], on_token: (piece) => (streamed += piece) });
  assert.equal(text, whole.text.slice(0, whole.text.indexOf("She loved")));
  assert.deepEqual([streamed, stopped], [text, "stop word"]);
  assert.equal((await write({ stop: "Once" })).text, "");
  assert.equal((await write({ stop: "" })).text, whole.text, "an empty word stops nothing");
  await model.free();
});

test("penalties, biases and typical_p change a text, wrong ones are refused", { skip: skip_stories }, async () => {
  const model = await open();
  const write = (options) => model.generate("", { max_tokens: 60, temperature: 0, ...options });
  const plain = await write({});
  const banned = plain.tokens[3];
  const without = await write({ logit_bias: { [banned]: -1000 } });
  assert.ok(!without.tokens.includes(banned));
  assert.deepEqual(without.tokens.slice(0, 3), plain.tokens.slice(0, 3));
  for (const options of [{ presence_penalty: 5 }, { frequency_penalty: 5 }, { repetition_penalty: 3 }])
    assert.notEqual((await write(options)).text, plain.text, JSON.stringify(options));
  const typical = { temperature: 1, top_k: 0, top_p: 1, min_p: 0, seed: 3 };
  assert.notEqual((await write({ ...typical, typical_p: 0.2 })).text, (await write(typical)).text);
  for (const [options, message] of [
    [{ logit_bias: { x: 1 } }, /logit_bias has 'x', which is no token's number/],
    [{ logit_bias: { 99999: 1 } }, /99999/],
    [{ logit_bias: { 3: Infinity } }, /logit bias is inf; wanted a number, or minus infinity/],
    [{ typical_p: 2 }, /typical_p/],
    [{ presence_penalty: NaN }, /presence_penalty/],
    [{ temprature: 1 }, /there is no option 'temprature'/],
    [{ toString: 1 }, /there is no option 'toString'/],
  ])
    await assert.rejects(write(options), message);
  assert.equal((await write({ temperature: undefined, max_tokens: 3 })).tokens.length, 3);
  await model.free();
});

test("a cache has the size and dtype that were asked for", { skip: skip_stories }, async () => {
  const written = {};
  for (const cache of ["f32", "f16", "bf16"]) {
    const model = await open({ cache, context: 128 });
    const { tokens, stopped } = await model.generate("", { max_tokens: 400, temperature: 0 });
    assert.deepEqual([tokens.length < 130, stopped], [true, "context full"]);
    // Without its end token.
    const options = { max_tokens: 400, temperature: 1, endless: true, logit_bias: { 1: -100 } };
    assert.equal((await model.generate("", options)).tokens.length, 400);
    written[cache] = tokens;
    await model.free();
  }
  assert.deepEqual(written.f16.slice(0, 20), written.f32.slice(0, 20));
  await assert.rejects(open({ cache: "f8" }), /there is no cache "f8"; there are f32, f16, bf16 and q8_0/);
  for (const context of [0, -5, 1.5, "many", 1e12]) await assert.rejects(open({ context }), /context is/);
});

test("two texts at once are refused with a sentence", { skip: skip_stories }, async () => {
  const model = await open();
  const one = model.generate("", { max_tokens: 20 });
  await assert.rejects(model.generate("", { max_tokens: 20 }), /writing another text/);
  await one;
  await model.free();
});

test("a model that is freed ends the text that it writes", { skip: skip_stories }, async () => {
  const model = await open();
  const text = model.generate("", { max_tokens: 256, temperature: 0 });
  await new Promise((resume) => setTimeout(resume, 30));
  await Promise.all([assert.rejects(text, /text: it was freed/), model.free()]);
  await assert.rejects(model.generate(""), /model: it was freed/);
  const other = await open();
  assert.equal((await other.generate("", { max_tokens: 8, temperature: 0 })).tokens.length, 8);
  await other.free();
});

test("a model's bytes are there once, and go when it is freed", { skip: skip_stories }, async () => {
  const before = await etna.memory();
  const progress = [];
  for (let i = 0; i < 40; i++) {
    const model = await open({ onProgress: (step) => progress.push(step) });
    await model.free();
  }
  assert.equal(progress.at(-1).loaded, progress.at(-1).total);
  const after = await etna.memory();
  assert.ok(after.wasm - before.wasm < 8 << 20, `${before.wasm} to ${after.wasm}`);
});

test("a model without a tokenizer loads, and says so when it should write", { skip: skip_stories }, async () => {
  const model = await etna.load_model(read("checkpoint_legacy.bin"));
  assert.equal(model.tokenizer, false);
  await assert.rejects(model.generate("Hello"), /no tokenizer/);
  await model.free();
});

test("bad files are refused with Etna's sentence", async () => {
  const bytes = (text) => new TextEncoder().encode(text);
  const refused = (data, name) =>
    assert.rejects(etna.load_model(data, { name }), EtnaErrorOf("FormatError", new RegExp(`^${name}: `)));
  await refused(bytes("GGUFxxxxyyyy"), "a.gguf");
  await refused(bytes("x".repeat(99)), "b.bin");
  await refused(bytes("{}"), "c.safetensors");
  await refused(new Uint8Array(0), "d.bin");
  await assert.rejects(etna.load_model(42), /a file must be a URL, a File or Blob, or bytes/);
});

test("a file that does not fit is refused before a byte is read", async () => {
  class Large extends Blob {
    get size() {
      return 6 * 2 ** 30;
    }
  }
  await assert.rejects(etna.load_model(new Large(["x"]), { name: "large.gguf" }),
    EtnaErrorOf("OutOfMemory", /large\.gguf: 6144 MiB do not fit/));
});

test("damaged weights do not stop Etna", { skip: skip_stories }, async () => {
  const short = read("checkpoint_legacy.bin").subarray(0, 500_000);
  await assert.rejects(etna.load_model(short, { name: "short.bin" }), EtnaErrorOf("FormatError", /short\.bin/));
  const model = await open();
  assert.equal((await model.generate("", { max_tokens: 4, temperature: 0 })).tokens.length, 4);
  await model.free();
});
