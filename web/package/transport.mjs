// The same runtime beside the page, in a worker: calls and files become messages.
import { EtnaError } from "./runtime.mjs";

export class WorkerTransport {
  #worker;
  #waiting = new Map();
  #next = 0;
  #ended = null;
  notes = [];

  static async open(options, on_progress) {
    const transport = new WorkerTransport();
    const worker = new Worker(new URL("./worker.mjs", import.meta.url), { type: "module", name: "etna" });
    transport.#worker = worker;
    worker.onmessage = ({ data }) => transport.#receive(data);
    worker.onerror = (event) => transport.#end(`the worker stopped: ${event.message ?? "it could not be loaded"}`);
    try {
      transport.notes = (await transport.#send("open", { options, tell: Boolean(on_progress) }, on_progress)).notes;
    } catch (error) {
      transport.close();
      throw error;
    }
    return transport;
  }

  #receive({ id, result, error, progress }) {
    const waiting = this.#waiting.get(id);
    if (!waiting) return;
    if (progress) return waiting.on_progress?.(progress);
    this.#waiting.delete(id);
    if (error) waiting.reject(new EtnaError(error.message, error.kind));
    else waiting.resolve(result);
  }

  #send(what, message, on_progress) {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = ++this.#next;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, on_progress });
      this.#worker.postMessage({ id, what, ...message });
    });
  }

  /** What waits, and what comes later, fails with this. */
  #end(message) {
    this.#ended = new EtnaError(message);
    for (const { reject } of this.#waiting.values()) reject(this.#ended);
    this.#waiting.clear();
    this.#worker.terminate();
  }

  call(method, args, bytes) {
    return this.#send("call", { method, args, bytes });
  }

  async open_file(source, { on_progress, signal, ...options } = {}) {
    signal?.throwIfAborted();
    if (source instanceof URL) source = source.href;
    if (typeof source === "string") source = new URL(source, globalThis.location?.href).href;
    const reading = this.#send("open_file", { source, options }, on_progress);
    const reader = this.#next;
    const give_up = () => this.#send("give_up", { reader }).catch(() => {});
    signal?.addEventListener("abort", give_up);
    try {
      const { path } = await reading;
      // It may have been read before the worker heard of the signal.
      if (signal?.aborted) await this.close_file(path);
      signal?.throwIfAborted();
      return path;
    } catch (error) {
      signal?.throwIfAborted();
      throw error;
    } finally {
      signal?.removeEventListener("abort", give_up);
    }
  }

  async close_file(path) {
    await this.#send("close_file", { path });
  }

  async memory_size() {
    return (await this.#send("memory_size", {})).size;
  }

  close() {
    this.#end("Etna was closed");
  }
}
