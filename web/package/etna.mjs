// Etna in JavaScript. What is here says what to run; web/bindings run it, one call after another, so ops may be chained
// without waiting: an error appears where values are read. Documented in docs/browser.md, typed in etna.d.ts.
import { Classifier } from "./classifier.mjs";
import { Model } from "./model.mjs";
import { EtnaError, Runtime } from "./runtime.mjs";
import { make_tensor_class, Optimizer } from "./tensor.mjs";

export { EtnaError };

/**
 * Loads Etna.
 * @param options.wasm URL or bytes of etna_core.wasm, kernels URL or contents of kernels.json
 * @param options.device "auto": WebGPU if there is one, else the CPU; "cpu"; "webgpu"
 * @param options.threads false: one thread on the CPU even where WebAssembly may have more
 * @param options.worker true: everything runs in a Web Worker, so that the page stays responsive
 * @param options.onProgress called with { stage, loaded, total }: bytes of the module, total 0 where nobody says
 */
export async function load({ wasm, kernels, device = "auto", threads = true, worker = false, onProgress } = {}) {
  if (!["auto", "cpu", "webgpu"].includes(device))
    throw new EtnaError(`load: there is no device '${device}'; there are auto, cpu and webgpu`, "DeviceError");
  let bytes = { loaded: 0, total: 0 };
  const on_progress = onProgress && ((now) => onProgress({ stage: "loading", ...(bytes = now) }));
  on_progress?.(bytes);
  const options = { wasm: wasm instanceof URL ? wasm.href : wasm, kernels, device, threads };
  let transport;
  if (worker) {
    const { WorkerTransport } = await import("./transport.mjs");
    transport = await WorkerTransport.open(options, on_progress);
  } else {
    transport = await Runtime.open(options, on_progress);
  }
  try {
    const { devices } = await transport.call("devices", {});
    const etna = new Etna(transport, devices, device);
    onProgress?.({ stage: "ready", ...bytes });
    return etna;
  } catch (error) {
    // Nobody else could end the worker.
    transport.close?.();
    throw error;
  }
}

class Etna {
  #transport;
  #Tensor;

  constructor(transport, devices, wanted) {
    this.#transport = transport;
    /** Every device found, usable or not; `rejected` says why not. */
    this.devices = devices;
    /** What differs from the usual here, in sentences. */
    this.notes = transport.notes;
    const gpu = devices.find((one) => one.name.startsWith("webgpu") && !one.rejected);
    if (wanted === "webgpu" && !gpu)
      throw new EtnaError(["webgpu: there is no such device here", ...this.notes].join("; "), "DeviceError");
    /** Where tensors, classifiers and models go unless told. A software rasterizer only when named. */
    this.device = gpu && (wanted === "webgpu" || gpu.kind !== "software") ? gpu.name : "cpu";
    this.#Tensor = make_tensor_class(transport, () => this.device);
  }

  tensor(data, shape, options) {
    return this.#Tensor.from(data, shape, options);
  }
  zeros(shape, options) {
    return this.#Tensor.create("full", shape, { ...options, value: 0 });
  }
  ones(shape, options) {
    return this.#Tensor.create("full", shape, { ...options, value: 1 });
  }
  full(shape, value, options) {
    return this.#Tensor.create("full", shape, { ...options, value });
  }
  rand(shape, options) {
    return this.#Tensor.create("rand", shape, options);
  }
  randn(shape, options) {
    return this.#Tensor.create("randn", shape, options);
  }
  cat(tensors, dim = 0) {
    return tensors[0].apply("cat", { dim }, tensors.slice(1));
  }
  where(condition, a, b) {
    return condition.apply("where", {}, [a, b]);
  }

  adamw(parameters, { lr = 1e-3, weight_decay = 0.01 } = {}) {
    return new Optimizer(this.#transport, "adamw", parameters, { lr, weight_decay, momentum: 0 });
  }
  sgd(parameters, { lr = 1e-2, momentum = 0, weight_decay = 0 } = {}) {
    return new Optimizer(this.#transport, "sgd", parameters, { lr, momentum, weight_decay });
  }

  /** A classifier of grey images of 28×28 in ten classes. */
  classifier(options = {}) {
    return Classifier.open(this.#transport, { device: this.device, ...options });
  }
  /** A language model from a URL, a File, a Blob or bytes: llama2.c, GGUF, or a checkpoint in safetensors. */
  load_model(source, options = {}) {
    return Model.open(this.#transport, source, { device: this.device, ...options });
  }

  async manual_seed(seed) {
    await this.#transport.call("manual_seed", { seed });
  }
  /** Waits until a device has done everything that was asked. */
  async synchronize(device = this.device) {
    await this.#transport.call("synchronize", { device });
  }
  /** Bytes: of WebAssembly's memory, and of a device in tensors that live (in_use), at most (peak), and cached. */
  async memory(device = this.device) {
    const stats = await this.#transport.call("memory", { device });
    const wasm = this.#transport.memory_size ? await this.#transport.memory_size() : this.#transport.memory_bytes;
    const { tensors } = await this.#transport.call("count_tensors", {});
    return { wasm, tensors, ...stats };
  }

  /** Names of the ops that bench_ops() checks and times. */
  async ops() {
    return (await this.#transport.call("ops", {})).ops;
  }
  /**
   * Checks ops on a device against the CPU in f64, forward and backward, and times the forward pass.
   * @param options.milliseconds how long to time each; 0: not at all
   * @returns rows { op, forward_error, gradient_error, limit, ok, milliseconds, flops, bytes, error }
   */
  async bench_ops({ device = this.device, ops, milliseconds = 40, on_result, signal } = {}) {
    const rows = [];
    for (const op of ops ?? (await this.ops())) {
      signal?.throwIfAborted();
      const row = { op, device };
      try {
        Object.assign(row, await this.#transport.call("check_op", { op, device }));
        if (milliseconds > 0) Object.assign(row, await this.#transport.call("time_op", { op, device, milliseconds }));
      } catch (error) {
        Object.assign(row, { ok: false, error: error.message });
      }
      rows.push(row);
      on_result?.(row);
    }
    return rows;
  }

  /** Ends the worker, if there is one. */
  close() {
    this.#transport.close?.();
  }
}
