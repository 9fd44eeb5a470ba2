// Clicks through the pages in Chromium, as a reader would, and reads what they say. No page may ask another server for
// anything, or write an error to the console.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { serve } from "../../web/serve.mjs";
import { browser, cells_of, enabled, fits, named, origin, picture, says, skip, steps, text_of, use_browser,
  visit } from "./browser.mjs";
import { folder, has_threads, read, root, skip_stories, stories } from "./load.mjs";

const trained = process.env.ETNA_RUN ?? join(root, "build/demo");
const skip_run = existsSync(join(trained, "checkpoints/best.safetensors")) ? false : "./run demo has trained no model";
use_browser();

async function draw_seven(page) {
  const box = await (await page.$("#pad")).boundingBox();
  const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  const points = [[0.3, 0.2], [0.5, 0.2], [0.72, 0.2], [0.62, 0.45], [0.52, 0.65], [0.45, 0.85]].map(at);
  await page.mouse.move(...points[0]);
  await page.mouse.down();
  for (const point of points.slice(1)) await page.mouse.move(...point, { steps: 6 });
  await page.mouse.up();
}

test("the index leads to the three pages", { skip }, () =>
  visit("index.html", async (page) => {
    const links = await page.$$eval("main a", (all) => all.map((one) => one.getAttribute("href")));
    assert.deepEqual(links, ["draw.html", "stories.html", "bench.html"]);
    await fits(page);
    await picture(page, "index");
  }));

test("Draw trains, its loss falls, and a drawn seven is taken for one", { skip }, (t) =>
  visit("draw.html", async (page) => {
    await enabled(page, "#train");
    assert.match(await text_of(page, "#data"), /makes itself/);
    await page.click("#train");
    await steps(page, 1);
    const first = Number(await text_of(page, "#loss"));
    await steps(page, 400);
    await page.click("#train");
    await enabled(page, "#reset");
    const last = Number(await text_of(page, "#loss")), accuracy = parseFloat(await text_of(page, "#accuracy"));
    assert.ok(last < first / 2, `loss ${first} to ${last}`);
    assert.ok(accuracy > 85, `accuracy ${accuracy} %`);
    await draw_seven(page);
    await says(page, "#answer", /like 7/);
    await named(page);
    await picture(page, "draw");
    const paused = await text_of(page, "#steps");
    await new Promise((resume) => setTimeout(resume, 300));
    assert.equal(await text_of(page, "#steps"), paused, "a pause is one");

    await page.click("#clear");
    assert.match(await text_of(page, "#answer"), /Draw in the square/);
    await page.click("#example");
    await says(page, "#answer", /looks like/);
    await page.click("#compare");
    await says(page, "#compared", /Steps a second/);
    t.diagnostic(await text_of(page, "#compared"));
    await page.select("#model", "cnn");
    await page.waitForFunction(() => document.querySelector("#steps").textContent === "0");
    await enabled(page, "#train");
    await page.click("#train");
    await steps(page, 10);
    await page.click("#train");
    await enabled(page, "#reset");
  }));

test("Draw can be drawn on by keyboard, on a phone, in the dark", { skip }, () =>
  visit("draw.html", async (page) => {
    await enabled(page, "#train");
    await fits(page);
    await page.click("#example");
    await says(page, "#answer", /^Before training, a guess: \d/);
    await page.click("#clear");
    await page.click("#train");
    await steps(page, 150);
    await page.click("#train");
    await enabled(page, "#reset");
    await page.focus("#pad");
    await page.keyboard.press("Space");
    for (let i = 0; i < 20; i++) await page.keyboard.press("ArrowDown");
    await says(page, "#answer", /looks like 1/);
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(background, "rgb(23, 22, 20)");
    await picture(page, "draw-phone");
  }, { width: 390, height: 800, dark: true }));

test("Draw's memory stays flat over 10,000 steps", { skip, timeout: 900_000 }, (t) =>
  visit("draw.html", async (page) => {
    page.setDefaultTimeout(600_000);
    await enabled(page, "#train");
    const sizes = await page.evaluate(async () => {
      const { load } = await import("./etna/etna.mjs");
      const { make_digits } = await import("./digits.mjs");
      const etna = await load({ worker: true, device: "cpu" });
      const classifier = await etna.classifier();
      const { images, labels } = make_digits(64, 1);
      const size = async () => ({ ...(await etna.memory()), page: performance.memory.usedJSHeapSize });
      for (let i = 0; i < 50; i++) await classifier.train_step(images, labels);
      const before = await size();
      for (let i = 0; i < 10_000; i++) {
        const { loss } = await classifier.train_step(images, labels);
        if (i % 10 === 0) await loss();
      }
      const after = await size();
      etna.close();
      return { before, after };
    });
    t.diagnostic(JSON.stringify(sizes));
    assert.equal(sizes.after.wasm, sizes.before.wasm);
    assert.ok(sizes.after.in_use - sizes.before.in_use < 100_000, JSON.stringify(sizes));
    assert.ok(sizes.after.page - sizes.before.page < 64 << 20, JSON.stringify(sizes));
  }));

test("Stories writes stories260K's greedy text exactly", { skip: skip || skip_stories }, (t) =>
  visit("stories.html", async (page) => {
    await enabled(page, "#write");
    await page.$eval("#temperature", (input) => (input.value = "0"));
    await page.click("#write");
    await page.waitForFunction(() => document.querySelector("#story").textContent !== "");
    await says(page, "#speed", /Ended by/);
    assert.equal(await text_of(page, "#story"), read("expected_greedy.txt").toString());
    t.diagnostic(await text_of(page, "#speed"));
    await named(page);
    await picture(page, "stories");
  }));

test("stories260K's first token comes within a second of the page's load", { skip: skip || skip_stories }, (t) =>
  visit("index.html", async (page) => {
    const time = await page.evaluate(async () => {
      const begin = performance.now();
      const { load } = await import("./etna/etna.mjs");
      const etna = await load({ worker: true, device: "cpu" });
      const model = await etna.load_model(new URL("data/stories/checkpoint_legacy.bin", location.href).href);
      let first = 0;
      const on_token = () => (first ||= performance.now() - begin);
      await model.generate("", { max_tokens: 4, temperature: 0, on_token });
      etna.close();
      return first;
    });
    assert.ok(time > 0);
    t.diagnostic(`first token after ${time.toFixed(0)} ms`);
    assert.ok(time < 1000, `${time} ms`);
  }));

test("Stories stops when asked, on a phone, in the dark", { skip: skip || skip_stories }, () =>
  visit("stories.html", async (page) => {
    await enabled(page, "#write");
    await fits(page);
    await page.$eval("#max_tokens", (input) => (input.value = "400"));
    await page.type("#prompt", "Once upon a time");
    await page.click("#write");
    await page.waitForFunction(() => document.querySelector("#story").textContent.length > 40);
    await page.click("#stop");
    await says(page, "#speed", /aborted/);
    assert.match(await text_of(page, "#story"), /^Once upon a time/);
    await picture(page, "stories-phone");
  }, { width: 390, height: 800, dark: true }));

test("Stories takes a reader's own files, and says why one does not run", { skip: skip || skip_stories }, () =>
  visit("stories.html", async (page) => {
    await enabled(page, "#write");
    const input = await page.$("#file");
    await input.uploadFile(join(stories, "checkpoint_legacy.bin"), join(stories, "tokenizer.bin"));
    await says(page, "#own", /is loaded/);
    await input.uploadFile(join(root, "README.md"));
    await says(page, "#own", /does not run: README.md/);
    await enabled(page, "#write");
  }));

test("Stories learns a text that is dropped, and saves the model", { skip: skip || skip_stories }, async () => {
  const downloads = await mkdtemp(join(tmpdir(), "etna-web-"));
  try {
    await visit("stories.html", async (page) => {
      const client = await page.createCDPSession();
      await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads });
      await enabled(page, "#write");
      assert.ok(await page.$eval("#train", (button) => button.disabled), "there is no text yet");
      await page.evaluate(() => {
        const text = "Zog the robot counts the red stones. One stone, two stones, and three stones. ".repeat(40);
        const dropped = new DataTransfer();
        dropped.items.add(new File([text], "zog.txt", { type: "text/plain" }));
        document.querySelector("#tune").dispatchEvent(new DragEvent("drop", { dataTransfer: dropped }));
      });
      await says(page, "#tuning", /zog.txt: 0.0 MiB to train on/);
      for (const [id, value] of [["#steps", "60"], ["#lr", "0.003"], ["#seq", "64"]])
        await page.$eval(id, (input, value) => (input.value = value), value);
      await page.click("#train");
      await says(page, "#tuning", /^Step \d+ of 60, loss \d/);
      await says(page, "#tuning", /^Trained for 60 steps on zog.txt/);
      const [, first, last] = (await text_of(page, "#tuning")).match(/from (\d+\.\d+) to (\d+\.\d+)/);
      assert.ok(Number(last) < 0.5 * Number(first), `${first}, ${last}`);
      await page.$eval("#temperature", (input) => (input.value = "0"));
      await page.$eval("#max_tokens", (input) => (input.value = "60"));
      await page.type("#prompt", "Zog");
      await page.click("#write");
      await says(page, "#speed", /^60 tokens/);
      assert.match(await text_of(page, "#story"), /^Zog the robot counts the red/);
      await fits(page);
      await named(page);
      await picture(page, "stories-tuned");
      await page.click("#save");
      const file = join(downloads, "stories260K-tuned.gguf");
      for (let i = 0; i < 50 && !existsSync(file); i++) await new Promise((resume) => setTimeout(resume, 100));
      assert.equal((await readFile(file)).subarray(0, 4).toString(), "GGUF");
      // The file is one of the reader's own, and a run can be stopped.
      await (await page.$("#file")).uploadFile(file);
      await says(page, "#own", /stories260K-tuned.gguf is loaded/);
      await page.$eval("#steps", (input) => (input.value = "5000"));
      await enabled(page, "#train");
      await page.click("#train");
      await says(page, "#tuning", /^Step [2-9]/);
      await page.click("#end");
      await says(page, "#tuning", /^Stopped after \d+ steps/);
    }, { height: 1450 });
  } finally {
    await rm(downloads, { recursive: true });
  }
});

test("Stories says why a file is no text to learn", { skip: skip || skip_stories }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "etna-web-"));
  try {
    await writeFile(join(folder, "short.txt"), "Zog.");
    await visit("stories.html", async (page) => {
      await enabled(page, "#write");
      const input = await page.$("#text");
      for (const [file, message] of [[join(folder, "short.txt"), /the text has \d+ tokens/],
        [join(stories, "checkpoint_legacy.bin"), /no text/]]) {
        await input.uploadFile(file);
        await enabled(page, "#train");
        await page.click("#train");
        await says(page, "#error", message);
        await enabled(page, "#train");
      }
      await page.click("#write");
      await says(page, "#speed", /tokens/);
    });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("Stories writes with a model that was trained here", { skip: skip || skip_run }, async () => {
  const own = await serve({ folder, port: 0, run: trained });
  const page = await browser.newPage();
  try {
    await page.goto(`http://127.0.0.1:${own.address().port}/stories.html`);
    await enabled(page, "#write");
    assert.match(await text_of(page, "#about"), /^wikitext demo: gpt2/);
    await page.$eval("#temperature", (input) => (input.value = "0"));
    await page.$eval("#max_tokens", (input) => (input.value = "40"));
    await page.type("#prompt", "The river");
    await page.click("#write");
    await says(page, "#speed", /^40 tokens/);
    assert.match(await text_of(page, "#story"), /^The river [a-z]+ [a-z]+ /);
    assert.equal(await text_of(page, "#error"), "");
  } finally {
    await page.close();
    own.close();
  }
});

test("a model that is being written with can be replaced by a reader's own", { skip: skip || skip_stories }, () =>
  visit("stories.html", async (page) => {
    await enabled(page, "#write");
    await page.$eval("#max_tokens", (input) => (input.value = "400"));
    await page.click("#write");
    await page.waitForFunction(() => document.querySelector("#story").textContent.length > 10);
    const input = await page.$("#file");
    await input.uploadFile(join(stories, "checkpoint_legacy.bin"), join(stories, "tokenizer.bin"));
    await says(page, "#own", /is loaded/);
    await says(page, "#speed", /aborted/);
    await page.$eval("#max_tokens", (input) => (input.value = "20"));
    await enabled(page, "#write");
    await page.click("#write");
    await says(page, "#speed", /^20 tokens/);
  }));

test("a worker gives up a file when told, and answers after its end", { skip: skip || skip_stories }, () =>
  visit("index.html", async (page) => {
    const seen = await page.evaluate(async () => {
      const { load } = await import("./etna/etna.mjs");
      const etna = await load({ worker: true });
      const controller = new AbortController();
      const large = new Blob([new Uint8Array(64 << 20)]);
      const onProgress = () => controller.abort();
      const refused = (promise) => promise.then(() => "nothing", (error) => error.name + ": " + error.message);
      const aborted = await refused(etna.load_model(large, { onProgress, signal: controller.signal }));
      const sum = await etna.ones([3]).sum().item();
      const waiting = refused(etna.ones([3]).sum().item());
      etna.close();
      return { aborted, sum, waiting: await waiting, later: await refused(etna.ones([3]).item()) };
    });
    assert.match(seen.aborted, /^AbortError/);
    assert.equal(seen.sum, 3);
    assert.match(seen.waiting, /Etna was closed/);
    assert.match(seen.later, /Etna was closed/);
  }));

test("the server answers what is no path, and refuses folders that are not there", async () => {
  const own = await serve({ folder, port: 0, data: [] });
  const at = `http://127.0.0.1:${own.address().port}`;
  try {
    const wanted = { "/%": 400, "/%00": 400, "/none": 404, "/%2e%2e/%2e%2e/run": 404, "/": 200 };
    for (const [path, status] of Object.entries(wanted)) {
      const answer = await fetch(at + path);
      assert.equal(answer.status, status, path);
      await answer.arrayBuffer();
    }
  } finally {
    own.close();
  }
  await assert.rejects(serve({ folder, port: 0, data: ["/no/such"] }), /--data \/no\/such: there is no such folder/);
  await assert.rejects(serve({ folder, port: 0, run: folder }), /there is no checkpoints\/best.safetensors in it/);
});

test("Bench checks every op and gives a report", { skip }, async () => {
  const downloads = await mkdtemp(join(tmpdir(), "etna-web-"));
  try {
    await visit("bench.html", async (page) => {
      const client = await page.createCDPSession();
      await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads });
      await enabled(page, "#run");
      await page.click("#run");
      await says(page, "#state", /checked/);
      await page.waitForFunction(() => document.querySelector("#stop").disabled, { timeout: 120_000 });
      assert.match(await text_of(page, "#state"), /^(\d\d) of \1 ops checked, 0 differ\.$/);
      await named(page);
      await picture(page, "bench");
      await page.click("#save");
      const file = join(downloads, "etna-bench.json");
      for (let i = 0; i < 50 && !existsSync(file); i++) await new Promise((resume) => setTimeout(resume, 100));
      const report = JSON.parse(await readFile(file, "utf8"));
      assert.ok(report.results.length >= 40 && report.results.every((result) => result.ok && result.milliseconds > 0));
    });
  } finally {
    await rm(downloads, { recursive: true });
  }
});

test("Bench runs the tests of every op in the page, and stops them", { skip, timeout: 300_000 }, () =>
  visit("bench.html", async (page) => {
    await enabled(page, "#test-run");
    await page.type("#test-filter", "softmax");
    await page.click("#test-run");
    await says(page, "#test-state", /^(\d+) of \1 ops tested, 0 failed\.$/);
    const rows = await cells_of(page, "#test-rows");
    const counted = rows.every(([, count]) => Number(count) > 0 || /^in /.test(count));
    assert.ok(rows.length >= 2 && counted, JSON.stringify(rows));
    const softmax = rows.find(([op]) => op === "softmax");
    assert.match(softmax[2], /e-\d+ \(f32\)$/, "the CPU's error");
    assert.equal(softmax[4], "", "no GPU was tested");
    // All ops, which takes minutes: stopped after some.
    await page.$eval("#test-filter", (input) => (input.value = ""));
    await page.click("#test-run");
    await says(page, "#test-state", /^[1-9]\d* of \d\d\d ops tested/);
    await page.click("#test-stop");
    await says(page, "#test-state", /Stopped\.$/);
    await page.$eval("#test-filter", (input) => (input.value = "no such op"));
    await page.click("#test-run");
    await says(page, "#test-state", /^0 of 0 ops tested, 0 failed\.$/);
  }));

test("loading tells how many bytes have come", { skip }, () =>
  visit("index.html", async (page) => {
    const seen = await page.evaluate(async () => {
      const { load } = await import("./etna/etna.mjs");
      const all = [];
      for (const options of [{ worker: true }, { worker: true, threads: false }, { device: "cpu" }]) {
        const told = [];
        const etna = await load({ ...options, onProgress: (progress) => told.push(progress) });
        const sum = await etna.ones([3]).sum().item();
        etna.close();
        all.push({ told, sum });
      }
      return all;
    });
    const size = async (name) => (await stat(join(folder, "etna", name))).size;
    const core = await size("etna_core.wasm");
    const wanted = [has_threads ? await size("etna_threads.wasm") : core, core, core];
    seen.forEach(({ told, sum }, i) => {
      assert.deepEqual(told[0], { stage: "loading", loaded: 0, total: 0 });
      assert.deepEqual(told.at(-1), { stage: "ready", loaded: wanted[i], total: wanted[i] });
      assert.ok(told.length > 3 && told.every(({ loaded }, k) => k === 0 || loaded >= told[k - 1].loaded));
      assert.equal(sum, 3);
    });
  }));

test("every page fits a phone", { skip }, async () => {
  for (const name of ["index", "draw", "stories", "bench"])
    await visit(`${name}.html`, async (page) => {
      if (name !== "index") await says(page, name === "bench" ? "#state" : name === "draw" ? "#data" : "#about", /\.$/);
      await fits(page);
    }, { width: 360, height: 700 });
});

test("what a page loads first is at most 2.5 MB gzipped", { skip }, async (t) => {
  const loaded = new Set();
  const page = await browser.newPage();
  page.on("request", (request) => loaded.add(new URL(request.url()).pathname));
  await page.goto(`${origin}/draw.html`);
  await enabled(page, "#train");
  await page.close();
  // What the worker loads is not among the page's requests everywhere: one of two modules, with WebGPU or with threads.
  const webgpu = ["kernels.json", "device/internal/webgpu/webgpu.mjs", "device/internal/webgpu/built_in.mjs",
    "shaders/webgpu/kernels.mjs", "shaders/webgpu/specialize.mjs", "shaders/webgpu/evaluate.mjs"];
  const modules = { etna_core: webgpu, ...(has_threads && { etna_threads: [] }) };
  const shared = [...loaded].filter((path) => !/^\/data\/|\/etna_(core|threads)\./.test(path));
  for (const [module, more] of Object.entries(modules)) {
    const own = ["worker.mjs", "runtime.mjs", `${module}.mjs`, `${module}.wasm`, ...more];
    let sum = 0;
    for (const path of new Set([...shared, ...own.map((name) => `/etna/${name}`)])) {
      const file = join(folder, path);
      if (existsSync(file) && (await stat(file)).isFile()) sum += gzipSync(await readFile(file)).length;
    }
    t.diagnostic(`${module}: ${(sum / 1e6).toFixed(2)} MB gzipped`);
    assert.ok(sum > 1e6 && sum <= 2.5e6, `${module}: ${sum} bytes`);
  }
});
