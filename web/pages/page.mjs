// What the pages share: Etna in a worker, its devices in a list, its notes and errors in sentences.
import { load } from "./etna/etna.mjs";

export const $ = (id) => document.getElementById(id);

export function show_error(error) {
  $("error").textContent = error.message ?? String(error);
}

/** Runs a handler of an event; what it throws is shown. */
export const guarded = (f) => async (...args) => {
  try {
    $("error").textContent = "";
    await f(...args);
  } catch (error) {
    show_error(error);
  }
};

export const mebibytes = (bytes) => (bytes / 2 ** 20).toFixed(1);

export async function open_etna() {
  const onProgress = ({ loaded, total }) => {
    const of_all = total ? ` of ${mebibytes(total)}` : "";
    $("notes").textContent = `Loading Etna: ${mebibytes(loaded)}${of_all} MiB.`;
  };
  const etna = await load({ worker: true, onProgress });
  $("notes").textContent = etna.notes.map((note) => `${note[0].toUpperCase()}${note.slice(1)}.`).join(" ");
  return etna;
}

export const usable = (etna) => etna.devices.filter((device) => !device.rejected);
export const product = (device) => (device.name === "cpu" ? "CPU" : `${device.name}: ${device.product}`);

export function list_devices(select, etna) {
  for (const device of usable(etna)) select.append(new Option(product(device), device.name));
  select.value = etna.device;
}

/** What the server has beside the pages: images, models. */
export async function find_data() {
  const response = await fetch("data/index.json");
  return response.ok ? response.json() : { images: [], stories: null, run: null, notes: [] };
}

// ---- tables, and reports as files

export function cell(text, kind = "td") {
  const made = Object.assign(document.createElement(kind), { textContent: text });
  if (kind === "th") made.scope = "col";
  return made;
}
export function row(cells) {
  const line = document.createElement("tr");
  line.append(...cells);
  return line;
}
export const error_text = (value) => (value === 0 ? "0" : value == null ? "not finite" : value.toExponential(1));

export const save_json = (name, report) => save_file(name, JSON.stringify(report, null, 1), "application/json");

export function save_file(name, contents, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([contents], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
