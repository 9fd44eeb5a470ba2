// Starts `etna serve` with stories260K for a test file.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before } from "node:test";
import { pathToFileURL } from "node:url";

const clients = process.env.ETNA_CLIENTS;
const stories = process.env.ETNA_STORIES ?? (process.env.ETNA_DATA ? join(process.env.ETNA_DATA, "../stories260K") : "");
export const model = join(stories, "checkpoint_legacy.bin");
export const skip = stories !== "" && existsSync(model) ? false : "ETNA_STORIES does not name the folder of stories260K";

/** A package of npm from the folder of clients. */
export async function client_package(name) {
  return import(pathToFileURL(createRequire(join(clients, "package.json")).resolve(name)));
}

/** A server that lives as long as the tests of a file. @returns an object whose url is set before they run */
export function use_server(...options) {
  const server = { url: "", process: null };
  before(async () => {
    if (skip) return;
    server.process = spawn(process.env.ETNA_PROGRAM, ["serve", model, "--device", "cpu", "--port", "0", "--alias", "stories",
      "--chat-format", "chatml", "-q", ...options], { stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    for await (const piece of server.process.stdout) {
      said += piece;
      const found = /on (http:\S+),/.exec(said);
      if (found) {
        server.url = found[1];
        break;
      }
    }
    if (server.url === "") throw new Error(`etna serve did not start: ${said}`);
  });
  after(async () => {
    if (server.process === null || server.process.exitCode !== null) return;
    const ended = new Promise((resume) => server.process.once("exit", resume));
    server.process.kill("SIGTERM");
    const code = await ended;
    if (code !== 0) throw new Error(`etna serve ended with code ${code}`);
  });
  return server;
}
