// The pages on WebGPU, on the software rasterizer that Chromium brings. Slow, so less is asked of it than of the CPU.
import assert from "node:assert/strict";
import { test } from "node:test";
import { cells_of, enabled, on_webgpu, picture, says, skip, software_webgpu, steps, text_of, use_browser,
  visit } from "./browser.mjs";
import { read, skip_stories } from "./load.mjs";

use_browser(software_webgpu);

test("Draw trains on WebGPU", { skip, timeout: 600_000 }, (t) =>
  visit("draw.html", async (page) => {
    await enabled(page, "#train");
    await on_webgpu(page);
    await enabled(page, "#train");
    const begin = performance.now();
    await page.click("#train");
    await steps(page, 1);
    const first = Number(await text_of(page, "#loss"));
    await steps(page, 50);
    await page.click("#train");
    await enabled(page, "#reset");
    const seconds = ((performance.now() - begin) / 1000).toFixed(1);
    t.diagnostic(`50 steps in ${seconds} s, ${await text_of(page, "#speed")} a second`);
    const last = Number(await text_of(page, "#loss")), accuracy = parseFloat(await text_of(page, "#accuracy"));
    t.diagnostic(`loss ${first} to ${last}, accuracy ${accuracy} %`);
    assert.ok(last < first / 2, `loss ${first} to ${last}`);
    assert.ok(accuracy > 60, `accuracy ${accuracy} %`);
    await picture(page, "draw-webgpu");
  }));

const options = { skip: skip || skip_stories, timeout: 600_000 };
test("Stories writes stories260K's greedy text exactly on WebGPU", options, (t) =>
  visit("stories.html", async (page) => {
    await enabled(page, "#write");
    await on_webgpu(page);
    await enabled(page, "#write");
    await page.$eval("#temperature", (input) => (input.value = "0"));
    await page.click("#write");
    await says(page, "#speed", /Ended by/);
    assert.equal(await text_of(page, "#story"), read("expected_greedy.txt").toString());
    t.diagnostic(await text_of(page, "#speed"));
  }));

test("Bench tests ops on WebGPU", { skip, timeout: 600_000 }, (t) =>
  visit("bench.html", async (page) => {
    await enabled(page, "#test-run");
    assert.match(await text_of(page, "#devices"), /webgpu:0: .*SwiftShader/i);
    await page.select("#test-device", "webgpu:0");
    await page.type("#test-filter", "relu");
    await page.click("#test-run");
    await says(page, "#test-state", /^(\d+) of \1 ops tested, 0 failed\.$/);
    const rows = await cells_of(page, "#test-rows");
    t.diagnostic(rows.map((cells) => cells.join(" ")).join("; "));
    assert.ok(rows.some((cells) => /f32|^0$/.test(cells[4])), "the GPU's error");
    assert.ok(rows.every(([, count]) => Number(count) > 100 || /^in /.test(count)));
  }));

// Hours on a software rasterizer: ETNA_EVERY_OP=1 asks for it, or a part of a name.
const every = process.env.ETNA_EVERY_OP;
test("every op in f32 on WebGPU", { skip: skip || (every ? false : "ETNA_EVERY_OP is not set") }, (t) =>
  visit("bench.html", async (page) => {
    await enabled(page, "#test-run");
    await page.select("#test-device", "webgpu:0");
    if (every !== "1") await page.type("#test-filter", every);
    await page.click("#test-run");
    // Told as they come, for whoever waits.
    for (let told = 0, running = true; running; ) {
      await new Promise((resume) => setTimeout(resume, 2000));
      const rows = await page.$$eval("#test-rows tr", (all) => all.map((one) => one.textContent));
      while (told < rows.length) console.log(rows[told++]);
      running = await page.$eval("#test-run", (one) => one.disabled);
    }
    const state = await text_of(page, "#test-state");
    t.diagnostic(state);
    assert.match(state, /^(\d+) of \1 ops tested, 0 failed\.$/);
  }));

test("Bench compares ops on WebGPU with the CPU", { skip, timeout: 900_000 }, (t) =>
  visit("bench.html", async (page) => {
    await enabled(page, "#run");
    const begin = performance.now();
    await page.click("#run");
    await says(page, "#state", /^(\d\d) of \1 ops checked, 0 differ\.$/, 850_000);
    t.diagnostic(`${await text_of(page, "#state")} ${((performance.now() - begin) / 1000).toFixed(0)} s`);
    await picture(page, "bench-webgpu");
  }));

test("on WebGPU a wrong index and a tensor that does not fit are told of, and what follows runs", { skip }, () =>
  visit("index.html", async (page) => {
    const seen = await page.evaluate(async () => {
      const { load } = await import("./etna/etna.mjs");
      const etna = await load({ device: "webgpu", worker: true });
      const refused = (promise) => promise.then(() => "nothing", (error) => `${error.kind}: ${error.message}`);
      const logits = etna.zeros([2, 4]);
      const targets = etna.tensor(new Int32Array([1, 99])).to({ dtype: "i64" });
      const index = await refused(logits.cross_entropy(targets).item());
      const large = await refused(etna.zeros([1 << 15, 12_500]).sum().item());
      // More than the heap has at first.
      const ones = etna.ones([24, 1 << 20]), sums = await ones.sum(1).data();
      const after = await logits.add(1).sum().item();
      const memory = await etna.memory();
      etna.close();
      return { device: etna.device, index, large, sums: [...sums], after, in_use: memory.in_use };
    });
    assert.equal(seen.device, "webgpu:0");
    assert.match(seen.index, /^IndexError: cross_entropy.*: index 99 at position 1 is outside \[0, 4\).* webgpu:0 /);
    assert.match(seen.large, /^OutOfMemory: /);
    assert.deepEqual(seen.sums, Array(24).fill(1 << 20));
    assert.equal(seen.after, 8);
  }));
