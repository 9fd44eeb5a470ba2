// The pages in Firefox (ETNA_FIREFOX, else Debian's): what each is for, on the CPU, and on WebGPU where Firefox has it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { browser, cells_of, enabled, origin, says, skip_firefox as skip, steps, text_of,
  use_firefox } from "./browser.mjs";
import { has_threads, read, skip_stories } from "./load.mjs";

use_firefox();

/** A page whose own errors are none. */
async function visit(name, f) {
  const page = await browser.newPage();
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  try {
    await page.goto(`${origin}/${name}`);
    await f(page);
    assert.equal(await text_of(page, "#error"), "");
    assert.deepEqual(complaints, []);
  } finally {
    await page.close();
  }
}

const devices_of = (page) => page.$$eval("#device option", (all) => all.map((one) => one.value));

test("Draw trains in Firefox", { skip, timeout: 300_000 }, (t) =>
  visit("draw.html", async (page) => {
    await enabled(page, "#train");
    t.diagnostic(`${await browser.version()}: ${await devices_of(page)}. ${await text_of(page, "#notes")}`);
    await page.select("#device", "cpu");
    await enabled(page, "#train");
    await page.click("#train");
    await steps(page, 200);
    await page.click("#train");
    await enabled(page, "#reset");
    const accuracy = parseFloat(await text_of(page, "#accuracy"));
    t.diagnostic(`${accuracy} % after ${await text_of(page, "#steps")} steps, ${await text_of(page, "#speed")} a second`);
    assert.ok(accuracy > 80, `${accuracy} %`);
  }));

test("Stories writes stories260K's greedy text exactly in Firefox", { skip: skip || skip_stories }, (t) =>
  visit("stories.html", async (page) => {
    await enabled(page, "#write");
    await page.select("#device", "cpu");
    await page.$eval("#temperature", (input) => (input.value = "0"));
    await page.click("#write");
    await says(page, "#speed", /Ended by/);
    assert.equal(await text_of(page, "#story"), read("expected_greedy.txt").toString());
    t.diagnostic(await text_of(page, "#speed"));
  }));

test("the walk over softmax passes in Firefox", { skip, timeout: 300_000 }, () =>
  visit("bench.html", async (page) => {
    await enabled(page, "#test-run");
    await page.select("#test-device", "cpu");
    await page.type("#test-filter", "softmax");
    await page.click("#test-run");
    await says(page, "#test-state", /^(\d+) of \1 ops tested, 0 failed\.$/);
  }));

/** Skips where Firefox has no WebGPU, and says why. */
async function on_webgpu(t, page) {
  if ((await devices_of(page)).includes("webgpu:0")) {
    await page.select("#device", "webgpu:0");
    return true;
  }
  t.skip(await text_of(page, "#notes"));
  return false;
}

test("Draw trains on WebGPU in Firefox", { skip, timeout: 600_000 }, (t) =>
  visit("draw.html", async (page) => {
    await enabled(page, "#train");
    if (!(await on_webgpu(t, page))) return;
    await enabled(page, "#train");
    await page.click("#train");
    await steps(page, 50);
    await page.click("#train");
    await enabled(page, "#reset");
    const accuracy = parseFloat(await text_of(page, "#accuracy"));
    t.diagnostic(`${accuracy} % after ${await text_of(page, "#steps")} steps, ${await text_of(page, "#speed")} a second`);
    assert.ok(accuracy > 60, `${accuracy} %`);
  }));

test("stories260K's greedy text is exact on WebGPU in Firefox", { skip: skip || skip_stories, timeout: 900_000 }, (t) =>
  visit("stories.html", async (page) => {
    await enabled(page, "#write");
    if (!(await on_webgpu(t, page))) return;
    await page.$eval("#temperature", (input) => (input.value = "0"));
    await enabled(page, "#write");
    await page.click("#write");
    await says(page, "#speed", /Ended by/, 800_000);
    assert.equal(await text_of(page, "#story"), read("expected_greedy.txt").toString());
    t.diagnostic(await text_of(page, "#speed"));
  }));

test("Bench tests an op on WebGPU in Firefox", { skip, timeout: 600_000 }, (t) =>
  visit("bench.html", async (page) => {
    await enabled(page, "#test-run");
    const devices = await text_of(page, "#devices");
    if (!devices.includes("webgpu:0")) return t.skip(devices);
    t.diagnostic(devices);
    await page.select("#test-device", "webgpu:0");
    await page.type("#test-filter", "relu");
    await page.click("#test-run");
    await says(page, "#test-state", /^(\d+) of \1 ops tested, 0 failed\.$/, 500_000);
    const rows = await cells_of(page, "#test-rows");
    t.diagnostic(rows.map((cells) => cells.join(" ")).join("; "));
    assert.ok(rows.some((cells) => /f32|^0$/.test(cells[4])), "the GPU's error");
  }));

test("threads in Firefox compute the bits of one thread", { skip: skip || (has_threads ? false : "one thread") }, () =>
  visit("draw.html", async (page) => {
    const [many, one] = await page.evaluate(async () => {
      const { load } = await import("./etna/etna.mjs");
      const results = [];
      for (const threads of [true, false]) {
        const etna = await load({ worker: true, device: "cpu", threads });
        await etna.manual_seed(1);
        const x = etna.rand([200, 300]), sums = await x.matmul(etna.rand([300, 100])).softmax().sum(0).data();
        results.push({ sums: [...sums], limits: etna.devices.find((one) => one.name === "cpu").limits.join() });
        etna.close();
      }
      return results;
    });
    assert.deepEqual(many.sums, one.sums);
    assert.notEqual(many.limits, one.limits);
    assert.equal(one.limits, "1 threads");
  }));
