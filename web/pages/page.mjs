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

export async function open_etna() {
  const etna = await load({ worker: true });
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
  return response.ok ? response.json() : { images: null, stories: null, run: null };
}
