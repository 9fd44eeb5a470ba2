// Training on real images on WebGPU: MNIST's where ./run web has fetched them, or the IDX files of ETNA_IMAGES.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { enabled, on_webgpu, picture, skip, software_webgpu, text_of, use_browser, visit } from "./browser.mjs";
import { root } from "./load.mjs";

const images = process.env.ETNA_IMAGES ?? join(root, "build/web-data/mnist");
const there = existsSync(join(images, "train-images-idx3-ubyte"));
use_browser(software_webgpu, there ? [images] : []);

const options = { skip: skip || (there ? false : `there are no images in ${images}`), timeout: 1_500_000 };
test("Draw trains on WebGPU until 88 % of the held-out images are right", options, (t) =>
  visit("draw.html", async (page) => {
    await enabled(page, "#train");
    await on_webgpu(page);
    await page.waitForFunction(() => document.querySelector("#steps").textContent === "0");
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
