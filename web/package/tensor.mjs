// Tensors as JavaScript sees them: ids of what lies in WebAssembly.
import { EtnaError } from "./runtime.mjs";

const UNARY = [
  "neg", "abs", "sign", "square", "relu", "exp", "log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh",
  "sigmoid", "silu", "gelu", "softplus", "erf", "floor", "ceil", "round",
];
const BINARY = ["add", "sub", "mul", "div", "pow", "minimum", "maximum", "eq", "ne", "lt", "le", "gt", "ge"];
const REDUCTIONS = ["sum", "mean", "max", "min", "var"];

const ARRAYS = {
  f64: Float64Array, f32: Float32Array, i64: BigInt64Array, i32: Int32Array, i8: Int8Array, u8: Uint8Array,
  bool: Uint8Array,
};
const DTYPES = new Map([
  [Float64Array, "f64"], [Float32Array, "f32"], [BigInt64Array, "i64"], [Int32Array, "i32"], [Int8Array, "i8"],
  [Uint8Array, "u8"],
]);

export function typed(bytes, dtype) {
  const Numbers = ARRAYS[dtype];
  return new Numbers(bytes.buffer, bytes.byteOffset, bytes.length / Numbers.BYTES_PER_ELEMENT);
}

/** Sizes and numbers of nested arrays: [[1, 2], [3, 4]] has the shape [2, 2]. */
function flatten(data) {
  const shape = [], numbers = [];
  for (let row = data; Array.isArray(row); row = row[0]) shape.push(row.length);
  const add = (row, depth) => {
    if (depth === shape.length) {
      if (!["number", "boolean", "bigint"].includes(typeof row))
        throw new EtnaError("tensor: its arrays hold something that is no number, or are not equally deep");
      return numbers.push(Number(row));
    }
    if (!Array.isArray(row) || row.length !== shape[depth])
      throw new EtnaError(`tensor: rows differ in length; one of dimension ${depth} has not ${shape[depth]} elements`,
        "ShapeError");
    for (const part of row) add(part, depth + 1);
  };
  add(data, 0);
  return { shape, numbers };
}

let last_id = 0;
export const new_id = () => ++last_id;

/** The class of one Etna: its tensors live in that Etna's memory. */
export function make_tensor_class(transport, default_device) {
  const collected = new FinalizationRegistry((id) => transport.call("free_tensor", { id }).catch(() => {}));

  class Tensor {
    #id = new_id();
    #made;

    constructor(method, args, bytes) {
      this.#made = transport.call(method, { ...args, out: this.#id }, bytes);
      // The error is kept where the tensor is, and appears where it is read.
      this.#made.catch(() => {});
      collected.register(this, this.#id, this);
    }

    /** @param data numbers, nested arrays of them, or a typed array @param shape if not given, that of the arrays */
    static from(data, shape, { dtype = null, device = default_device(), requires_grad = false } = {}) {
      if (typeof data === "number") data = [data], shape ??= [];
      if (Array.isArray(data)) {
        const nested = flatten(data);
        shape ??= nested.shape;
        data = Float64Array.from(nested.numbers);
        dtype ??= "f32";
      }
      const data_dtype = DTYPES.get(data?.constructor);
      if (!data_dtype) throw new EtnaError("tensor: data must be numbers, arrays of numbers or a typed array");
      const args = { shape: shape ?? [data.length], data_dtype, dtype, device, requires_grad };
      return new Tensor("from_numbers", args, data);
    }

    static create(kind, shape, { value = 0, dtype = null, device = default_device(), requires_grad = false } = {}) {
      return new Tensor("create", { kind, shape, value, dtype, device, requires_grad });
    }

    /** An op by its name: of this tensor, and of others. */
    apply(op, args = {}, others = []) {
      const inputs = [this, ...others].map((tensor) => {
        if (!(tensor instanceof Tensor)) throw new EtnaError(`${op}: an operand is no tensor of this Etna`);
        return tensor.#id;
      });
      return new Tensor("apply", { op, inputs, ...args });
    }

    matmul(other) {
      return this.apply("matmul", {}, [other]);
    }
    softmax(dim = -1) {
      return this.apply("softmax", { dim });
    }
    log_softmax(dim = -1) {
      return this.apply("log_softmax", { dim });
    }
    cumsum(dim = -1) {
      return this.apply("cumsum", { dim });
    }
    argmax(dim = null) {
      return this.apply("argmax", { dim });
    }
    reshape(shape) {
      return this.apply("reshape", { shape });
    }
    transpose(a = -2, b = -1) {
      return this.apply("transpose", { a, b });
    }
    flatten(first = 0) {
      return this.apply("flatten", { first });
    }
    unsqueeze(dim) {
      return this.apply("unsqueeze", { dim });
    }
    select(dim, index) {
      return this.apply("select", { dim, index });
    }
    slice(dim, begin, end) {
      return this.apply("slice", { dim, begin, end });
    }
    clamp(low, high) {
      return this.apply("clamp", { low, high });
    }
    /** Another dtype, another device, or both. */
    to({ dtype = null, device = null } = {}) {
      return this.apply("to", { dtype, device });
    }
    detach() {
      return this.apply("detach");
    }
    cross_entropy(targets) {
      return this.apply("cross_entropy", {}, [targets]);
    }
    mse_loss(target) {
      return this.apply("mse_loss", {}, [target]);
    }

    /** Gradients of this, a scalar unless `gradient` is given, for every leaf that requires one. */
    async backward(gradient = null) {
      await transport.call("backward", { id: this.#id, gradient: gradient && gradient.#id });
    }
    /** What backward() has added up. */
    get grad() {
      return this.apply("grad");
    }

    /** Waits until it is made. @returns itself @throws EtnaError if its making failed */
    async ready() {
      await this.#made;
      return this;
    }
    /** @returns { shape, dtype, device, requires_grad } */
    describe() {
      return transport.call("describe", { id: this.#id });
    }
    async shape() {
      return (await this.describe()).shape;
    }
    /** All numbers, as the typed array of the dtype; f16 and bf16 as f32. */
    async data() {
      const { bytes, dtype } = await transport.call("read", { id: this.#id });
      return typed(bytes, dtype);
    }
    /** The only number. */
    async item() {
      return Number((await transport.call("item", { id: this.#id })).value);
    }
    /** Printed as C++ prints it. */
    async text() {
      return (await transport.call("text", { id: this.#id })).text;
    }

    /** Frees it now. Without this, it is freed some time after JavaScript has lost it. */
    free() {
      collected.unregister(this);
      transport.call("free_tensor", { id: this.#id }).catch(() => {});
    }

    static id_of(tensor) {
      return tensor.#id;
    }
  }

  const define = (name, method) => Object.defineProperty(Tensor.prototype, name, { value: method, writable: true });
  for (const op of UNARY) {
    define(op, function () {
      return this.apply(op);
    });
  }
  for (const op of BINARY) {
    define(op, function (other) {
      return typeof other === "number" ? this.apply(op, { number: other }) : this.apply(op, {}, [other]);
    });
  }
  for (const op of REDUCTIONS) {
    define(op, function (dims = [], keepdim = false) {
      return this.apply(op, { dims: [dims].flat(), keepdim });
    });
  }
  return Tensor;
}

/** AdamW or SGD over tensors that require gradients. */
export class Optimizer {
  #transport;
  #id = new_id();
  #made;

  constructor(transport, kind, parameters, options) {
    this.#transport = transport;
    const ids = parameters.map((tensor) => tensor.constructor.id_of(tensor));
    this.#made = transport.call("optimizer", { id: this.#id, kind, parameters: ids, ...options });
    this.#made.catch(() => {});
  }

  async #call(method) {
    const result = this.#transport.call(method, { id: this.#id });
    result.catch(() => {});
    await this.#made;
    await result;
  }
  step() {
    return this.#call("optimizer_step");
  }
  zero_grad() {
    return this.#call("zero_grad");
  }
  free() {
    return this.#call("free_optimizer");
  }
}
