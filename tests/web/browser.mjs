// Chromium or Firefox with a server of the pages, and what tests ask of a page.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before } from "node:test";
import { serve } from "../../web/serve.mjs";
import { folder, root, stories } from "./load.mjs";

const modules = process.env.ETNA_BROWSER ?? join(root, "build/browser");
const chromium = process.env.ETNA_CHROMIUM ?? "/usr/bin/chromium";
const firefox = process.env.ETNA_FIREFOX ?? "/usr/bin/firefox-esr";
/** Why tests in a browser are skipped, or false. */
function skip_without(name, program) {
  const missing = [
    existsSync(join(modules, "node_modules/puppeteer-core")) ? "" : `puppeteer-core in ${modules}`,
    existsSync(program) ? "" : `${name} (${program})`,
  ].filter(Boolean);
  return missing.length ? `there is no ${missing.join(" and no ")}` : false;
}
export const skip = skip_without("Chromium", chromium);
export const skip_firefox = skip_without("Firefox", firefox);
/** Where Debian's dataset-fashion-mnist lies. */
export const fashion = process.env.ETNA_FASHION ?? "/usr/share/datasets/fashion-mnist";
/** Pictures for the documentation are written where this is set. */
const pictures = process.env.ETNA_PICTURES;

/** Milliseconds; a software rasterizer builds kernels for seconds. */
const kPatience = 180_000;
/** What a wait for a page may take at most, whatever the wait itself allows. */
const kLongest = 7_500_000;

export let browser, origin;
let server;
/** Options that give WebGPU on the software rasterizer that Chromium brings. */
export const software_webgpu = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader",
  "--enable-features=Vulkan"];

/** Opens a browser before the tests of a file and closes it behind them. @param server_data folders for the server */
function use(no_browser, options, server_data) {
  before(async () => {
    if (no_browser) return;
    const puppeteer = createRequire(join(modules, "package.json"))("puppeteer-core");
    server = await serve({ folder, port: 0, data: stories ? [...server_data, stories] : server_data });
    origin = `http://127.0.0.1:${server.address().port}`;
    browser = await (puppeteer.default ?? puppeteer).launch({ headless: true, protocolTimeout: kLongest, ...options });
  });
  after(async () => {
    await browser?.close();
    server?.close();
  });
}

/** Chromium. @param data folders for the server, besides stories260K's */
export const use_browser = (args = [], data = []) =>
  use(skip, { executablePath: chromium, args: ["--no-sandbox", "--enable-precise-memory-info", ...args] }, data);

/** Firefox, with WebGPU on any Vulkan driver there is. */
export function use_firefox() {
  const gpu = { "dom.webgpu.enabled": true, "gfx.webgpu.ignore-blocklist": true };
  use(skip_firefox, { browser: "firefox", executablePath: firefox, extraPrefsFirefox: gpu }, []);
}

/** Opens a page, and afterwards checks what it asked for and what it complained about. */
export async function visit(name, f, { width = 1000, height = 900, dark = false } = {}) {
  const page = await browser.newPage();
  const complaints = [], requests = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  await page.setViewport({ width, height, isMobile: width < 500, hasTouch: width < 500 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
  try {
    await page.goto(`${origin}/${name}`);
    await f(page);
    const text = (id) => page.$eval(id, (node) => node.textContent);
    if (await page.$("#error")) assert.equal(await text("#error"), "");
    assert.deepEqual(complaints, []);
    assert.deepEqual(requests.filter((url) => !/^(data|blob):/.test(url) && !url.startsWith(origin)), []);
  } finally {
    await page.close();
  }
}

/** The texts of a table's cells, row by row. */
export const cells_of = (page, id) =>
  page.$$eval(`${id} tr`, (all) => all.map((one) => [...one.cells].map((cell) => cell.textContent)));
export const text_of = (page, id) => page.$eval(id, (node) => node.textContent);
export const enabled = (page, id) =>
  page.waitForFunction((one) => !document.querySelector(one).disabled, { timeout: kPatience }, id);
/** Waits until the text of an element matches. */
export const says = (page, id, pattern, timeout = kPatience) =>
  page.waitForFunction(
    (one, source) => new RegExp(source).test(document.querySelector(one).textContent),
    { timeout }, id, pattern.source,
  );
export const steps = (page, count) =>
  page.waitForFunction((n) => Number(document.querySelector("#steps").textContent) >= n, { timeout: kPatience }, count);
export const picture = async (page, name) =>
  pictures && page.screenshot({ path: join(pictures, `web-${name}.webp`), type: "webp", quality: 72 });
/** Chooses the device WebGPU on a page that lists devices. */
export async function on_webgpu(page) {
  const names = await page.$$eval("#device option", (all) => all.map((one) => one.value));
  assert.deepEqual(names, ["webgpu:0", "cpu"], await text_of(page, "#notes"));
  assert.equal(await page.$eval("#device", (one) => one.value), "cpu", "a software rasterizer is not chosen by itself");
  await page.select("#device", "webgpu:0");
}
/** Nothing is wider than the screen. A phone's innerWidth grows with what is too wide. */
export const fits = async (page) =>
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= page.viewport().width, "too wide");
/** Every control has a name that a screen reader can say. */
export async function named(page) {
  const nameless = await page.$$eval("button, select, input, textarea, canvas, a", (all) =>
    all.filter((one) => !(one.ariaLabel || one.labels?.length || one.textContent.trim())).map((one) => one.outerHTML));
  assert.deepEqual(nameless, []);
}
