// Training on real images on WebGPU: MNIST's where ./run web has fetched them, or the IDX files of ETNA_IMAGES; and
// Fashion-MNIST, when ETNA_LONG_TRAINING=1 asks for it: many minutes on a software rasterizer.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { enabled, fashion, on_webgpu, picture, says, skip, software_webgpu, text_of, use_browser,
  visit } from "./browser.mjs";
import { root } from "./load.mjs";

const images = process.env.ETNA_IMAGES ?? join(root, "build/web-data/mnist");
const has_images = (folder) => ["", ".gz"].some((end) => existsSync(join(folder, `train-images-idx3-ubyte${end}`)));
use_browser(software_webgpu, [images, fashion].filter(has_images));

/** Chooses settings one after another; each starts anew. */
async function choose(page, settings) {
  for (const [id, value] of Object.entries(settings)) {
    await page.select(`#${id}`, value);
    await enabled(page, "#train");
  }
}

const options = { skip: skip || (has_images(images) ? false : `there are no images in ${images}`), timeout: 1_500_000 };
test("Draw trains on WebGPU until 88 % of 1,000 held-out images are right", options, (t) =>
  visit("draw.html", async (page) => {
    await enabled(page, "#train");
    await on_webgpu(page);
    await enabled(page, "#train");
    const about = await text_of(page, "#data");
    assert.match(about, /MNIST/);
    const begin = performance.now();
    await page.click("#train");
    const accurate = () => parseFloat(document.querySelector("#accuracy").textContent) >= 88;
    await page.waitForFunction(accurate, { timeout: 1_400_000, polling: 500 });
    const seconds = (performance.now() - begin) / 1000;
    const [count, accuracy, loss] = await Promise.all(["#steps", "#accuracy", "#loss"].map((id) => text_of(page, id)));
    await page.click("#train");
    await enabled(page, "#reset");
    t.diagnostic(`${about} ${accuracy} after ${count} steps and ${seconds.toFixed(0)} s, loss ${loss}`);
    assert.ok(Number(count) <= 1000, `${count} steps`);
    await picture(page, "draw-webgpu-images");
  }));

const wanted = process.env.ETNA_LONG_TRAINING ? false : "ETNA_LONG_TRAINING is not set";
const no_fashion = has_images(fashion) ? wanted : `there is no Fashion-MNIST in ${fashion}`;
const long = { skip: skip || no_fashion, timeout: 7_500_000 };
test("Draw learns Fashion-MNIST on WebGPU: 88 % of the 10,000 test images", long, (t) =>
  visit("draw.html", async (page) => {
    page.setDefaultTimeout(120_000);
    await enabled(page, "#train");
    await on_webgpu(page);
    await enabled(page, "#train");
    await choose(page, { images: "clothes", lr: "0.01", batch: "256", plan: "1000" });
    const about = await text_of(page, "#data");
    assert.match(about, /Fashion-MNIST: .*60000 to train on and 10000 held out/);
    assert.equal(await page.$eval("#device", (one) => one.value), "webgpu:0");
    const begin = performance.now();
    await page.click("#train");
    await says(page, "#accuracy", /of 10000$/, 7_200_000);
    const seconds = (performance.now() - begin) / 1000;
    const [count, accuracy, loss] = await Promise.all(["#steps", "#accuracy", "#loss"].map((id) => text_of(page, id)));
    t.diagnostic(`${about} ${accuracy} after ${count} steps of 256 images and ${seconds.toFixed(0)} s, loss ${loss}`);
    assert.ok(parseFloat(accuracy) >= 88, accuracy);
    await enabled(page, "#reset");
    await page.click("#example");
    await says(page, "#answer", /looks like/);
    await picture(page, "draw-clothes-webgpu");
  }));
