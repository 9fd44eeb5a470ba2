// The module with threads, where the package has it: node, and a page that is isolated.
import assert from "node:assert/strict";
import { cpus } from "node:os";
import { test } from "node:test";
import { has_threads, load, read, skip_stories } from "./load.mjs";

const skip = has_threads ? false : "the package was built with one thread";
const threads_of = (etna) => etna.devices.find((device) => device.name === "cpu").limits.join();

test("the CPU has as many threads as the machine, or one when that is asked for", { skip }, async () => {
  const many = await load(), one = await load({ threads: false });
  assert.equal(threads_of(many), `${cpus().length} threads`);
  assert.equal(threads_of(one), "1 threads");
  assert.deepEqual([...many.notes, ...one.notes], []);
});

test("many threads and one compute the same bits", { skip }, async () => {
  const results = [];
  for (const threads of [true, false]) {
    const etna = await load({ threads });
    await etna.manual_seed(7);
    const x = etna.randn([300, 200], { requires_grad: true }), w = etna.randn([200, 130], { requires_grad: true });
    const loss = x.matmul(w).gelu().softmax().square().sum();
    await loss.backward();
    results.push([await loss.item(), [...(await x.grad.data())], [...(await w.grad.data())]]);
    await assert.rejects(x.matmul(x).data(), { kind: "ShapeError" });
  }
  assert.deepEqual(results[0], results[1]);
});

test("a classifier learns on threads, and memory stays flat", { skip }, async () => {
  const etna = await load();
  const classifier = await etna.classifier({ model: "mlp", lr: 1e-3 });
  const images = new Uint8Array(64 * 784).map((_, i) => (i * 7) % 256), labels = new Uint8Array(64).map((_, i) => i % 10);
  const first = await (await classifier.train_step(images, labels)).loss();
  for (let step = 0; step < 50; step++) await classifier.train_step(images, labels);
  const { wasm } = await etna.memory();
  for (let step = 0; step < 500; step++) await classifier.train_step(images, labels);
  assert.ok((await classifier.evaluate(images, labels)).loss < first);
  assert.equal((await etna.memory()).wasm, wasm);
});

test("stories260K writes its greedy text exactly on threads", { skip: skip || skip_stories }, async () => {
  const etna = await load();
  const model = await etna.load_model(read("checkpoint_legacy.bin"),
    { tokenizer: read("tokenizer.bin"), name: "stories.bin" });
  const { text } = await model.generate("", { max_tokens: 256, temperature: 0 });
  assert.equal(text, read("expected_greedy.txt").toString());
  await model.free();
});
