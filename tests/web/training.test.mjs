import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { join } from "node:path";
import { folder, load } from "./load.mjs";

const { make_digits } = await import(pathToFileURL(join(folder, "digits.mjs")));

for (const model of ["mlp", "cnn"]) {
  test(`${model} learns digits that the page draws`, async () => {
    const etna = await load();
    await etna.manual_seed(3);
    const steps = model === "mlp" ? 150 : 60;
    const classifier = await etna.classifier({ model, lr: 2e-3 });
    const train = make_digits(64 * steps, 1);
    const held_out = make_digits(300, 2);
    const before = await classifier.evaluate(held_out.images, held_out.labels);
    let first, last;
    for (let i = 0; i < steps; i++) {
      const images = train.images.subarray(i * 64 * 784, (i + 1) * 64 * 784);
      const { loss, step } = await classifier.train_step(images, train.labels.subarray(i * 64, (i + 1) * 64));
      assert.equal(step, i + 1);
      if (i === 0) first = await loss();
      if (i === steps - 1) last = await loss();
    }
    const after = await classifier.evaluate(held_out.images, held_out.labels);
    assert.ok(last < first / 2, `loss ${first} to ${last}`);
    assert.ok(before.accuracy < 0.4 && after.accuracy > 0.7, `accuracy ${before.accuracy} to ${after.accuracy}`);
    const { labels, probabilities } = await classifier.predict(held_out.images.subarray(0, 784 * 5));
    assert.equal(labels.length, 5);
    const sum = probabilities.subarray(0, 10).reduce((a, b) => a + b);
    assert.ok(Math.abs(sum - 1) < 1e-5);
    const facts = await classifier.describe();
    assert.ok(facts.captured && facts.replays > steps / 2, JSON.stringify(facts));
    await classifier.free();
    await assert.rejects(classifier.describe(), /it was freed/);
  });
}

test("a step takes a learning rate, which stays", async () => {
  const etna = await load();
  const classifier = await etna.classifier({ lr: 1e-2 });
  const { images, labels } = make_digits(64, 1);
  const loss_after = async (options) => (await classifier.train_step(images, labels, options)).loss();
  for (let i = 0; i < 5; i++) await loss_after({});
  const before = await loss_after({ lr: 0 });
  for (let i = 0; i < 3; i++) assert.equal(await loss_after({}), before, "nothing is learned at a rate of 0");
  await loss_after({ lr: 1e-2 });
  assert.ok((await loss_after({})) < before);
});

test("a classifier refuses what it cannot take", async () => {
  const etna = await load();
  await assert.rejects(etna.classifier({ model: "tree" }), /no model 'tree'; there are mlp and cnn/);
  const classifier = await etna.classifier();
  await assert.rejects(classifier.predict(new Uint8Array(100)), /100 bytes are no images of 28×28/);
  await assert.rejects(classifier.train_step(new Uint8Array(784), [12]), /labels are 0 to 9/);
  await assert.rejects(classifier.train_step(new Uint8Array(1568), [1]), /as many labels as images, 2/);
  const negative = classifier.train_step(new Uint8Array(784), [1], { lr: -1 });
  await assert.rejects(negative, /lr is -1; it must not be negative/);
});
