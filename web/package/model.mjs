// A language model from a file, and texts that it writes.
import { EtnaError } from "./runtime.mjs";
import { new_id } from "./tensor.mjs";

/** How long C++ writes before JavaScript may show the text, or stop it. */
const SLICE_MS = 16;

/** What a text is written with unless told. */
const DEFAULTS = {
  max_tokens: 128,
  temperature: 0.8,
  top_k: 40,
  top_p: 0.95,
  min_p: 0.05,
  typical_p: 1,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  logit_bias: {},
  endless: false,
  seed: 0,
};

function file_name(source, otherwise) {
  const path = source instanceof URL ? source.pathname : typeof source === "string" ? source : source?.name;
  return (path ?? otherwise).split(/[?#]/)[0].split("/").pop() || otherwise;
}

/** Where llama2.c's tokenizer lies: beside its weights. */
const beside = (source, name) => new URL(name, new URL(source, globalThis.location?.href)).href;

export class Model {
  #transport;
  #id = new_id();
  #files = [];

  /**
   * @param source URL, File, Blob or bytes @param options.tokenizer the same for a tokenizer in a file of its own; for
   * the URL of a llama2.c file, tokenizer.bin beside it @param options.name of the file, for errors
   * @param options.context tokens that fit at once, cache the dtype of cached keys and values
   */
  static async open(transport, source, options = {}) {
    let { device = "cpu", tokenizer, name, context = null, cache = null, onProgress, signal } = options;
    const model = new Model();
    model.#transport = transport;
    const file = file_name(source, "model.bin");
    name ??= file;
    const is_url = typeof source === "string" || source instanceof URL;
    if (!tokenizer && is_url && file.endsWith(".bin")) tokenizer = beside(source, "tokenizer.bin");
    const folder = `m${model.#id}`;
    const open = async (one, options) => {
      const path = await transport.open_file(one, { folder, signal, ...options });
      model.#files.push(path);
      return path;
    };
    try {
      const path = await open(source, { name, on_progress: onProgress });
      const args = { id: model.#id, path, device, context, cache };
      if (tokenizer) args.tokenizer = await open(tokenizer, { name: file_name(tokenizer, "tokenizer.bin") });
      Object.assign(model, await transport.call("load_model", args));
      return model;
    } catch (error) {
      await model.#close_files();
      // The folder is of this memory, and says nothing to a reader.
      if (!(error instanceof EtnaError)) throw error;
      throw new EtnaError(error.message.replaceAll(`/models/${folder}/`, ""), error.kind);
    }
  }

  async #close_files() {
    for (const path of this.#files.splice(0)) await this.#transport.close_file(path);
  }

  /**
   * Goes on with a text.
   * @param options numbers of the sampling, as in etna.d.ts @param options.stop the text ends before one of these
   * @param options.on_token called with each new piece of text @param options.signal of an AbortController, ends it
   * @returns { text, tokens, stopped, first_token_ms, tokens_per_second }; stopped is "aborted" after the signal
   */
  async generate(prompt, options = {}) {
    const { stop = [], on_token, signal, ...numbers } = options;
    for (const name of Object.keys(numbers))
      if (!Object.hasOwn(DEFAULTS, name)) throw new EtnaError(`generate: there is no option '${name}'`);
    const begin = performance.now();
    const id = new_id();
    // What is undefined is as if it were not there.
    const given = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== undefined));
    const settings = { ...DEFAULTS, ...given, stop: [stop].flat() };
    await this.#transport.call("generate", { id, model: this.#id, prompt, ...settings });
    let text = "", stopped = null, first = 0;
    const tokens = [];
    try {
      while (stopped === null) {
        if (signal?.aborted) {
          stopped = "aborted";
          break;
        }
        const milliseconds = first ? SLICE_MS : 0;
        const part = await this.#transport.call("proceed", { id, milliseconds });
        if (!first && part.tokens.length) first = performance.now();
        tokens.push(...part.tokens);
        text += part.text;
        stopped = part.stopped;
        if (part.text) on_token?.(part.text);
        await this.#transport.pause?.();
      }
    } finally {
      await this.#transport.call("stop", { id });
    }
    const end = performance.now();
    return {
      text,
      tokens,
      stopped,
      first_token_ms: first ? first - begin : 0,
      tokens_per_second: tokens.length > 1 ? ((tokens.length - 1) / (end - first)) * 1000 : 0,
    };
  }

  /** Ids of a prompt. */
  async encode(text) {
    return (await this.#transport.call("encode", { id: this.#id, text })).tokens;
  }

  async free() {
    await this.#transport.call("free_model", { id: this.#id });
    await this.#close_files();
  }
}
