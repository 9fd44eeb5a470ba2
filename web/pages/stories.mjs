// Stories: a language model writes, from the server's files or from the reader's own, and learns a text.
import { Chart } from "./chart.mjs";
import { $, find_data, guarded, list_devices, mebibytes, open_etna, save_file } from "./page.mjs";

/** By the name in the list: what load_model() takes. */
const sources = new Map();
let etna, model, loaded = "", controller;
/** Of the text that is trained on: a File. */
let lesson, chart;

/** One model at a time is loaded: of two that are asked for quickly, both would stay in memory. */
let loading = Promise.resolve();
function load_chosen() {
  const turn = loading.then(load_now);
  loading = turn.catch(() => {});
  return turn;
}

async function load_now() {
  const name = $("model").value, device = $("device").value;
  if (loaded === `${name} ${device}`) return;
  loaded = "";
  await model?.free();
  model = null;
  $("save").disabled = true;
  const { source, tokenizer } = sources.get(name);
  const onProgress = ({ loaded, total }) =>
    ($("about").textContent = `Loading ${name}: ${mebibytes(loaded)} of ${mebibytes(total)} MiB.`);
  model = await etna.load_model(source, { tokenizer, device, onProgress });
  loaded = `${name} ${device}`;
  const { architecture, layers, context, vocabulary, width } = model;
  $("about").textContent = `${name}: ${architecture}, ${layers} layers of width ${width}, ` +
    `${vocabulary} tokens, a context of ${context}.`;
}

const number = (id) => {
  const input = $(id);
  const name = input.parentElement.innerText.trim();
  if (!input.checkValidity()) throw new Error(`${name}: ${input.validationMessage}`);
  if (input.value === "") throw new Error(`${name}: a number is missing.`);
  return Number(input.value);
};

/** While the model writes or learns, the reader may only stop it. */
function busy(is, stop) {
  for (const id of ["write", "train", "model", "device"]) $(id).disabled = is;
  $("train").disabled ||= !lesson;
  $(stop).disabled = !is;
}

let working = Promise.resolve();

async function write() {
  const settings = {};
  for (const id of ["temperature", "top_k", "top_p", "min_p", "seed", "max_tokens"]) settings[id] = number(id);
  controller = new AbortController();
  busy(true, "stop");
  const prompt = $("prompt").value, story = $("story");
  try {
    await load_chosen();
    story.textContent = prompt;
    $("speed").textContent = "";
    const result = await model.generate(prompt, {
      ...settings,
      signal: controller.signal,
      on_token: (text) => story.append(text),
    });
    $("speed").textContent = `${result.tokens.length} tokens, ${result.tokens_per_second.toFixed(0)} a second, ` +
      `the first after ${result.first_token_ms.toFixed(0)} ms. Ended by: ${result.stopped}.`;
  } finally {
    busy(false, "stop");
  }
}

/** Trains the model on the text that was dropped. */
async function train() {
  const settings = {};
  for (const id of ["steps", "lr", "batch", "seq"]) settings[id] = number(id);
  controller = new AbortController();
  busy(true, "end");
  $("curve").hidden = false;
  chart ??= new Chart($("losses"), { accuracy: false });
  chart.clear();
  $("tuning").textContent = "The first step is prepared …";
  const begin = performance.now();
  try {
    await load_chosen();
    const { steps, first_loss, loss, tokens, stopped } = await model.finetune(lesson, {
      ...settings,
      signal: controller.signal,
      on_step: ({ step, steps, loss }) => {
        chart.add_loss(step, loss);
        const speed = ((1000 * step) / (performance.now() - begin)).toFixed(1);
        $("tuning").textContent = `Step ${step} of ${steps}, loss ${loss.toFixed(3)}, ${speed} steps a second.`;
      },
    });
    if (!steps) return void ($("tuning").textContent = "Stopped before the first step.");
    $("tuning").textContent = `${stopped === "aborted" ? "Stopped after" : "Trained for"} ${steps} steps on ` +
      `${lesson.name} (${tokens} tokens): the loss went from ${first_loss.toFixed(3)} to ${loss.toFixed(3)}. ` +
      "Write with it above, or save it.";
    $("save").disabled = false;
  } catch (error) {
    $("tuning").textContent = `${lesson.name} was not learned.`;
    throw error;
  } finally {
    busy(false, "end");
  }
}

async function save() {
  const name = $("model").value.replace(/\.[a-z]+$/, "").replaceAll(" ", "-");
  save_file(`${name}-tuned.gguf`, await model.save_gguf(), "application/octet-stream");
}

/** Of files that were dropped or chosen, the one to train on. */
function learn(files) {
  if (files.length !== 1) throw new Error("Give one text to train on.");
  [lesson] = files;
  $("tuning").textContent = `${lesson.name}: ${mebibytes(lesson.size)} MiB to train on.`;
  $("train").disabled = $("write").disabled;
}

function offer(name, source) {
  if (!sources.has(name)) $("model").append(new Option(name));
  sources.set(name, source);
  if (loaded.startsWith(`${name} `)) loaded = "";
}

/** Files that were dropped or chosen: a model, and perhaps its tokenizer. */
async function take(files) {
  const tokenizer = files.find((file) => file.name.startsWith("tokenizer"));
  const weights = files.find((file) => file !== tokenizer);
  if (!weights) throw new Error("Give the model's file, together with its tokenizer.bin if it has one.");
  controller?.abort();
  await working;
  const before = $("model").value;
  offer(weights.name, { source: weights, tokenizer });
  $("model").value = weights.name;
  try {
    await load_chosen();
    $("own").textContent = `${weights.name} is loaded.` +
      (model.tokenizer ? "" : " It has no tokenizer: give both files together, or it cannot write.");
    $("write").disabled = !model.tokenizer;
  } catch (error) {
    $("own").textContent = `It does not run: ${error.message}`;
    sources.delete(weights.name);
    [...$("model").options].find((option) => option.value === weights.name)?.remove();
    $("model").value = before;
    if (sources.size) await load_chosen();
  }
}

const work = (f) => guarded(() => {
  const done = f();
  working = done.catch(() => {});
  return done;
});
$("write").onclick = work(write);
$("train").onclick = work(train);
$("stop").onclick = $("end").onclick = () => controller.abort();
$("save").onclick = guarded(save);
$("model").onchange = $("device").onchange = guarded(load_chosen);
$("file").onchange = guarded(() => take([...$("file").files]));
$("text").onchange = guarded(() => learn([...$("text").files]));
for (const [id, use] of [["drop", take], ["tune", learn]]) {
  const drop = $(id);
  for (const [event, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
    drop.addEventListener(event, (what) => {
      what.preventDefault();
      drop.classList.toggle("over", over);
    });
  }
  drop.addEventListener("drop", guarded((event) => use([...event.dataTransfer.files])));
}

await guarded(async () => {
  const opening = open_etna();
  const found = await find_data();
  etna = await opening;
  list_devices($("device"), etna);
  const at = (path) => ({ source: new URL(path, location.href).href });
  if (found.stories) offer("stories260K", at(found.stories));
  if (found.run) offer("wikitext demo", at(found.run));
  if (sources.size) {
    await load_chosen();
    $("write").disabled = false;
  } else {
    $("about").textContent = "The server has no model. Open one of your own below.";
  }
})();
