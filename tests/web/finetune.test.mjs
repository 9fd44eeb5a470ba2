// stories260K trained further on a text.
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { EtnaErrorOf } from "./claims.mjs";
import { load, read, skip_stories } from "./load.mjs";

let etna;
before(async () => {
  etna = await load();
});
const open = () =>
  etna.load_model(read("checkpoint_legacy.bin"), { tokenizer: read("tokenizer.bin"), name: "stories.bin" });
const text = "Zog the robot counts the red stones. One stone, two stones, and three stones make Zog glad. ".repeat(12);
const write = async (model) => (await model.generate("Zog", { max_tokens: 40, temperature: 0 })).text;

test("a few steps lower the loss, and the model writes what it learned", { skip: skip_stories }, async () => {
  const model = await open();
  const first = await write(model), seen = [];
  const options = { steps: 40, batch: 2, seq: 64, lr: 3e-3, on_step: (progress) => seen.push(progress) };
  const result = await model.finetune(text, options);
  assert.deepEqual([result.steps, result.stopped, result.captured], [40, "steps", true]);
  assert.ok(result.parameters > 250_000 && result.tokens > 500, JSON.stringify(result));
  assert.ok(result.loss < 0.5 * result.first_loss, JSON.stringify(result));
  assert.deepEqual([seen[0].step, seen[0].loss, seen.at(-1).step], [1, result.first_loss, 40]);
  assert.ok(seen.every(({ step, steps }, i) => steps === 40 && step > (seen[i - 1]?.step ?? 0)));
  const learned = await write(model);
  assert.notEqual(learned, first);
  assert.match(learned, /^ the robot counts the/);

  // It goes on from there, by the bytes of a file.
  const again = await model.finetune(new TextEncoder().encode(text), { ...options, steps: 2, lr: 1e-4 });
  assert.ok(again.first_loss < 0.6 * result.first_loss, JSON.stringify(again));
  const file = await model.save_gguf();
  assert.equal(new TextDecoder().decode(file.subarray(0, 4)), "GGUF");
  const saved = await etna.load_model(file, { name: "tuned.gguf" });
  assert.equal(saved.source, "GGUF");
  assert.equal(await write(saved), await write(model));
  await saved.free();
  await model.free();
});

test("training can be stopped, and a model that was freed meanwhile is no error", { skip: skip_stories }, async () => {
  const model = await open();
  const first = await write(model);
  const settings = { steps: 1000, batch: 1, seq: 32, lr: 1e-3 };
  const never = await model.finetune(text, { ...settings, signal: AbortSignal.abort() });
  assert.deepEqual([never.steps, never.loss, never.stopped], [0, null, "aborted"]);
  assert.equal(await write(model), first);
  const stopping = new AbortController();
  const during = [];
  const result = await model.finetune(text, {
    ...settings,
    signal: stopping.signal,
    on_step: ({ step }) => {
      if (step === 1) during.push(write(model));
      if (step >= 8) stopping.abort();
    },
  });
  assert.ok(result.steps >= 8 && result.steps < 1000 && result.stopped === "aborted", JSON.stringify(result));
  assert.equal(await during[0], first, "it writes with its own weights until the end");
  assert.notEqual(await write(model), first);
  const on_step = ({ step }) => step === 1 && model.free();
  assert.equal((await model.finetune(text, { ...settings, steps: 4, on_step })).steps, 4);
});

test("what is no text, and wrong numbers, are refused in a sentence", { skip: skip_stories }, async () => {
  const model = await open();
  const first = await write(model);
  const short = text.slice(0, 60);
  for (const [what, options, kind, message] of [
    ["", {}, "FormatError", /the text is empty/],
    [" \n\t", {}, "FormatError", /the text is empty/],
    [short, {}, "FormatError", /the text has \d+ tokens; wanted more than seq, which is 128/],
    [`${text}\0`, {}, "FormatError", /zero bytes/],
    [new Uint8Array([0x47, 0x47, 0xff, 0xfe, 0x80]), {}, "FormatError", /this is no text: it is not UTF-8/],
    [read("checkpoint_legacy.bin"), {}, "FormatError", /no text/],
    [7, {}, "Error", /a text is a string, or a File, a Blob or bytes/],
    [text, { steps: 0 }, "Error", /steps is 0; wanted an integer from 1 to/],
    [text, { steps: 1.5 }, "Error", /steps is 1.5/],
    [text, { batch: -1 }, "Error", /batch is -1/],
    [text, { batch: "many" }, "Error", /batch is "many"/],
    [text, { seq: 1 }, "Error", /seq is 1; wanted an integer from 2 to 512/],
    [text, { seq: 513 }, "Error", /seq is 513/],
    [text, { lr: 0 }, "Error", /lr is 0; wanted a number above 0/],
    [text, { lr: NaN }, "Error", /lr is "NaN"/],
    [text, { seed: -1 }, "Error", /seed is -1/],
    [text, { step: 3 }, "Error", /there is no option 'step'/],
  ])
    await assert.rejects(model.finetune(what, options), EtnaErrorOf(kind, message), `${message}`);
  assert.equal(await write(model), first);
  await model.free();
  await assert.rejects(model.finetune(text), /model: it was freed/);
  await assert.rejects(model.save_gguf(), /model: it was freed/);
  const mute = await etna.load_model(read("checkpoint_legacy.bin"), { name: "mute.bin" });
  await assert.rejects(mute.finetune(text), /no tokenizer/);
  await mute.free();
});
