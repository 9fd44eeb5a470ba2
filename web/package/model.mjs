// A language model from a file, texts that it writes, and its training on a text.
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

/** What a model is trained with unless told. */
const TUNING = { steps: 100, batch: 4, seq: 128, lr: 1e-3, seed: 1 };

/** The text of a string, a Blob or bytes. */
async function text_in(source) {
  if (typeof source === "string") return source;
  const bytes = source instanceof Blob ? await source.arrayBuffer() : source;
  if (!(bytes instanceof ArrayBuffer || ArrayBuffer.isView(bytes)))
    throw new EtnaError("finetune: a text is a string, or a File, a Blob or bytes of UTF-8");
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new EtnaError(`finetune: ${source.name ?? "this"} is no text: it is not UTF-8`, "FormatError");
  }
}

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

  /**
   * Trains all weights further on a text. The model keeps its weights while it is trained, and has the new ones then.
   * @param text a string, or a file of UTF-8: a File, a Blob or bytes
   * @param options steps, batch (pieces of the text a step), seq (tokens of a piece), lr (the largest; it rises in the
   * first steps, then falls to 0 in half a cosine), seed (of the order of pieces)
   * @param options.on_step called with { step, steps, loss } after some steps @param options.signal ends it early
   * @returns { steps, first_loss, loss, tokens, parameters, captured, stopped }; stopped is "steps" or "aborted"
   */
  async finetune(text, options = {}) {
    const { on_step, signal, ...numbers } = options;
    for (const name of Object.keys(numbers))
      if (!Object.hasOwn(TUNING, name)) throw new EtnaError(`finetune: there is no option '${name}'`);
    const given = Object.fromEntries(Object.entries(numbers).filter(([, value]) => value !== undefined));
    const settings = { ...TUNING, ...given }, id = new_id();
    if (!given.seq) settings.seq = Math.min(settings.seq, this.context);
    const call = (method, args) => this.#transport.call(method, { id, ...args });
    const begun = await call("finetune", { model: this.#id, text: await text_in(text), ...settings });
    let last = { step: 0, loss: null, captured: false }, first_loss = null, keep = false;
    try {
      while (last.step < settings.steps && !signal?.aborted) {
        last = await call("finetune_steps", { milliseconds: last.step ? SLICE_MS : 0 });
        first_loss ??= last.loss;
        on_step?.({ step: last.step, steps: settings.steps, loss: last.loss });
        await this.#transport.pause?.();
      }
      keep = last.step > 0;
    } finally {
      await call("end_finetune", { keep });
    }
    const { step: steps, loss, captured } = last;
    const stopped = steps < settings.steps ? "aborted" : "steps";
    return { steps, first_loss, loss, tokens: begun.tokens, parameters: begun.parameters, captured, stopped };
  }

  /** @returns the model as it is now, as the bytes of a GGUF file */
  async save_gguf() {
    return (await this.#transport.call("save_gguf", { id: this.#id })).bytes;
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
