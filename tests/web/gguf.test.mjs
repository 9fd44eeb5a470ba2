// GGUF files, written by a native `etna convert`: in node, and dropped on the page Stories. ETNA_PROGRAM names another
// program than build/bin/etna.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { enabled, says, skip as no_browser, text_of, use_browser, visit } from "./browser.mjs";
import { load, read, root, stories } from "./load.mjs";

const program = process.env.ETNA_PROGRAM ?? join(root, "build/bin/etna");
const skip = !stories ? "set ETNA_STORIES to a folder with stories260K's files"
  : existsSync(program) ? false : `there is no ${program}, which writes the files`;
use_browser();

let folder;
before(async () => (folder = await mkdtemp(join(tmpdir(), "etna-gguf-"))));
after(() => rm(folder, { recursive: true }));

/** stories260K as a GGUF file with its tokenizer. */
async function convert(to) {
  const out = join(folder, `stories-${to}.gguf`);
  const run = promisify(execFile);
  await run(program, ["convert", join(stories, "checkpoint_legacy.bin"), "--out", out, "--to", to, "--force"]);
  return out;
}

/** Drops a file of the server's on the page, as a mouse would. */
const drop = (page, name, base64) =>
  page.evaluate(async (name, base64) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], name));
    const target = document.querySelector("#drop");
    for (const kind of ["dragover", "drop"])
      target.dispatchEvent(new DragEvent(kind, { dataTransfer, bubbles: true, cancelable: true }));
  }, name, base64);

test("a GGUF file that etna wrote gives the same text in node, in f32 exactly", { skip }, async () => {
  const etna = await load();
  for (const to of ["f32", "f16", "q8_0", "q4_0"]) {
    const model = await etna.load_model(await readFile(await convert(to)), { name: `${to}.gguf` });
    assert.deepEqual([model.source, model.tokenizer], ["GGUF", true]);
    const { text, tokens } = await model.generate("", { max_tokens: 256, temperature: 0 });
    assert.match(text, /^Once upon a time/);
    if (to === "f32") assert.equal(text, read("expected_greedy.txt").toString());
    assert.ok(tokens.length > 20);
    await model.free();
  }
});

test("a GGUF file dropped on the page runs, and a damaged one is refused", { skip: skip || no_browser }, () =>
  visit("stories.html", async (page) => {
    await enabled(page, "#write");
    const bytes = await readFile(await convert("f32"));
    await drop(page, "my own.gguf", bytes.toString("base64"));
    await says(page, "#own", /^my own\.gguf is loaded\.$/);
    assert.match(await text_of(page, "#about"), /^my own\.gguf: llama, 5 layers of width 64, 512 tokens/);
    await page.$eval("#temperature", (input) => (input.value = "0"));
    await page.click("#write");
    await says(page, "#speed", /Ended by/);
    assert.equal(await text_of(page, "#story"), read("expected_greedy.txt").toString());

    await drop(page, "cut.gguf", bytes.subarray(0, 100_000).toString("base64"));
    await says(page, "#own", /^It does not run: cut\.gguf: /);
    assert.equal(await page.$eval("#model", (one) => one.value), "my own.gguf", "the one before is there");
    await enabled(page, "#write");
  }));
