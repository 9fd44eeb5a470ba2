import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { EtnaErrorOf, close_to } from "./claims.mjs";
import { load } from "./load.mjs";

let etna;
before(async () => {
  etna = await load();
});
after(() => etna.close());

test("devices have the CPU, and notes say what is missing", async () => {
  const cpu = etna.devices.find((device) => device.name === "cpu");
  assert.equal(cpu.rejected, "");
  assert.equal(etna.device, "cpu");
  assert.deepEqual(etna.notes, [], "the CPU was asked for");
  // Node has no WebGPU of its own, and before 24 no JSPI.
  assert.match((await load({ device: "auto" })).notes.join(), /no JSPI|no WebGPU: this browser offers none/);
  const absent = EtnaErrorOf("DeviceError", /^webgpu: there is no such device here; /);
  await assert.rejects(load({ device: "webgpu" }), absent);
  const unknown = EtnaErrorOf("DeviceError", /no device 'gpu'; there are auto, cpu and webgpu/);
  await assert.rejects(load({ device: "gpu" }), unknown);
});

test("ops are chained without waiting", async () => {
  const a = etna.tensor([[1, 2], [3, 4]]);
  const b = etna.tensor([[1, 0], [0, 1]]);
  assert.deepEqual([...(await a.matmul(b).add(1).relu().data())], [2, 3, 4, 5]);
  assert.equal(await a.sum().item(), 10);
  assert.deepEqual([...(await a.mean(0).data())], [2, 3]);
  assert.deepEqual(await a.reshape([4, 1]).shape(), [4, 1]);
  assert.deepEqual([...(await a.transpose().data())], [1, 3, 2, 4]);
  close_to(await a.softmax().data(), [0.26894, 0.73106, 0.26894, 0.73106], 1e-5);
  assert.deepEqual([...(await a.argmax(1).data())], [1n, 1n]);
});

test("numbers keep their dtype, and infinities get through", async () => {
  const x = etna.tensor(new Int32Array([1, -2, 3]));
  assert.deepEqual(await x.data(), new Int32Array([1, -2, 3]));
  assert.deepEqual(await x.to({ dtype: "f16" }).data(), new Float32Array([1, -2, 3]));
  const y = etna.tensor([1, 2, 3]);
  assert.deepEqual([...(await y.mul(Infinity).data())], [Infinity, Infinity, Infinity]);
  assert.deepEqual([...(await etna.full([2], -Infinity).data())], [-Infinity, -Infinity]);
  assert.equal(await etna.full([1], Infinity).item(), Infinity);
  assert.equal(await etna.full([], -Infinity).item(), -Infinity);
  assert.equal(await etna.full([1], NaN).item(), NaN);
});

test("errors are Etna's own, and appear where a value is read", async () => {
  const bad = etna.zeros([2, 3]).matmul(etna.zeros([2, 3]));
  const message = /matmul.*\[2, 3\].*\[2, 3\]/;
  await assert.rejects(bad.data(), EtnaErrorOf("ShapeError", message));
  await assert.rejects(bad.relu().sum().item(), EtnaErrorOf("ShapeError", message));
  await assert.rejects(etna.tensor([1, 2, 3], [2, 2]).ready(), /3 numbers do not fill the shape \[2, 2\]/);
  await assert.rejects(etna.zeros([2], { device: "vulkan:7" }).data(), (error) => error.kind === "DeviceError");
  await assert.rejects(etna.zeros([2], { dtype: "f12" }).data(), (error) => error.kind === "DtypeError");
  assert.throws(() => etna.zeros([2]).add("2"), /no tensor/);
  assert.equal(await etna.ones([3]).sum().item(), 3, "the next call works");
});

test("nested arrays that are no tensor are refused", () => {
  assert.throws(() => etna.tensor([[1, 2], [3, 4, 5], [6]]), EtnaErrorOf("ShapeError", /rows differ in length/));
  assert.throws(() => etna.tensor([[1, 2], 3]), EtnaErrorOf("ShapeError", /rows differ in length/));
  assert.throws(() => etna.tensor([1, [2]]), /no number/);
  assert.throws(() => etna.tensor([1, "2"]), /no number/);
  assert.throws(() => etna.tensor([1, undefined]), /no number/);
});

test("a tensor that was freed says so", async () => {
  const x = etna.ones([2]);
  const y = x.add(1);
  x.free();
  assert.equal(await y.sum().item(), 4, "what was asked before free() is done");
  await assert.rejects(x.data(), /used after free/);
});

test("gradients are those of the formula", async () => {
  const x = etna.tensor([1, 2, 3], [3], { requires_grad: true });
  await x.square().mul(2).sum().backward();
  assert.deepEqual([...(await x.grad.data())], [4, 8, 12]);
  await assert.rejects(etna.ones([2]).grad.data(), (error) => error.kind === "GradError");
});

test("an optimizer fits a line", async () => {
  await etna.manual_seed(1);
  const x = etna.rand([64, 1]);
  const y = x.mul(3).add(0.5);
  const w = etna.zeros([1, 1], { requires_grad: true });
  const b = etna.zeros([1], { requires_grad: true });
  const optimizer = etna.sgd([w, b], { lr: 0.5 });
  for (let i = 0; i < 200; i++) {
    await optimizer.zero_grad();
    await x.matmul(w).add(b).mse_loss(y).backward();
    await optimizer.step();
  }
  close_to([await w.item(), await b.item()], [3, 0.5], 0.02);
  await optimizer.free();
});

test("memory stays flat over many steps", async () => {
  const x = etna.rand([256, 256]);
  const step = async () => {
    const y = x.matmul(x);
    const z = y.relu();
    await z.sum().ready();
    y.free(), z.free();
  };
  for (let i = 0; i < 20; i++) await step();
  const before = await etna.memory();
  for (let i = 0; i < 200; i++) await step();
  const after = await etna.memory();
  assert.equal(after.wasm, before.wasm);
  assert.ok(after.in_use - before.in_use < 100_000, `${before.in_use} to ${after.in_use}`);
});

test("every op of the bench agrees with f64", async () => {
  const rows = await etna.bench_ops({ milliseconds: 0 });
  assert.ok(rows.length >= 40, `${rows.length} ops`);
  assert.deepEqual(rows.filter((row) => !row.ok), []);
});

test("an op's time is measured, and a signal ends the list", async () => {
  const controller = new AbortController();
  const seen = [];
  const rows = etna.bench_ops({
    milliseconds: 4,
    signal: controller.signal,
    on_result: (row) => seen.push(row) === 2 && controller.abort(),
  });
  await assert.rejects(rows, { name: "AbortError" });
  assert.equal(seen.length, 2);
  assert.ok(seen[0].milliseconds > 0 && seen[0].bytes > 0);
});
