// The same runtime beside the page, in a worker: calls and files become messages.
import { EtnaError } from "./runtime.mjs";

export class WorkerTransport {
  #worker;
  #waiting = new Map();
  #next = 0;
  notes = [];

  static async open(options, on_message_error) {
    const transport = new WorkerTransport();
    const worker = new Worker(new URL("./worker.mjs", import.meta.url), { type: "module", name: "etna" });
    transport.#worker = worker;
    worker.onmessage = ({ data }) => transport.#receive(data);
    worker.onerror = (event) => {
      const error = new EtnaError(`the worker stopped: ${event.message ?? "it could not be loaded"}`);
      for (const { reject } of transport.#waiting.values()) reject(error);
      transport.#waiting.clear();
      on_message_error?.(error);
    };
    transport.notes = (await transport.#send("open", { options })).notes;
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

  #send(what, message, { transfer = [], on_progress } = {}) {
    const id = ++this.#next;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, on_progress });
      this.#worker.postMessage({ id, what, ...message }, transfer);
    });
  }

  call(method, args, bytes) {
    return this.#send("call", { method, args, bytes });
  }

  async open_file(source, { on_progress, signal, ...options } = {}) {
    signal?.throwIfAborted();
    if (source instanceof URL) source = source.href;
    if (typeof source === "string") source = new URL(source, globalThis.location?.href).href;
    const { path } = await this.#send("open_file", { source, options }, { on_progress });
    return path;
  }

  async close_file(path) {
    await this.#send("close_file", { path });
  }

  async memory_size() {
    return (await this.#send("memory_size", {})).size;
  }

  close() {
    this.#worker.terminate();
  }
}
