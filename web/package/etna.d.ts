// Types of etna.mjs. Documented in docs/browser.md.

export type DType = "f64" | "f32" | "f16" | "bf16" | "i64" | "i32" | "i8" | "u8" | "bool";
export type DeviceName = string;
export type Numbers = Float64Array | Float32Array | BigInt64Array | Int32Array | Int8Array | Uint8Array;
export type Nested = number | Nested[];
export type Bytes = ArrayBuffer | ArrayBufferView;
/** A URL, a File or Blob, or bytes. */
export type FileSource = string | URL | Blob | Bytes;

/** An error with Etna's own message. `kind` is its C++ class: "ShapeError", "FormatError", "OutOfMemory", ... */
export class EtnaError extends Error {
  readonly kind: string;
}

export interface LoadOptions {
  /** URL or bytes of etna_core.wasm; by default the one beside etna.mjs. */
  wasm?: string | URL | Bytes;
  /** URL or contents of kernels.json; by default the one beside etna.mjs. */
  kernels?: string | URL | object;
  /** "auto": WebGPU if there is a GPU, else the CPU. */
  device?: "auto" | "cpu" | "webgpu";
  /** false: one thread on the CPU even where WebAssembly may have more. */
  threads?: boolean;
  /** Run in a Web Worker, so that the page stays responsive. */
  worker?: boolean;
  /** Bytes of the module that have come, while it is loading; total is 0 where the server does not say. */
  onProgress?: (progress: { stage: "loading" | "ready"; loaded: number; total: number }) => void;
}
export function load(options?: LoadOptions): Promise<Etna>;

export interface DeviceInfo {
  name: DeviceName;
  product: string;
  kind: string;
  driver: string;
  /** Why it cannot be used; empty if it can. */
  rejected: string;
  features: string[];
  limits: string[];
}

export interface TensorOptions {
  dtype?: DType;
  device?: DeviceName;
  requires_grad?: boolean;
}

/** Ops return at once; an error of theirs appears where values are read. */
export interface Tensor {
  neg(): Tensor;
  abs(): Tensor;
  sign(): Tensor;
  square(): Tensor;
  relu(): Tensor;
  exp(): Tensor;
  log(): Tensor;
  log1p(): Tensor;
  sqrt(): Tensor;
  rsqrt(): Tensor;
  reciprocal(): Tensor;
  sin(): Tensor;
  cos(): Tensor;
  tanh(): Tensor;
  sigmoid(): Tensor;
  silu(): Tensor;
  gelu(): Tensor;
  softplus(): Tensor;
  erf(): Tensor;
  floor(): Tensor;
  ceil(): Tensor;
  round(): Tensor;

  add(other: Tensor | number): Tensor;
  sub(other: Tensor | number): Tensor;
  mul(other: Tensor | number): Tensor;
  div(other: Tensor | number): Tensor;
  pow(other: Tensor | number): Tensor;
  minimum(other: Tensor | number): Tensor;
  maximum(other: Tensor | number): Tensor;
  eq(other: Tensor | number): Tensor;
  ne(other: Tensor | number): Tensor;
  lt(other: Tensor | number): Tensor;
  le(other: Tensor | number): Tensor;
  gt(other: Tensor | number): Tensor;
  ge(other: Tensor | number): Tensor;

  /** No dims: over all. */
  sum(dims?: number | number[], keepdim?: boolean): Tensor;
  mean(dims?: number | number[], keepdim?: boolean): Tensor;
  max(dims?: number | number[], keepdim?: boolean): Tensor;
  min(dims?: number | number[], keepdim?: boolean): Tensor;
  var(dims?: number | number[], keepdim?: boolean): Tensor;
  argmax(dim?: number): Tensor;
  cumsum(dim?: number): Tensor;
  softmax(dim?: number): Tensor;
  log_softmax(dim?: number): Tensor;

  matmul(other: Tensor): Tensor;
  /** Mean cross-entropy of logits [N, C] with targets [N] i64. */
  cross_entropy(targets: Tensor): Tensor;
  mse_loss(target: Tensor): Tensor;
  clamp(low: number, high: number): Tensor;

  reshape(shape: number[]): Tensor;
  transpose(a?: number, b?: number): Tensor;
  flatten(first?: number): Tensor;
  unsqueeze(dim: number): Tensor;
  select(dim: number, index: number): Tensor;
  slice(dim: number, begin: number, end: number): Tensor;
  to(options: { dtype?: DType; device?: DeviceName }): Tensor;
  detach(): Tensor;

  /** Gradients of a scalar, or with `gradient` of any tensor, for every leaf that requires one. */
  backward(gradient?: Tensor): Promise<void>;
  /** What backward() has added up. */
  readonly grad: Tensor;

  /** Waits until it is made. */
  ready(): Promise<Tensor>;
  describe(): Promise<{ shape: number[]; dtype: DType; device: DeviceName; requires_grad: boolean }>;
  shape(): Promise<number[]>;
  /** All numbers, in the typed array of the dtype; f16 and bf16 as f32. */
  data(): Promise<Numbers>;
  /** The only number. */
  item(): Promise<number>;
  /** Printed as C++ prints it. */
  text(): Promise<string>;
  /** Frees it now; otherwise some time after JavaScript has lost it. */
  free(): void;
}

export interface Optimizer {
  step(): Promise<void>;
  zero_grad(): Promise<void>;
  free(): Promise<void>;
}

export interface Classifier {
  /** @param images 784 bytes each, 0 to 255 @param labels 0 to 9 @param lr from this step on; without it, it stays */
  train_step(
    images: Uint8Array,
    labels: ArrayLike<number>,
    options?: { lr?: number },
  ): Promise<{ step: number; loss(): Promise<number> }>;
  evaluate(
    images: Uint8Array,
    labels: ArrayLike<number>,
  ): Promise<{ loss: number; accuracy: number; count: number }>;
  /** Probabilities are ten an image. */
  predict(images: Uint8Array): Promise<{ labels: number[]; probabilities: Float32Array }>;
  describe(): Promise<{
    device: DeviceName;
    parameters: number;
    steps: number;
    captured: boolean;
    replays: number;
  }>;
  free(): Promise<void>;
}

export interface GenerateOptions {
  max_tokens?: number;
  /** 0: the most probable token, always. */
  temperature?: number;
  top_k?: number;
  top_p?: number;
  min_p?: number;
  typical_p?: number;
  repetition_penalty?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  /** Added to the logits of tokens. */
  logit_bias?: Record<number, number>;
  /** The text ends before one of these. */
  stop?: string | string[];
  /** Where the context is full: go on without the middle of the text. */
  endless?: boolean;
  seed?: number;
  /** Called with each new piece of text. */
  on_token?: (text: string) => void;
  signal?: AbortSignal;
}

export interface FinetuneOptions {
  steps?: number;
  /** Pieces of the text that make one step. */
  batch?: number;
  /** Tokens of a piece. */
  seq?: number;
  /** The largest learning rate: it rises in the first steps, then falls to 0. */
  lr?: number;
  /** Of the order of pieces. */
  seed?: number;
  /** Called after each step, or after several that are fast; the loss is that of the last one. */
  on_step?: (progress: { step: number; steps: number; loss: number }) => void;
  /** Ends the training early; the model has the weights of the last step then. */
  signal?: AbortSignal;
}

export interface Model {
  readonly source: string;
  readonly architecture: string;
  readonly context: number;
  readonly vocabulary: number;
  readonly layers: number;
  readonly width: number;
  readonly device: DeviceName;
  /** Whether it can read and write text. */
  readonly tokenizer: boolean;
  generate(
    prompt: string,
    options?: GenerateOptions,
  ): Promise<{
    text: string;
    tokens: number[];
    /** "stop token", "stop word", "length", ... or "aborted" after the signal. */
    stopped: string;
    first_token_ms: number;
    tokens_per_second: number;
  }>;
  /** Ids of a prompt. */
  encode(text: string): Promise<number[]>;
  /** Trains all weights further on a text: a string, or a file of UTF-8. */
  finetune(
    text: string | Blob | Bytes,
    options?: FinetuneOptions,
  ): Promise<{
    steps: number;
    /** Of the first and the last step; null where there was none. */
    first_loss: number | null;
    loss: number | null;
    /** Of the text. */
    tokens: number;
    /** Weights that were trained. */
    parameters: number;
    /** Whether the device replayed a captured step. */
    captured: boolean;
    /** "steps", or "aborted" after the signal. */
    stopped: string;
  }>;
  /** The model as it is now: the bytes of a GGUF file. */
  save_gguf(): Promise<Uint8Array>;
  free(): Promise<void>;
}

export interface OpResult {
  op: string;
  device: DeviceName;
  ok: boolean;
  /** Largest difference by largest magnitude, against the CPU in f64; null: not finite. */
  forward_error?: number | null;
  gradient_error?: number | null;
  limit?: number;
  milliseconds?: number;
  flops?: number;
  bytes?: number;
  /** Why it did not run. */
  error?: string;
}

export interface Etna {
  readonly devices: DeviceInfo[];
  /** What differs from the usual here, in sentences. */
  readonly notes: string[];
  /** Where things go unless told. */
  readonly device: DeviceName;

  tensor(data: Nested | Numbers, shape?: number[], options?: TensorOptions): Tensor;
  zeros(shape: number[], options?: TensorOptions): Tensor;
  ones(shape: number[], options?: TensorOptions): Tensor;
  full(shape: number[], value: number, options?: TensorOptions): Tensor;
  rand(shape: number[], options?: TensorOptions): Tensor;
  randn(shape: number[], options?: TensorOptions): Tensor;
  cat(tensors: Tensor[], dim?: number): Tensor;
  where(condition: Tensor, a: Tensor, b: Tensor): Tensor;

  adamw(parameters: Tensor[], options?: { lr?: number; weight_decay?: number }): Optimizer;
  sgd(parameters: Tensor[], options?: { lr?: number; momentum?: number; weight_decay?: number }): Optimizer;

  classifier(options?: { model?: "mlp" | "cnn"; device?: DeviceName; lr?: number }): Promise<Classifier>;
  load_model(
    source: FileSource,
    options?: {
      device?: DeviceName;
      /** In a file of its own; for the URL of a llama2.c file by default tokenizer.bin beside it. */
      tokenizer?: FileSource;
      name?: string;
      /** Tokens that fit at once; by default what the model was trained with, at most 4096. */
      context?: number;
      /** Of keys and values; by default f32 on the CPU, f16 on a GPU. */
      cache?: "f32" | "f16" | "bf16" | "q8_0";
      onProgress?: (progress: { loaded: number; total: number }) => void;
      signal?: AbortSignal;
    },
  ): Promise<Model>;

  manual_seed(seed: number): Promise<void>;
  synchronize(device?: DeviceName): Promise<void>;
  memory(device?: DeviceName): Promise<{
    wasm: number;
    tensors: number;
    in_use: number;
    cached: number;
    peak: number;
  }>;

  ops(): Promise<string[]>;
  bench_ops(options?: {
    device?: DeviceName;
    ops?: string[];
    /** How long to time each op; 0: not at all. */
    milliseconds?: number;
    on_result?: (row: OpResult) => void;
    signal?: AbortSignal;
  }): Promise<OpResult[]>;

  /** Ends the worker, if there is one. */
  close(): void;
}
