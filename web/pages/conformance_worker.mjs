// A Web Worker that holds the tests of every op on one device. A message {device, dtype} opens it, {op} tests that op.
import { module_options } from "./etna/runtime.mjs";

let tests;

async function open({ device, dtype }) {
  const { options, notes } = await module_options({ device: device === "cpu" ? "cpu" : "auto" });
  if (device !== "cpu" && notes.length) throw new Error(notes.join("; "));
  const { default: etna_conformance } = await import("./etna_conformance.mjs");
  tests = await etna_conformance(options);
  return ask({ device, dtype });
}

async function ask(request) {
  const given = tests.stringToNewUTF8(JSON.stringify(request));
  const answer = await tests._etna_conformance(given);
  const result = JSON.parse(tests.UTF8ToString(answer));
  tests._free(given);
  tests._free(answer);
  if (result.error) throw new Error(result.error);
  return result;
}

onmessage = async ({ data }) => {
  try {
    postMessage(await (data.op ? ask(data) : open(data)));
  } catch (error) {
    postMessage({ error: error.message });
  }
};
