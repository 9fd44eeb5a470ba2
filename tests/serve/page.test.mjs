// The page at / in Chromium, by clicks and keys.
import assert from "node:assert/strict";
import { existsSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { kTemplate, package_if, skip_without, with_server } from "./script_server.mjs";

const chromium = process.env.ETNA_CHROMIUM ?? "/usr/bin/chromium";
const skip = existsSync(chromium) ? skip_without("puppeteer-core") : `there is no ${chromium}`;
let browser;
before(async () => {
  if (skip) return;
  const puppeteer = await package_if("puppeteer-core");
  browser = await (puppeteer.default ?? puppeteer).launch(
    { headless: true, executablePath: chromium, args: ["--no-sandbox"] });
});
after(() => browser?.close());

const kAnswer = ["<think>", "\nThe user wants ", "a list.", "</think>\n",
  "# Two things\n\nUse **bold** and `code`:\n\n",
  "1. one\n2. two <b>not bold</b>\n   - inner\n\n", "```js\nlet x = \"<img src=x onerror=alert(1)>\";\n```\n\n",
  "<img src=x onerror=alert(1)> [link](javascript:alert(1)) [fine](https://example.org)"];

/** Opens the page of a server that says these pieces. What the page complains about is a failure. */
function visit(pieces, f, { width = 1000, height = 800, dark = false } = {}) {
  return with_server(pieces, async (address) => {
    const context = await browser.createBrowserContext(), page = await context.newPage();
    const complaints = [], foreign = [];
    page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("request", (request) => {
      if (!request.url().startsWith(address) && !request.url().startsWith("data:")) foreign.push(request.url());
    });
    await page.setViewport({ width, height, isMobile: width < 500, hasTouch: width < 500 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }]);
    try {
      const response = await page.goto(address);
      const policy = response.headers()["content-security-policy"];
      assert.match(policy, /default-src 'none'/);
      assert.doesNotMatch(policy, /unsafe/);
      await page.waitForFunction(() => document.getElementById("model").value === "script");
      await f(page, address);
      assert.deepEqual(complaints, []);
      assert.deepEqual(foreign, []);
    } finally {
      await context.close();
    }
  }, kTemplate);
}
const text_of = (page, selector) => page.$eval(selector, (node) => node.textContent);
async function ask(page, text) {
  await page.type("#text", text);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".message.assistant:last-child .tools"));
}
const picture = async (page, name) => {
  if (process.env.ETNA_PICTURES) await page.screenshot({ path: join(process.env.ETNA_PICTURES, name) });
};

/** The contrast of text and what is behind it, of all that is visible. */
const contrasts = (page) => page.evaluate(() => {
  const numbers = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const light = (color) => numbers(color).slice(0, 3).map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if ((numbers(color)[3] ?? 1) === 1) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility() || node.tagName === "SCRIPT") continue;
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
    found.push([(a + 0.05) / (b + 0.05), `${node.tagName} ${node.className}: ${node.textContent.slice(0, 30)}`]);
  }
  return found;
});

test("an answer is markdown, and nothing in it runs", { skip }, () => visit(kAnswer, async (page) => {
  let dialogs = 0;
  page.on("dialog", (dialog) => { ++dialogs; dialog.dismiss(); });
  await ask(page, "Two things, <b>please</b>");
  assert.equal(await text_of(page, ".message.user p"), "Two things, <b>please</b>");
  assert.equal(await text_of(page, ".message.assistant h3"), "Two things");
  assert.equal(await text_of(page, ".message.assistant strong"), "bold");
  assert.equal(await text_of(page, ".message.assistant pre code"), 'let x = "<img src=x onerror=alert(1)>";');
  assert.equal(await page.$$eval(".message.assistant ol > li", (items) => items.length), 2);
  assert.equal(await text_of(page, ".message.assistant ol ul li"), "inner");
  assert.equal(await page.$("#log img, #log b"), null);
  assert.deepEqual(await page.$$eval("#log a", (links) => links.map((link) => link.href)), ["https://example.org/"]);
  assert.equal(await page.$eval("#log details", (node) => node.open), false);
  assert.equal(await text_of(page, "#log .thought:not(p)"), "The user wants a list.");
  await page.click("#log summary");
  assert.equal(await page.$eval("#log details", (node) => node.open), true);
  for (const [ratio, what] of await contrasts(page)) assert.ok(ratio >= 4.5, `${what} has ${ratio}`);
  await picture(page, "chat-page.png");
  assert.equal(dialogs, 0);
}));

test("it suits a phone, and the dark", { skip }, () => visit(kAnswer, async (page) => {
  await ask(page, "Two things");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  assert.equal(await page.$eval("#side", (node) => node.checkVisibility()), false);
  for (const [ratio, what] of await contrasts(page)) assert.ok(ratio >= 4.5, `${what} has ${ratio}`);
  await picture(page, "chat-page-phone.png");
  await page.tap("#menu");
  assert.equal(await page.$eval("#side", (node) => node.checkVisibility()), true);
  for (const [ratio, what] of await contrasts(page)) assert.ok(ratio >= 4.5, `${what} has ${ratio}`);
  await page.keyboard.press("Escape");
  assert.equal(await page.$eval("#side", (node) => node.checkVisibility()), false);
}, { width: 390, height: 800, dark: true }));

test("images are shown, sent and not kept", { skip }, () => visit(["Green"], async (page) => {
  assert.equal(await page.$eval("#pick", (node) => node.checkVisibility()), false, "this model sees none");
  await page.setRequestInterception(true);
  const sent = [];
  page.on("request", (request) => {
    if (request.url().endsWith("/v1/models")) {
      const data = [{ id: "script", input_modalities: ["text", "image"] }];
      return request.respond({ contentType: "application/json", body: JSON.stringify({ data }) });
    }
    if (!request.url().endsWith("/chat/completions")) return request.continue();
    // What the server would see is text: its model sees none.
    const body = JSON.parse(request.postData());
    sent.push(structuredClone(body.messages));
    for (const message of body.messages)
      if (Array.isArray(message.content)) message.content = message.content.at(-1).text;
    request.continue({ postData: JSON.stringify(body) });
  });
  await page.reload();
  await page.waitForSelector("#pick", { visible: true });
  const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
  const file = join(tmpdir(), `etna-pixel-${process.pid}.png`);
  writeFileSync(file, Buffer.from(pixel, "base64"));
  try {
    for (const count of [1, 2]) {
      await (await page.$("#file")).uploadFile(file);
      await page.waitForFunction((wanted) => document.querySelectorAll("#shown img").length === wanted, {}, count);
    }
  } finally {
    unlinkSync(file);
  }
  await page.click("#shown img");
  assert.equal((await page.$$("#shown img")).length, 1);
  await ask(page, "Which color?");
  assert.equal((await page.$$("#shown img")).length, 0);
  assert.equal((await page.$$(".message.user img")).length, 1);
  await ask(page, "Sure?");
  for (const messages of sent) {
    assert.equal(messages[0].content[0].image_url.url, `data:image/png;base64,${pixel}`);
    assert.deepEqual(messages[0].content[1], { type: "text", text: "Which color?" });
  }
  assert.equal(sent[1][2].content, "Sure?");
  await page.reload();
  await page.waitForSelector(".message.assistant");
  assert.equal((await page.$$("#log img")).length, 0);
}));

test("conversations and settings are kept", { skip }, () => visit(["Fine", " thanks"], async (page, address) => {
  await ask(page, "How are you?");
  await page.click("#settings summary");
  await page.type("#system", "Be kind.");
  await page.type("#temperature", "0.5");
  await page.keyboard.press("Tab");
  const sent = page.waitForRequest((request) => request.url().endsWith("/chat/completions"));
  await ask(page, "And now?");
  const body = JSON.parse((await sent).postData());
  assert.equal(body.temperature, 0.5);
  assert.deepEqual(body.messages.map((message) => message.role), ["system", "user", "assistant", "user"]);
  assert.equal(body.messages[2].content, "Fine thanks");
  await page.reload();
  await page.waitForSelector(".message.assistant");
  assert.equal((await page.$$(".message")).length, 4);
  assert.equal(await page.$eval("#system", (node) => node.value), "Be kind.");
  await page.click("#new");
  assert.equal((await page.$$(".message")).length, 0);
  await page.click("#list li:first-child button:first-child");
  assert.equal((await page.$$(".message")).length, 4);
  await page.click("#list li:first-child button:last-child");
  assert.equal((await page.$$("#list li")).length, 0);
  await page.goto(`${address}/health`);
}));

test("an answer can be stopped", { skip }, () => {
  const long = Array.from({ length: 3000 }, (_, i) => `word${i} `);
  return visit(long, async (page) => {
    await page.type("#text", "Go on");
    await page.click("#send");
    await page.waitForFunction(() => document.querySelector(".message.assistant p")?.textContent.includes("word3 "));
    assert.equal(await text_of(page, "#send"), "Stop");
    await page.click("#send");
    await page.waitForFunction(() => document.querySelector(".message.assistant .tools"));
    assert.match(await text_of(page, ".message.assistant .tools"), /stopped/);
    assert.equal(await text_of(page, "#send"), "Send");
    assert.doesNotMatch(await text_of(page, ".message.assistant"), /word2999/);
  });
});

test("errors are shown", { skip }, () => with_server(["Hi"], async (address) => {
  const page = await browser.newPage();
  await page.goto(address);
  await page.waitForFunction(() => document.getElementById("model").value === "script");
  await page.click("#settings summary");
  await page.type("#temperature", "7");
  await page.keyboard.press("Tab");
  await ask(page, "Hi");
  assert.match(await text_of(page, ".message.assistant .error"), /temperature/);
  await page.close();
}));
