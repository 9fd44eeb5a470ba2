// The package as npm packs it: installed in an empty folder, it runs there.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { package_folder, root } from "./load.mjs";

const run = promisify(execFile);
const has_npm = await run("npm", ["--version"]).then(() => true, () => false);
const skip = has_npm ? false : "there is no npm";
// TypeScript from npm, which tests/web/run installs, or Debian's.
const own = join(process.env.ETNA_BROWSER ?? join(root, "build/browser"), "node_modules/.bin/tsc");
const tsc = existsSync(own) ? own : "tsc";
const has_tsc = await run(tsc, ["--version"]).then(() => true, () => false);

/** Calls f with a folder that has the package installed. */
async function with_installed(f) {
  const folder = await mkdtemp(join(tmpdir(), "etna-package-"));
  try {
    await run("npm", ["pack", "--pack-destination", folder], { cwd: package_folder });
    const [archive] = await readdir(folder);
    await writeFile(join(folder, "package.json"), '{"name": "user", "private": true, "type": "module"}');
    await run("npm", ["install", "--offline", "--no-audit", "--no-fund", `./${archive}`], { cwd: folder });
    await f(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("npm packs it, and what is installed runs", { skip }, () =>
  with_installed(async (folder) => {
    const program = `
      import { load } from "etna";
      const etna = await load({ device: "cpu" });
      console.log(await etna.tensor([1, 2, 3]).mul(2).sum().item());`;
    await writeFile(join(folder, "main.mjs"), program);
    const { stdout } = await run("node", ["main.mjs"], { cwd: folder });
    assert.equal(stdout.trim(), "12");
    const installed = await readdir(join(folder, "node_modules/etna"));
    for (const name of ["etna.d.ts", "worker.mjs", "etna_core.wasm", "LICENSE"])
      assert.ok(installed.includes(name), name);
  }));

test("TypeScript takes its types", { skip: skip || (has_tsc ? false : "there is no tsc") }, () =>
  with_installed(async (folder) => {
    await copyFile(new URL("typed.ts", import.meta.url), join(folder, "typed.ts"));
    const options = ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--module", "nodenext",
      "--moduleResolution", "nodenext"];
    const { stdout } = await run(tsc, [...options, "typed.ts"], { cwd: folder }).catch((error) => error);
    assert.equal(stdout.trim(), "");
  }));

test("the types name every method of a tensor, and the examples of the documentation run", async () => {
  const types = await readFile(join(package_folder, "etna.d.ts"), "utf8");
  const { load } = await import("./load.mjs");
  const etna = await load();
  const tensor = etna.ones([1]);
  const hidden = ["constructor", "apply"];
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(tensor)).filter((name) => !hidden.includes(name));
  const untyped = names.filter((name) => !new RegExp(`\\b${name}\\b`).test(types));
  assert.deepEqual(untyped, []);
  const own = Object.getOwnPropertyNames(Object.getPrototypeOf(etna)).filter((name) => !hidden.includes(name));
  assert.deepEqual(own.filter((name) => !new RegExp(`\\b${name}\\b`).test(types)), []);

  const text = await readFile(join(root, "docs/browser.md"), "utf8");
  const examples = [...text.matchAll(/```js\n([\s\S]*?)```/g)].map((match) => match[1]);
  assert.ok(examples.length >= 3);
  const { etna_module } = await import("./load.mjs");
  const AsyncFunction = (async () => {}).constructor;
  // The examples go on from each other. A model's file is not everywhere, so the one that needs it is only parsed.
  const runs = examples.filter((example) => !example.includes("load_model")).join("\n");
  const code = runs.replace('import { load } from "etna";', "");
  await new AsyncFunction("load", "assert", code)((options) => etna_module.load({ device: "cpu", ...options }), assert);
  for (const example of examples) new AsyncFunction(example.replace(/import .*\n/, ""));
});
