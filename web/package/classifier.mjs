// A classifier of images, trained in the page.
import { EtnaError } from "./runtime.mjs";
import { new_id, typed } from "./tensor.mjs";

const PIXELS = 28 * 28;

/** Images and labels in one array of bytes, as web/bindings/classifier.cpp takes them. */
function pack(images, labels = []) {
  if (!(images instanceof Uint8Array))
    throw new EtnaError("classifier: images must be a Uint8Array of 784 bytes each, 0 to 255");
  if (images.length % PIXELS)
    throw new EtnaError(`classifier: ${images.length} bytes are no images of 28×28`, "ShapeError");
  if (!Array.prototype.every.call(labels, (label) => Number.isInteger(label) && label >= 0 && label <= 9))
    throw new EtnaError("classifier: labels are 0 to 9", "IndexError");
  const bytes = new Uint8Array(images.length + labels.length);
  bytes.set(images);
  bytes.set(labels, images.length);
  return { bytes, count: images.length / PIXELS };
}

export class Classifier {
  #transport;
  #id = new_id();

  static async open(transport, { model = "mlp", device = "cpu", lr = 1e-3 } = {}) {
    const classifier = new Classifier();
    classifier.#transport = transport;
    await transport.call("classifier", { id: classifier.#id, model, device, lr });
    return classifier;
  }

  #call(method, args = {}, bytes) {
    return this.#transport.call(method, { id: this.#id, ...args }, bytes);
  }

  /**
   * One step of AdamW. @param images Uint8Array, 784 bytes each @param labels 0 to 9
   * @param lr the learning rate of this step and of those after it; without it, it stays
   * @returns { step, loss() }: loss() fetches the value, which waits for the device; call it only where it is shown
   */
  async train_step(images, labels, { lr } = {}) {
    const { bytes, count } = pack(images, labels);
    const { step } = await this.#call("train_step", lr === undefined ? { count } : { count, lr }, bytes);
    return { step, loss: async () => Number((await this.#call("loss", { step })).loss) };
  }

  /** @returns { loss, accuracy, count } */
  async evaluate(images, labels) {
    const { bytes, count } = pack(images, labels);
    const result = await this.#call("evaluate", { count }, bytes);
    return { ...result, loss: Number(result.loss) };
  }

  /** @returns probabilities, ten an image, and the most probable label of each */
  async predict(images) {
    const { bytes, count } = pack(images);
    const result = await this.#call("predict", { count }, bytes);
    const probabilities = typed(result.bytes, "f32");
    const labels = Array.from({ length: count }, (_, i) => {
      const row = probabilities.subarray(i * 10, i * 10 + 10);
      return row.indexOf(Math.max(...row));
    });
    return { labels, probabilities };
  }

  /** @returns { device, parameters, steps, captured, replays } */
  describe() {
    return this.#call("describe_classifier");
  }
  async free() {
    await this.#call("free_classifier");
  }
}
