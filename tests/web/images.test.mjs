// The images that the server has for Draw: IDX files as they are and gzipped, whole and damaged, and what a reader can
// choose of them.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { make_digits } from "../../web/pages/digits.mjs";
import { serve } from "../../web/serve.mjs";
import { browser, enabled, fashion, fits, named, picture, says, skip, text_of, use_browser,
  visit } from "./browser.mjs";
import { folder } from "./load.mjs";

const there = existsSync(join(fashion, "train-images-idx3-ubyte.gz"));
use_browser([], there ? [fashion] : []);

let data;
before(async () => (data = await mkdtemp(join(tmpdir(), "etna-web-"))));
after(() => rm(data, { recursive: true }));

const word = (...numbers) => Buffer.concat(numbers.map((n) => Buffer.from([n >> 24, n >> 16, n >> 8, n])));
/** A folder with the four files. @param pack what is done with each file's bytes @param ending of their names */
async function write_images(name, counts, pack = (bytes) => bytes, ending = "") {
  const path = join(data, name);
  await mkdir(path, { recursive: true });
  for (const [set, count, seed] of [["train", counts[0], 1], ["t10k", counts[1], 2]]) {
    const { images, labels } = make_digits(count, seed);
    const files = [[`${set}-images-idx3-ubyte`, Buffer.concat([word(0x803, count, 28, 28), images])],
      [`${set}-labels-idx1-ubyte`, Buffer.concat([word(0x801, count), labels])]];
    for (const [file, bytes] of files) await writeFile(join(path, file + ending), pack(bytes));
  }
  return path;
}

/** The page anew, ready. */
async function visit_again(page) {
  await page.reload();
  await enabled(page, "#train");
}

async function served(folders, f) {
  const own = await serve({ folder, port: 0, data: folders });
  try {
    await f(`http://127.0.0.1:${own.address().port}`);
  } finally {
    own.close();
    own.closeAllConnections();
  }
}

/** A page of its own, whose console may complain. */
async function visit_draw(folders, f) {
  await served(folders, async (at) => {
    const page = await browser.newPage();
    try {
      await page.goto(`${at}/draw.html`);
      await f(page);
    } finally {
      await page.close();
    }
  });
}

const kinds_of = (page) => page.$$eval("#images option", (all) => all.map((one) => one.value));

test("the server unpacks gzipped IDX files, and knows digits from clothes", async () => {
  const plain = await write_images("mnist", [20, 10]);
  const packed = await write_images("fashion-mnist", [20, 10], gzipSync, ".gz");
  await served([plain, packed], async (at) => {
    const found = await (await fetch(`${at}/data/index.json`)).json();
    assert.deepEqual(found.images.map(({ kind }) => kind), ["digits", "clothes"]);
    assert.deepEqual(found.notes, []);
    for (const { files } of found.images)
      for (const file of files) {
        const wanted = await readFile(join(plain, file.split("/").at(-1)));
        assert.deepEqual(Buffer.from(await (await fetch(`${at}/${file}`)).arrayBuffer()), wanted, file);
        const part = await fetch(`${at}/${file}`, { headers: { Range: "bytes=4-7" } });
        assert.equal(part.status, 206);
        assert.deepEqual(Buffer.from(await part.arrayBuffer()), wanted.subarray(4, 8), file);
      }
  });
});

test("the server knows clothes by the folder above one that is named raw", async () => {
  await write_images("FashionMNIST/raw", [20, 10]);
  await served([join(data, "FashionMNIST")], async (at) => {
    const found = await (await fetch(`${at}/data/index.json`)).json();
    assert.deepEqual(found.images.map(({ kind }) => kind), ["clothes"]);
  });
});

test("the server says which file is damaged or missing, and goes on", async () => {
  const cut = (bytes) => gzipSync(bytes).subarray(0, 200);
  const damaged = await write_images("fashion-mnist-cut", [20, 10], cut, ".gz");
  const file = "train-images-idx3-ubyte", path = join(damaged, `${file}.gz`);
  await served([damaged], async (at) => {
    const answer = await fetch(`${at}/data/clothes/${file}`);
    assert.equal(answer.status, 500);
    assert.equal(await answer.text(), `${path} is damaged or cannot be read: unexpected end of file`);
    await writeFile(path, gzipSync(Buffer.from("whole")));
    assert.equal(await (await fetch(`${at}/data/clothes/${file}`)).text(), "whole", "it is read again");
  });
  await rm(path);
  await served([damaged], async (at) => {
    const { images, notes } = await (await fetch(`${at}/data/index.json`)).json();
    assert.deepEqual(images, []);
    assert.deepEqual(notes, [`${damaged} lacks ${file}: its images are left out.`]);
  });
});

test("Draw trains on images in IDX files where the server has them", { skip }, async () => {
  const digits = await write_images("idx", [3000, 1000]);
  await visit_draw([digits], async (page) => {
    await enabled(page, "#train");
    assert.match(await text_of(page, "#data"), /MNIST.*3000 to train on and 1000 held out/);
    assert.deepEqual(await kinds_of(page), ["digits", "made"]);
    await page.click("#train");
    await page.waitForFunction(() => parseFloat(document.querySelector("#accuracy").textContent) > 60);
    assert.equal(await text_of(page, "#error"), "");
  });
});

test("Draw lets one choose among images, and says which file is damaged", { skip }, async () => {
  const digits = await write_images("mnist", [20, 10]);
  const clothes = await write_images("fashion", [20, 10], gzipSync, ".gz");
  const labels = join(clothes, "train-labels-idx1-ubyte.gz"), whole = await readFile(labels);
  await visit_draw([digits, clothes], async (page) => {
    await enabled(page, "#train");
    assert.deepEqual(await kinds_of(page), ["digits", "clothes", "made"]);
    assert.equal(await page.$eval("#images", (one) => one.value), "digits");

    // Cut short in itself, then as an archive, then mended.
    for (const [bytes, complaint] of [
      [gzipSync(Buffer.concat([word(0x801, 20), Buffer.alloc(7)])), /cut short: it has 7 of 20 labels/],
      [gzipSync(Buffer.concat([word(0x801, 19), Buffer.alloc(19)])), /20 images, but 19 labels in/],
      [gzipSync(Buffer.from("no IDX file")), /this is no IDX file of labels/],
      [whole.subarray(0, 15), /train-labels-idx1-ubyte.gz is damaged or cannot be read: unexpected end of file/],
    ]) {
      await writeFile(labels, bytes);
      await visit_again(page);
      await page.select("#images", "clothes");
      await says(page, "#error", complaint);
      assert.match(await text_of(page, "#data"), /cannot be used/);
      assert.ok(await page.$eval("#train", (one) => one.disabled));
      await page.select("#images", "made");
      await says(page, "#data", /makes itself/);
      assert.equal(await text_of(page, "#error"), "");
    }
    await writeFile(labels, whole);
    await visit_again(page);
    await page.select("#images", "clothes");
    await says(page, "#data", /Fashion-MNIST: ten kinds of clothes, 20 to train on and 10 held out/);
    await page.click("#example");
    await says(page, "#answer", /a guess: (T-shirt|trousers|pullover|dress|coat|sandal|shirt|sneaker|bag|boot) /);
  });
});

test("Draw without handwritten digits makes its own, and offers clothes", { skip }, async () => {
  const clothes = await write_images("fashion-mnist", [20, 10], gzipSync, ".gz");
  await visit_draw([clothes], async (page) => {
    await enabled(page, "#train");
    assert.deepEqual(await kinds_of(page), ["clothes", "made"]);
    assert.match(await text_of(page, "#data"), /makes itself/);
  });
});

test("settings that change quickly leave one classifier", { skip }, async () => {
  await visit_draw([], async (page) => {
    await page.evaluateOnNewDocument(() => {
      globalThis.calls = { classifier: 0, free_classifier: 0 };
      const post = Worker.prototype.postMessage;
      Worker.prototype.postMessage = function (message, ...more) {
        if (message?.method in globalThis.calls) globalThis.calls[message.method]++;
        return post.call(this, message, ...more);
      };
    });
    await visit_again(page);
    const waits = await page.evaluate(() => {
      const model = document.querySelector("#model");
      for (const value of ["cnn", "mlp", "cnn"]) {
        model.value = value;
        model.dispatchEvent(new Event("change"));
      }
      return document.querySelector("#train").disabled;
    });
    assert.ok(waits, "Train waits for all of them");
    await enabled(page, "#train");
    assert.deepEqual(await page.evaluate(() => globalThis.calls), { classifier: 4, free_classifier: 3 });
    assert.equal(await text_of(page, "#error"), "");
  });
});

test("a number of steps ends by itself, is counted on all images, and begins again", { skip }, async () => {
  const digits = await write_images("idx", [1000, 1500]);
  await visit_draw([digits], async (page) => {
    await enabled(page, "#train");
    await page.select("#plan", "500");
    await enabled(page, "#train");
    for (let run = 0; run < 2; run++) {
      await page.click("#train");
      await says(page, "#accuracy", /of 1000$/);
      await says(page, "#accuracy", /^[89]\d\.\d % of 1500$/);
      await enabled(page, "#reset");
      assert.equal(await text_of(page, "#steps"), "500");
    }
    assert.equal(await text_of(page, "#error"), "");
  });
});

const missing = there ? false : `there is no Fashion-MNIST in ${fashion}`;
test("Draw learns Fashion-MNIST on the CPU: 88 % of the 10,000 test images", { skip: skip || missing }, (t) =>
  visit("draw.html", async (page) => {
    await enabled(page, "#train");
    for (const [id, value] of [["images", "clothes"], ["lr", "0.003"], ["batch", "256"], ["plan", "1500"]]) {
      await page.select(`#${id}`, value);
      await enabled(page, "#train");
    }
    assert.match(await text_of(page, "#data"), /60000 to train on and 10000 held out/);
    const begin = performance.now();
    await page.click("#train");
    await says(page, "#accuracy", /of 10000$/, 400_000);
    const seconds = ((performance.now() - begin) / 1000).toFixed(0), accuracy = await text_of(page, "#accuracy");
    t.diagnostic(`${accuracy} after ${await text_of(page, "#steps")} steps of 256 images and ${seconds} s`);
    assert.ok(parseFloat(accuracy) >= 88, accuracy);
    await enabled(page, "#reset");
    await page.click("#example");
    await says(page, "#answer", /looks like/);
    await named(page);
    await fits(page);
    await picture(page, "draw-clothes");
  }));
