// The tests of every op, in a worker of their own: the device may be lost or out of memory without harm to the page.
import { $, cell, error_text, guarded, list_devices, row, save_json } from "./page.mjs";

const TITLES = ["Op", "Comparisons", "Error on the CPU", "its gradient", "Error on the GPU", "its gradient", "ms"];
const report = { browser: navigator.userAgent, device: "", dtypes: "", ops: [] };
let worker;

/** One message and its answer. @throws what the worker answers as an error, or dies of */
function ask(message) {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data));
    worker.onerror = (event) => reject(new Error(event.message || "the tests could not be loaded"));
    worker.postMessage(message);
  });
}

/** The largest error of the dtypes, with its dtype. */
function largest(errors) {
  const all = Object.entries(errors).map(([dtype, error]) => [dtype, Number(error)]);
  if (all.length === 0) return "";
  const [dtype, error] = all.reduce((a, b) => (b[1] > a[1] ? b : a));
  return error === 0 ? "0" : `${error_text(Number.isFinite(error) ? error : null)} (${dtype})`;
}

function show(result) {
  const line = row([
    cell(result.op), cell(result.through ? `in ${result.through}` : String(result.comparisons)),
    ...[result.cpu, result.cpu_gradient, result.gpu, result.gpu_gradient].map((errors) => cell(largest(errors))),
    cell(result.milliseconds.toFixed(0)),
  ]);
  $("test-rows").append(line);
  if (result.failures.length === 0) return;
  line.className = "error";
  const why = cell(result.failures.join("\n"));
  why.colSpan = TITLES.length;
  why.className = "failures";
  $("test-rows").append(row([why]));
}

async function run() {
  const device = $("test-device").value, dtype = $("test-dtypes").value, part = $("test-filter").value.trim();
  Object.assign(report, { device, dtypes: dtype || "all", ops: [] });
  $("test-head").replaceChildren(row(TITLES.map((title) => cell(title, "th"))));
  $("test-rows").replaceChildren();
  $("test-run").disabled = $("test-save").disabled = true;
  $("test-stop").disabled = false;
  $("test-state").textContent = "Loading the tests …";
  worker = new Worker(new URL("conformance_worker.mjs", import.meta.url), { type: "module" });
  // A stop must not wait for an op that takes minutes.
  let stopped = false;
  const stop = new Promise((resolve) => ($("test-stop").onclick = () => resolve((stopped = true))));
  try {
    const { ops } = await ask({ device, dtype });
    const chosen = ops.filter((op) => op.includes(part));
    const failed = () => report.ops.filter((one) => one.failures.length > 0).length;
    const state = (rest) => ($("test-state").textContent =
      `${report.ops.length} of ${chosen.length} ops tested, ${failed()} failed${rest}`);
    for (const op of chosen) {
      state(`. Testing ${op} …`);
      const result = await Promise.race([ask({ op }), stop]);
      if (stopped) break;
      report.ops.push(result);
      show(result);
    }
    state(stopped ? ". Stopped." : ".");
  } finally {
    worker.terminate();
    $("test-run").disabled = false;
    $("test-save").disabled = report.ops.length === 0;
    $("test-stop").disabled = true;
  }
}

/** @param etna for its list of devices */
export function offer_tests(etna) {
  list_devices($("test-device"), etna);
  $("test-run").onclick = guarded(run);
  $("test-save").onclick = () => save_json("etna-tests.json", report);
  $("test-run").disabled = false;
}
