// What the tests load: the package that the build put together, and files that are there or not.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));
export const folder = process.env.ETNA_WEB ?? join(root, "build/web");
export const package_folder = join(folder, "etna");
export const etna_module = await import(pathToFileURL(join(package_folder, "etna.mjs")));
export const { has_threads } = await import(pathToFileURL(join(package_folder, "built.mjs")));
export const load = (options) => etna_module.load({ device: "cpu", ...options });

/** The folder of stories260K, or null. */
const named = process.env.ETNA_STORIES;
export const stories = named && existsSync(join(named, "tokenizer.bin")) ? named : null;
export const read = (name) => readFileSync(join(stories, name));
export const skip_stories = stories ? false : "set ETNA_STORIES to a folder with stories260K's files";
