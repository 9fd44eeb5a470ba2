// Serves the built pages on this machine:
//   node web/serve.mjs [--folder build/web] [--port 8080] [--data DIR]... [--run DIR]
//
// --data: a folder with images in IDX files (train-images-idx3-ubyte, ..., or .gz) or a folder stories260K, or such a
// folder itself. --run: a run folder, whose checkpoints/best.safetensors is served. What is found stands in
// /data/index.json.
import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { basename, dirname, extname, join, normalize, resolve, sep } from "node:path";
import { pipeline } from "node:stream";
import { fileURLToPath } from "node:url";
import { parseArgs, promisify } from "node:util";
import { gunzip } from "node:zlib";

const TYPES = {
  ".html": "text/html; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
  ".json": "application/json", ".wasm": "application/wasm", ".svg": "image/svg+xml", ".png": "image/png",
};

const IDX = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];

/**
 * What lies in the folders and below them, one level deep: images of digits and of clothes, a model. Of two with the
 * same the first is taken. Notes say what was left out and why.
 */
export function find_data(folders, run) {
  const found = { images: [], stories: null, run: null, notes: [] };
  const files = new Map();
  for (const folder of folders) if (!existsSync(folder)) throw new Error(`--data ${folder}: there is no such folder`);
  const is_folder = (path) => existsSync(path) && statSync(path).isDirectory();
  const look_for_images = (folder) => {
    const at = (name) => [name, `${name}.gz`].map((one) => join(folder, one)).find((path) => existsSync(path));
    const missing = IDX.filter((name) => !at(name));
    if (missing.length === IDX.length) return;
    if (missing.length) return found.notes.push(`${folder} lacks ${missing.join(" and ")}: its images are left out.`);
    // The files of a data set lie in its folder, or in one named raw below it.
    const path = resolve(folder), name = basename(basename(path) === "raw" ? dirname(path) : path);
    const kind = /fashion/i.test(name) ? "clothes" : "digits";
    if (found.images.some((one) => one.kind === kind)) return;
    found.images.push({ kind, files: IDX.map((name) => `data/${kind}/${name}`) });
    for (const name of IDX) files.set(`/data/${kind}/${name}`, at(name));
  };
  const look = (folder) => {
    const has = (name) => existsSync(join(folder, name));
    look_for_images(folder);
    if (!found.stories && has("checkpoint_legacy.bin") && has("tokenizer.bin")) {
      found.stories = "data/stories/checkpoint_legacy.bin";
      for (const name of ["checkpoint_legacy.bin", "tokenizer.bin"])
        files.set(`/data/stories/${name}`, join(folder, name));
    }
  };
  for (const folder of folders) {
    look(folder);
    for (const name of readdirSync(folder).sort()) if (is_folder(join(folder, name))) look(join(folder, name));
  }
  const weights = run && join(run, "checkpoints/best.safetensors");
  if (weights && !existsSync(weights)) throw new Error(`--run ${run}: there is no checkpoints/best.safetensors in it`);
  if (weights) {
    found.run = "data/run/best.safetensors";
    files.set("/data/run/best.safetensors", weights);
  }
  return { found, files };
}

/** Files whose name ends in .gz, unpacked and kept until they change: a page asks for their first bytes. */
class Unpacked {
  #kept = new Map();

  /** @returns the bytes @throws Error that names the file, where it is damaged or cannot be read */
  async read(path) {
    const unpack = async () => promisify(gunzip)(readFileSync(path));
    const { mtimeMs, size } = statSync(path), version = `${mtimeMs} ${size}`;
    if (this.#kept.get(path)?.version !== version) this.#kept.set(path, { version, bytes: unpack() });
    try {
      return await this.#kept.get(path).bytes;
    } catch (error) {
      this.#kept.delete(path);
      throw new Error(`${path} is damaged or cannot be read: ${error.message}`);
    }
  }
}

/** The path of a request; null where it is none. */
function path_of(url) {
  try {
    return decodeURIComponent(new URL(url, "http://localhost").pathname);
  } catch {
    return null;
  }
}

/** The bytes that a header "Range: bytes=a-b" asks for. */
function range_of(header, size) {
  const match = /^bytes=(\d+)-(\d*)$/.exec(header ?? "");
  if (!match) return null;
  const start = Number(match[1]), end = Math.min(match[2] ? Number(match[2]) : size - 1, size - 1);
  return start <= end ? { start, end } : null;
}

/** @returns the server, listening */
export async function serve({ folder, port = 8080, data = [], run }) {
  const root = resolve(folder);
  const { found, files } = find_data(data, run);
  const unpacked = new Unpacked();
  const server = createServer(async (request, response) => {
    const path = path_of(request.url);
    // Threads of WebAssembly need both; nothing here comes from elsewhere.
    response.setHeader("Cross-Origin-Opener-Policy", "same-origin");
    response.setHeader("Cross-Origin-Embedder-Policy", "require-corp");
    response.setHeader("Cache-Control", "no-cache");
    if (path === "/data/index.json") {
      response.setHeader("Content-Type", "application/json");
      return response.end(JSON.stringify(found));
    }
    if (path === null || path.includes("\0")) {
      response.writeHead(400, { "Content-Type": "text/plain" });
      return response.end("this is no path");
    }
    const file = files.get(path) ?? join(root, normalize(path.endsWith("/") ? `${path}index.html` : path));
    const inside = files.has(path) || file.startsWith(root + sep);
    if (!inside || !existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404, { "Content-Type": "text/plain" });
      return response.end(`${path} is not here`);
    }
    let bytes = null;
    try {
      if (files.has(path) && file.endsWith(".gz")) bytes = await unpacked.read(file);
    } catch (error) {
      response.writeHead(500, { "Content-Type": "text/plain" });
      return response.end(error.message);
    }
    const size = bytes ? bytes.length : statSync(file).size;
    const range = range_of(request.headers.range, size);
    response.setHeader("Content-Type", TYPES[extname(file)] ?? "application/octet-stream");
    response.setHeader("Content-Length", range ? range.end - range.start + 1 : size);
    if (range) response.setHeader("Content-Range", `bytes ${range.start}-${range.end}/${size}`);
    response.writeHead(range ? 206 : 200);
    if (request.method === "HEAD") return response.end();
    if (bytes) return response.end(range ? bytes.subarray(range.start, range.end + 1) : bytes);
    // A file that cannot be read to its end ends the answer early, which the reader sees by its length.
    pipeline(createReadStream(file, range ?? {}), response, () => {});
  });
  for (const note of found.notes) console.error(note);
  await new Promise((ready, fail) => server.once("error", fail).listen(port, "127.0.0.1", ready));
  return server;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      folder: { type: "string", default: fileURLToPath(new URL("../build/web", import.meta.url)) },
      port: { type: "string", default: "8080" },
      data: { type: "string", multiple: true, default: [] },
      run: { type: "string" },
    },
  });
  try {
    if (!/^\d{1,5}$/.test(values.port) || Number(values.port) > 65535)
      throw new Error(`--port ${values.port}: a port is a number up to 65535`);
    const server = await serve({ ...values, port: Number(values.port) });
    console.log(`http://localhost:${server.address().port}/`);
  } catch (error) {
    const in_use = `port ${values.port} is in use; choose another by --port`;
    console.error(error.code === "EADDRINUSE" ? in_use : error.message);
    process.exitCode = 1;
  }
}
