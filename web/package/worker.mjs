// A Web Worker that runs Etna for a page (transport.mjs).
import { Runtime } from "./runtime.mjs";

let runtime;
/** Of files that are being read, by the ids of their messages. */
const readers = new Map();

async function handle({ id, what, method, args, bytes, source, options, tell, path, reader }) {
  switch (what) {
    case "open":
      runtime = await Runtime.open(options, tell && ((progress) => postMessage({ id, progress })));
      return { notes: runtime.notes };
    case "call":
      return runtime.call(method, args, bytes);
    case "open_file": {
      // A large file comes in thousands of chunks; a page shows a few dozen steps of them.
      let told = 0;
      const on_progress = (progress) => {
        if (performance.now() - told < 50 && progress.loaded < progress.total) return;
        told = performance.now();
        postMessage({ id, progress });
      };
      const controller = new AbortController();
      readers.set(id, controller);
      try {
        return { path: await runtime.open_file(source, { ...options, on_progress, signal: controller.signal }) };
      } finally {
        readers.delete(id);
      }
    }
    case "give_up":
      return readers.get(reader)?.abort();
    case "close_file":
      return runtime.close_file(path);
    case "memory_size":
      return { size: runtime.memory_bytes };
  }
}

onmessage = async ({ data }) => {
  try {
    const result = (await handle(data)) ?? null;
    postMessage({ id: data.id, result }, result?.bytes instanceof Uint8Array ? [result.bytes.buffer] : []);
  } catch (error) {
    postMessage({ id: data.id, error: { message: error.message, kind: error.kind ?? "Error" } });
  }
};
