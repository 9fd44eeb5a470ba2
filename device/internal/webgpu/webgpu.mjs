// What device/internal/webgpu (C++, in WebAssembly) asks of WebGPU: a heap, pipelines, batches of dispatches, and reads. Opened
// by a page, a worker or node, and given to the module as `etna_webgpu`. Needs nothing of the page.
import { Kernels, PARAMETER_BYTES } from "../../../shaders/webgpu/kernels.mjs";
import { BUILT_IN } from "./built_in.mjs";

/** Bytes between the uniform blocks of two dispatches: what every adapter takes as a dynamic offset. */
const BLOCK_BYTES = 256;
/** The largest buffer that is kept for further reads. */
const KEPT_READ_BYTES = 1 << 24;

/** In workers the first request may find nothing. */
async function request_adapter(gpu) {
  for (let turn = 0; turn < 5; ++turn) {
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    if (adapter) return adapter;
    await new Promise((resume) => setTimeout(resume, 20 << turn));
  }
  throw new Error("the browser found no adapter");
}

function kind_of(info) {
  const text = `${info.vendor} ${info.architecture} ${info.device} ${info.description}`.toLowerCase();
  if (info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|software|basic render/.test(text)) return "software";
  return /intel|apple|qualcomm|arm\b|adreno|mali/.test(text) ? "integrated" : "discrete";
}

/**
 * @param options.gpu the browser's navigator.gpu, or another implementation's
 * @param options.read_kernels called once there is an adapter; returns what kernels.json holds
 * @throws Error saying why there is no device
 */
export async function open_webgpu({ gpu, read_kernels }) {
  const adapter = await request_adapter(gpu);
  // More than is guaranteed must be asked for by name.
  const wanted = ["maxComputeInvocationsPerWorkgroup", "maxComputeWorkgroupSizeX", "maxComputeWorkgroupStorageSize",
    "maxStorageBufferBindingSize", "maxBufferSize"];
  const device = await adapter.requestDevice({
    label: "etna",
    requiredLimits: Object.fromEntries(wanted.map((name) => [name, adapter.limits[name]])),
  });
  const kernels = new Kernels(await read_kernels());
  return new WebGpu({ adapter, device, kernels, language: gpu.wgslLanguageFeatures });
}

class WebGpu {
  /** Why the device is gone; empty while it is there. */
  lost = "";
  #adapter;
  #device;
  #kernels;
  #language;
  #error = "";
  #layout;
  #pipeline_layout;
  #heap = null;
  #bytes = 0;
  #page;
  #programs = new Map();
  #next_program = 1;
  #texts = new Map(Object.entries(BUILT_IN));
  #fused = new Map();
  #pipelines = [];
  #building = new Map();
  #offset = new Uint32Array(1);
  #submitted = [];
  #reads = new Map();
  #next_read = 1;
  #free_reads = [];

  constructor({ adapter, device, kernels, language }) {
    this.#adapter = adapter;
    this.#device = device;
    this.#kernels = kernels;
    this.#language = language;
    device.lost.then(({ reason, message }) => (this.lost ||= message || reason || "no reason given"));
    device.onuncapturederror = ({ error }) => (this.#error ||= error.message);
    this.#layout = device.createBindGroupLayout({
      entries: [
        { binding: 0, visibility: GPUShaderStage.COMPUTE, buffer: { type: "storage" } },
        { binding: 1, visibility: GPUShaderStage.COMPUTE,
          buffer: { type: "uniform", hasDynamicOffset: true, minBindingSize: PARAMETER_BYTES } },
      ],
    });
    this.#pipeline_layout = device.createPipelineLayout({ bindGroupLayouts: [this.#layout] });
    this.#page = this.#uniforms(BLOCK_BYTES);
  }

  /** What the C++ side wants to know of the adapter. */
  facts() {
    const { info, limits } = this.#adapter;
    return {
      name: info.description || [info.vendor, info.architecture, info.device].filter(Boolean).join(" ") || "unnamed",
      kind: kind_of(info),
      driver: [info.vendor, info.architecture].filter(Boolean).join(" "),
      heap_bytes: Math.min(limits.maxStorageBufferBindingSize, limits.maxBufferSize),
      workgroup_size: Math.min(limits.maxComputeInvocationsPerWorkgroup, limits.maxComputeWorkgroupSizeX),
      shared_bytes: limits.maxComputeWorkgroupStorageSize,
      packed_dot: Boolean(this.#language?.has("packed_4x8_integer_dot_product")),
    };
  }

  /** The first error since the last call that no wait has told of; empty without one. */
  take_error() {
    const error = this.#error;
    this.#error = "";
    return error;
  }

  // ---- the heap

  /**
   * Makes the heap larger; its content stays.
   * @returns false where there is no memory for it
   */
  async grow(bytes) {
    const device = this.#device;
    device.pushErrorScope("validation");
    device.pushErrorScope("out-of-memory");
    const heap = device.createBuffer({
      label: "etna heap",
      size: bytes,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
    });
    const errors = [await device.popErrorScope(), await device.popErrorScope()];
    if (this.lost || errors.some(Boolean)) return false;
    if (this.#heap) {
      const encoder = device.createCommandEncoder();
      encoder.copyBufferToBuffer(this.#heap, 0, heap, 0, this.#bytes);
      device.queue.submit([encoder.finish()]);
      this.#heap.destroy();
    }
    this.#heap = heap;
    this.#bytes = bytes;
    this.#page.group = null;
    for (const program of this.#programs.values()) program.group = null;
    return true;
  }

  /** After everything submitted. @param at, data multiples of 4 bytes */
  write(at, data) {
    this.#device.queue.writeBuffer(this.#heap, at, data);
  }

  // ---- pipelines

  /** Names a fused kernel; its text is as Kernels.fused() takes it. */
  define_fused(name, text) {
    this.#fused.set(name, text);
  }
  #wgsl(name, constants) {
    if (this.#fused.has(name)) return this.#kernels.fused(this.#fused.get(name));
    return this.#texts.get(name) ?? this.#kernels.wgsl(name, constants);
  }

  /** Why there is no such kernel; empty where there is one. */
  missing(name) {
    if (this.#texts.has(name) || this.#fused.has(name) || this.#kernels.names().includes(name)) return "";
    return this.#kernels.missing(name) ?? "there is none of that name";
  }

  /** Begins to build it. @param op for errors @returns its number */
  pipeline(name, constants, op) {
    const device = this.#device, id = this.#pipelines.length;
    this.#pipelines.push(null);
    const building = (async () => {
      const code = this.#wgsl(name, constants);
      device.pushErrorScope("validation");
      const module = device.createShaderModule({ label: name, code });
      const scope = device.popErrorScope();
      const descriptor = { label: op, layout: this.#pipeline_layout, compute: { module } };
      const made = device.createComputePipelineAsync(descriptor);
      const [pipeline, error] = await Promise.allSettled([made, scope]);
      if (error.value) throw error.value;  // of the text, which says more
      if (pipeline.reason) throw pipeline.reason;
      this.#pipelines[id] = pipeline.value;
    })().catch((error) => `${op}: the kernel ${name} cannot be built here: ${error.message}`);
    this.#building.set(id, building);
    return id;
  }

  get building() {
    return this.#building.size;
  }

  /** Waits for those being built. @returns what went wrong; empty if nothing did */
  async finish_building() {
    let first = "";
    for (const [id, building] of [...this.#building]) {
      first ||= (await building) ?? "";
      this.#building.delete(id);
    }
    return first;
  }

  // ---- work

  #uniforms(bytes) {
    const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    return { buffer: this.#device.createBuffer({ label: "etna arguments", size: bytes, usage }), bytes, group: null };
  }

  #encode(page, commands) {
    page.group ??= this.#device.createBindGroup({
      layout: this.#layout,
      entries: [
        { binding: 0, resource: { buffer: this.#heap } },
        { binding: 1, resource: { buffer: page.buffer, size: PARAMETER_BYTES } },
      ],
    });
    const encoder = this.#device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    let bound = -1;
    for (let i = 0; i < commands.length; i += 5) {
      if (commands[i] !== bound) pass.setPipeline(this.#pipelines[(bound = commands[i])]);
      this.#offset[0] = commands[i + 4] * BLOCK_BYTES;
      pass.setBindGroup(0, page.group, this.#offset, 0, 1);
      pass.dispatchWorkgroups(commands[i + 1], commands[i + 2], commands[i + 3]);
    }
    pass.end();
    this.#device.queue.submit([encoder.finish()]);
    const done = Promise.race([this.#device.queue.onSubmittedWorkDone().catch(() => {}), this.#device.lost]);
    this.#submitted.push(done.then(() => void this.#submitted.shift()));
  }

  /**
   * Queues dispatches.
   * @param commands five numbers each: pipeline, workgroups in x, y and z, and which block has its arguments
   * @param blocks of BLOCK_BYTES each
   */
  submit(commands, blocks) {
    if (blocks.length > this.#page.bytes) {
      this.#page.buffer.destroy();
      this.#page = this.#uniforms(blocks.length);
    }
    // Ordered behind the last submit, which still reads the blocks before.
    this.#device.queue.writeBuffer(this.#page.buffer, 0, blocks);
    this.#encode(this.#page, commands);
  }

  /** Keeps blocks for commands that run many times. @returns the program's number */
  make_program(blocks) {
    const program = this.#uniforms(Math.max(blocks.length, BLOCK_BYTES));
    this.#device.queue.writeBuffer(program.buffer, 0, blocks);
    this.#programs.set(this.#next_program, program);
    return this.#next_program++;
  }
  run_program(id, commands) {
    this.#encode(this.#programs.get(id), commands);
  }
  drop_program(id) {
    this.#programs.get(id).buffer.destroy();
    this.#programs.delete(id);
  }

  // ---- waiting

  /** Submits that are not known to be done. */
  get in_flight() {
    return this.#submitted.length;
  }
  async finish_oldest() {
    await this.#submitted[0];
  }
  async finish() {
    await this.#submitted.at(-1);
  }

  /**
   * Begins to read ranges of the heap, behind one another.
   * @param ranges [address, bytes], multiples of 4 @returns the read's number
   */
  start_read(...ranges) {
    const bytes = ranges.reduce((sum, range) => sum + range[1], 0);
    const at = this.#free_reads.findIndex((buffer) => buffer.size >= bytes && buffer.size <= 4 * bytes + 65536);
    const buffer = at >= 0 ? this.#free_reads.splice(at, 1)[0] : this.#device.createBuffer({
      label: "etna read",
      size: bytes <= KEPT_READ_BYTES ? 2 ** Math.max(Math.ceil(Math.log2(bytes)), 8) : bytes,
      usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ,
    });
    const encoder = this.#device.createCommandEncoder();
    let behind = 0;
    for (const [address, count] of ranges) {
      encoder.copyBufferToBuffer(this.#heap, address, buffer, behind, count);
      behind += count;
    }
    this.#device.queue.submit([encoder.finish()]);
    const read = { buffer, bytes, done: false, dropped: false };
    read.mapped = buffer.mapAsync(GPUMapMode.READ, 0, bytes).then(
      () => {
        read.done = true;
        if (read.dropped) this.#give_back(read);
      },
      (error) => {
        read.done = true;
        read.failed = error.message;
      },
    );
    this.#reads.set(this.#next_read, read);
    return this.#next_read++;
  }

  #give_back({ buffer }) {
    buffer.unmap();
    if (buffer.size <= KEPT_READ_BYTES && this.#free_reads.length < 8) this.#free_reads.push(buffer);
    else buffer.destroy();
  }

  /** Lets the browser work for a moment. @returns whether the read has arrived */
  async is_read(id) {
    const read = this.#reads.get(id);
    if (!read.done) await new Promise((resume) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        port1.close();
        resume();
      };
      port2.postMessage(0);
    });
    return read.done;
  }

  /** Waits for a read and hands its bytes to `take`. @returns what went wrong; empty if nothing did */
  async finish_read(id, take) {
    const read = this.#reads.get(id);
    this.#reads.delete(id);
    await read.mapped;
    if (read.failed) return read.failed;
    take(new Uint8Array(read.buffer.getMappedRange(0, read.bytes)));
    this.#give_back(read);
    return "";
  }

  /** Forgets a read that nobody wants any more. */
  drop_read(id) {
    const read = this.#reads.get(id);
    this.#reads.delete(id);
    read.dropped = true;
    if (read.done && !read.failed) this.#give_back(read);
  }
}
