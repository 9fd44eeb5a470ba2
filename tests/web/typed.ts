// Uses everything in etna.d.ts as a program would; package.test.mjs compiles it against the installed package.
import { EtnaError, load, type Classifier, type Etna, type Model, type OpResult, type Tensor } from "etna";

export async function use(file: File): Promise<void> {
  const etna: Etna = await load({
    device: "auto",
    worker: true,
    threads: false,
    onProgress: ({ stage, loaded, total }) => console.log(stage === "loading" ? loaded / total : "ready"),
  });
  const x: Tensor = etna.tensor([[1, 2], [3, 4]], undefined, { requires_grad: true, dtype: "f32" });
  const y: Tensor = etna.where(x.gt(0), x.matmul(etna.ones([2, 2])), etna.cat([x, x], 0).slice(0, 0, 2));
  await y.square().mean().backward();
  const numbers: ArrayLike<number | bigint> = await x.grad.data();
  const { shape, dtype } = await y.describe();
  console.log(numbers.length, shape[0], dtype, await y.sum().item());
  const optimizer = etna.adamw([x], { lr: 1e-3 });
  await optimizer.step();

  const classifier: Classifier = await etna.classifier({ model: "cnn", lr: 1e-3 });
  const { step, loss } = await classifier.train_step(new Uint8Array(784), [3], { lr: 1e-4 });
  console.log(step, await loss(), (await classifier.evaluate(new Uint8Array(784), [3])).accuracy);

  const model: Model = await etna.load_model(file, {
    tokenizer: new URL("https://example.org/tokenizer.bin"),
    context: 512,
    cache: "q8_0",
    onProgress: ({ loaded, total }) => console.log(loaded / total),
    signal: new AbortController().signal,
  });
  const { text, stopped, tokens } = await model.generate("Once", {
    max_tokens: 10,
    typical_p: 0.9,
    presence_penalty: 0.1,
    frequency_penalty: 0.1,
    logit_bias: { 17: -100 },
    stop: ["\n\n", "The end"],
    endless: true,
    on_token: (piece) => console.log(piece.length),
  });
  console.log(text.length, stopped.length, tokens.map((token) => token + 1));

  const tuned = await model.finetune(new Blob([text]), {
    steps: 10,
    batch: 2,
    seq: 32,
    lr: 1e-3,
    on_step: ({ step, steps, loss }) => console.log(step / steps, loss),
    signal: new AbortController().signal,
  });
  console.log(tuned.loss ?? 0, tuned.tokens, (await model.save_gguf()).length);

  const rows: OpResult[] = await etna.bench_ops({ ops: ["relu"], on_result: (row) => console.log(row.ok) });
  console.log(rows[0]?.forward_error ?? "not finite", (await etna.memory()).wasm);
  try {
    await etna.zeros([2, 3]).matmul(etna.zeros([2, 3])).data();
  } catch (error) {
    if (error instanceof EtnaError) console.log(error.kind);
  }
  // @ts-expect-error there is no such device
  await load({ device: "vulkan" });
  // @ts-expect-error a shape is a list
  etna.zeros(3);
  // @ts-expect-error options have names
  await model.generate("Once", { temprature: 1 });
  etna.close();
}
