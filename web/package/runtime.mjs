// The module of WebAssembly and what it needs of the page: files in its memory, WebGPU, and one call after another.
import { has_threads } from "./built.mjs";
import { open_module } from "./compile.mjs";

const in_node = typeof process !== "undefined" && Boolean(process.versions?.node);

/** An error of Etna. `kind` is the C++ class: "ShapeError", "FormatError", ... */
export class EtnaError extends Error {
  constructor(message, kind = "Error") {
    super(message);
    this.name = "EtnaError";
    this.kind = kind;
  }
}

/** Whether C++ can wait for a GPU here (JavaScript Promise Integration). */
const can_wait = () => typeof WebAssembly.Suspending === "function" && typeof WebAssembly.promising === "function";

/** Without it nothing ever waits, so a call can run as a plain function. */
function install_placeholders() {
  WebAssembly.Suspending ??= function (f) {
    return f;
  };
  WebAssembly.promising ??= (f) => async (...args) => f(...args);
}

/** Why C++ can have no threads here; null where it can. A page's own thread may not wait for others. */
function no_threads() {
  if (in_node) return null;
  if (!globalThis.crossOriginIsolated) return "this page is not served with the headers COOP and COEP";
  return typeof document === "undefined" ? null : "they need load({ worker: true })";
}

const beside = (name) => new URL(name, import.meta.url);

/** The module with threads, or null with a note. */
async function open_with_threads(options, notes, on_progress) {
  try {
    const reason = no_threads();
    if (reason) throw new Error(reason);
    const { default: etna_threads } = await import("./etna_threads.mjs");
    return await open_module(etna_threads, beside("etna_threads.wasm"), { ...options }, on_progress);
  } catch (error) {
    notes.push(`one thread on the CPU: ${error.message}`);
    return null;
  }
}

async function read_json(source) {
  if (typeof source === "object" && !(source instanceof URL)) return source;
  const url = new URL(source, import.meta.url);
  if (in_node && url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return JSON.parse(await readFile(url, "utf8"));
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response.json();
}

/** The object that device/internal/webgpu runs on. @throws Error saying why there is none */
async function open_gpu(kernels) {
  if (!globalThis.navigator?.gpu) throw new Error("this browser offers none (navigator.gpu is not there)");
  const { open_webgpu } = await import("./device/internal/webgpu/webgpu.mjs");
  return open_webgpu({ gpu: navigator.gpu, read_kernels: () => read_json(kernels) });
}

/** What a module of WebAssembly is made with, WebGPU among it, and notes on what is not there. */
export async function module_options({ kernels = "./kernels.json", device = "auto" } = {}) {
  const options = { print: console.log, printErr: (line) => console.warn(line) }, notes = [];
  const waits = can_wait();
  if (!waits) install_placeholders();
  if (device !== "cpu" && !waits) {
    notes.push("WebAssembly cannot wait for promises here (no JSPI), so only the CPU is used");
  } else if (device !== "cpu") {
    try {
      options.etna_webgpu = await open_gpu(kernels);
    } catch (error) {
      notes.push(`no WebGPU: ${error.message}`);
    }
  }
  return { options, notes };
}

/** What a file is read from, chunk by chunk, with its size. */
async function open_source(source, signal) {
  if (typeof source === "string" || source instanceof URL) {
    const response = await fetch(source, { signal });
    if (!response.ok) throw new EtnaError(`${source}: ${response.status} ${response.statusText}`, "FormatError");
    // The length of a compressed answer is not the file's.
    // Of another server's answer the encoding cannot be seen.
    const plain = response.type === "basic" && !response.headers.get("content-encoding");
    const length = plain ? response.headers.get("content-length") : null;
    if (length !== null) return { size: Number(length), chunks: response.body };
    source = await response.blob();
  }
  if (source instanceof Blob) return { size: source.size, chunks: source.stream() };
  if (source instanceof ArrayBuffer) source = new Uint8Array(source);
  if (ArrayBuffer.isView(source)) {
    const bytes = new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
    return { size: bytes.length, chunks: [bytes] };
  }
  throw new EtnaError("a file must be a URL, a File or Blob, or bytes");
}

async function* iterate(stream) {
  if (!stream.getReader) return yield* stream;
  const reader = stream.getReader();
  try {
    for (let part; !(part = await reader.read()).done; ) yield part.value;
  } finally {
    // Of what was read to its end this cancels nothing.
    await reader.cancel().catch(() => {});
  }
}

export class Runtime {
  #core;
  #last = Promise.resolve();
  #broken = null;
  #files = 0;
  notes = [];

  /** @param options as load() of etna.mjs @param on_progress called with { loaded, total } in bytes of the module */
  static async open({ wasm, threads = true, ...devices } = {}, on_progress) {
    const runtime = new Runtime();
    const { options, notes } = await module_options(devices);
    const has_bytes = wasm instanceof ArrayBuffer || ArrayBuffer.isView(wasm);
    if (has_bytes) options.wasmBinary = wasm;
    else if (wasm) options.locateFile = () => String(wasm);
    // node reads files, which fetch() does not.
    if (has_bytes || in_node) on_progress = null;
    runtime.notes = notes;
    // WebGPU's objects belong to one thread, so the module with threads has only the CPU.
    const may = threads && has_threads && !wasm && !options.etna_webgpu;
    if (may) runtime.#core = await open_with_threads(options, notes, on_progress);
    if (!runtime.#core) {
      const { default: etna_core } = await import("./etna_core.mjs");
      runtime.#core = await open_module(etna_core, wasm ?? beside("etna_core.wasm"), options, on_progress);
    }
    return runtime;
  }

  /** All memory of WebAssembly; anew for each use, since it grows. */
  get #bytes() {
    return new Uint8Array(this.#core.wasmMemory.buffer);
  }

  /**
   * Runs a method of web/bindings when all calls before have ended: two may not overlap while one waits for a GPU.
   * @param bytes copied into WebAssembly for the call
   * @returns the result; bytes in it are a Uint8Array of its own
   */
  call(method, args, bytes) {
    const result = this.#last.then(() => this.#run(method, args, bytes));
    this.#last = result.catch(() => {});
    return result;
  }

  async #run(method, args, bytes) {
    if (this.#broken) throw this.#broken;
    const core = this.#core;
    let at = 0, request = 0, answer = 0;
    try {
      if (bytes) {
        at = this.#copy_in(bytes);
        args = { ...args, bytes_at: at, bytes_size: bytes.byteLength };
      }
      // JSON has no NaN and no infinity.
      const text = JSON.stringify({ method, args }, (_, v) =>
        typeof v === "number" && !Number.isFinite(v) ? String(v) : v);
      request = core.stringToNewUTF8(text);
      answer = await core._etna_call(request);
      const result = JSON.parse(core.UTF8ToString(answer));
      if (result.error) throw new EtnaError(result.error, result.kind);
      if ("bytes_at" in result) {
        result.bytes = this.#bytes.slice(result.bytes_at, result.bytes_at + result.bytes_size);
        core._free(result.bytes_at);
      }
      return result;
    } catch (error) {
      if (error instanceof EtnaError || error instanceof SyntaxError) throw error;
      // A trap leaves C++ in the middle of something: nothing that follows could be trusted.
      const what = "Etna stopped by an error in WebAssembly and must be loaded again";
      this.#broken = new EtnaError(`${what}: ${error.message}`);
      throw this.#broken;
    } finally {
      for (const address of [at, request, answer]) if (address && !this.#broken) core._free(address);
    }
  }

  #allocate(size, name) {
    // Addresses have 32 bits, and malloc() takes a signed size in JavaScript's hands.
    const at = size < 2 ** 32 - 2 ** 20 ? this.#core._malloc(Math.max(size, 1)) >>> 0 : 0;
    if (at) return at;
    const mib = (bytes) => `${Math.ceil(bytes / 2 ** 20)} MiB`;
    throw new EtnaError(`${name}: ${mib(size)} do not fit: WebAssembly has ${mib(this.memory_bytes)} and at most ` +
      "4096 MiB, or what the browser gives; use a smaller file", "OutOfMemory");
  }

  #copy_in(bytes) {
    const at = this.#allocate(bytes.byteLength, "tensor");
    this.#bytes.set(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength), at);
    return at;
  }

  /** Lets events in: without a worker, C++ runs on their thread. */
  pause() {
    return new Promise((resume) => (in_node ? setImmediate : setTimeout)(resume));
  }

  get memory_bytes() {
    return this.#bytes.length;
  }

  /**
   * Makes a file for C++ out of a URL, a Blob or bytes. Its bytes lie in WebAssembly's memory, so mmap() copies
   * nothing: they are there once.
   * @returns its path
   */
  async open_file(source, { name = "model.bin", folder = String(++this.#files), on_progress, signal } = {}) {
    const { FS } = this.#core;
    const { size, chunks } = await open_source(source, signal);
    const at = this.#allocate(size, name);
    let written = 0;
    try {
      for await (const chunk of iterate(chunks)) {
        signal?.throwIfAborted();
        if (written + chunk.length > size)
          throw new EtnaError(`${name}: it has more than ${size} bytes`, "FormatError");
        this.#bytes.set(chunk, at + written);
        written += chunk.length;
        on_progress?.({ loaded: written, total: size });
      }
      if (written < size) throw new EtnaError(`${name}: it ended after ${written} of ${size} bytes`, "FormatError");
    } catch (error) {
      this.#core._free(at);
      throw error;
    }
    const path = `/models/${folder}/${name}`;
    FS.mkdirTree(`/models/${folder}`);
    FS.writeFile(path, "");
    const { node } = FS.lookupPath(path);
    const heap = () => this.#bytes;
    node.usedBytes = size;
    node.etna_bytes_at = at;
    node.stream_ops = {
      ...node.stream_ops,
      read(stream, buffer, offset, length, position) {
        const count = Math.max(0, Math.min(length, size - position));
        buffer.set(heap().subarray(at + position, at + position + count), offset);
        return count;
      },
      mmap: (stream, length, position) => ({ ptr: at + position, allocated: false }),
    };
    return path;
  }

  /** Forgets a file and frees its bytes. Only once nothing maps it. */
  async close_file(path) {
    await this.#last;
    const { FS } = this.#core;
    const { node } = FS.lookupPath(path);
    this.#core._free(node.etna_bytes_at);
    FS.unlink(path);
  }
}
