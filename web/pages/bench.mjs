// Bench and tests: every op on every device, checked against the CPU in f64 and timed.
import { offer_tests } from "./conformance.mjs";
import { $, cell, error_text, guarded, open_etna, product, row, save_json, usable } from "./page.mjs";

let etna, controller;
const report = { browser: navigator.userAgent, devices: [], notes: [], results: [] };

function show_devices() {
  $("devices").replaceChildren(...etna.devices.flatMap((device) => {
    const facts = [device.kind, device.driver, ...device.features, ...device.limits].filter(Boolean).join(", ");
    return [cell(product(device), "dt"), cell(device.rejected || facts, "dd")];
  }));
}

async function run() {
  controller = new AbortController();
  const devices = usable(etna).map((device) => device.name);
  const ops = await etna.ops();
  const titles = devices.flatMap((name) => [`${name}: error`, "gradient", "µs"]);
  $("head").replaceChildren(row(["Op", ...titles].map((title) => cell(title, "th"))));
  $("rows").replaceChildren();
  report.results = [];
  $("run").disabled = $("save").disabled = true;
  $("stop").disabled = false;
  let wrong = 0, checked = 0;
  const summary = () => `${checked} of ${ops.length} ops checked, ${wrong} ${wrong === 1 ? "differs" : "differ"}.`;
  try {
    for (const op of ops) {
      if (controller.signal.aborted) break;
      const cells = [cell(op)];
      let ok = true;
      for (const device of devices) {
        const [result] = await etna.bench_ops({ device, ops: [op] });
        report.results.push(result);
        ok &&= result.ok;
        if (result.error) {
          cells.push(cell(result.error), cell(""), cell(""));
        } else {
          cells.push(cell(error_text(result.forward_error)), cell(error_text(result.gradient_error)),
            cell((1000 * result.milliseconds).toFixed(0)));
        }
      }
      checked++;
      if (!ok) wrong++;
      const line = row(cells);
      if (!ok) line.className = "error";
      $("rows").append(line);
      $("state").textContent = summary();
    }
  } finally {
    $("run").disabled = $("save").disabled = false;
    $("stop").disabled = true;
  }
}

$("run").onclick = guarded(run);
$("stop").onclick = () => controller.abort();
$("save").onclick = () => save_json("etna-bench.json", report);

await guarded(async () => {
  etna = await open_etna();
  Object.assign(report, { devices: etna.devices, notes: etna.notes });
  show_devices();
  $("state").textContent = `${(await etna.ops()).length} ops wait.`;
  $("run").disabled = false;
  offer_tests(etna);
})();
