// The module with threads, where the package has it: node, and a page that is isolated.
import assert from "node:assert/strict";
import { cpus } from "node:os";
import { test } from "node:test";
import { skip as skip_browser, use_browser, visit } from "./browser.mjs";
import { has_threads, load, read, skip_stories } from "./load.mjs";

const skip = has_threads ? false : "the package was built with one thread";
use_browser();
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
  const images = new Uint8Array(64 * 784).map((_, i) => (i * 7) % 256);
  const labels = new Uint8Array(64).map((_, i) => i % 10);
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

test("stories260K learns the same on threads and on one", { skip: skip || skip_stories }, async () => {
  const text = "Zog the robot counts the red stones. One stone, two stones, and three stones. ".repeat(10);
  const losses = [];
  for (const threads of [true, false]) {
    const etna = await load({ threads });
    const options = { tokenizer: read("tokenizer.bin"), name: "stories.bin" };
    const model = await etna.load_model(read("checkpoint_legacy.bin"), options);
    losses.push((await model.finetune(text, { steps: 5, batch: 4, seq: 64 })).loss);
    await model.free();
  }
  assert.equal(losses[0], losses[1]);
});

test("a worker of an isolated page has threads, the page itself one", { skip: skip || skip_browser }, () =>
  visit("index.html", async (page) => {
    const found = await page.evaluate(async () => {
      const { load } = await import("./etna/etna.mjs");
      const results = [];
      for (const worker of [true, false]) {
        const etna = await load({ device: "cpu", worker });
        const product = etna.ones([300, 200]).matmul(etna.ones([200, 100]));
        results.push({
          sum: await product.sum().item(),
          limits: etna.devices.find((device) => device.name === "cpu").limits.join(),
          notes: etna.notes,
        });
        etna.close();
      }
      return { results, cores: navigator.hardwareConcurrency };
    });
    const [worker, own] = found.results;
    assert.deepEqual(worker, { sum: 300 * 200 * 100, limits: `${found.cores} threads`, notes: [] });
    assert.equal(own.sum, 300 * 200 * 100);
    assert.equal(own.limits, "1 threads");
    assert.match(own.notes.join(), /one thread on the CPU: they need load\({ worker: true }\)/);
  }));
