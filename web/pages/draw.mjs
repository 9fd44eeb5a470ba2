// Draw: trains a classifier and asks it what a drawing shows.
import { Chart } from "./chart.mjs";
import { random } from "./digits.mjs";
import { image_sets, load_images } from "./images.mjs";
import { Pad } from "./pad.mjs";
import { $, find_data, guarded, list_devices, open_etna, product, show_error, usable } from "./page.mjs";

/** A loss is fetched every so many steps: fetching it waits for the device. */
const LOSS_STEPS = 5, ACCURACY_STEPS = 50;
/** So many held-out images are counted while the model is trained, and at a time. */
const COUNTED = 1000;
/** What is chosen before training. */
const SETTINGS = ["images", "model", "device", "lr", "batch", "plan"];
const BUTTONS = ["train", "reset", "compare", "example"];

const chart = new Chart($("chart"));
let etna, found, data, classifier, training = false, asked = false, again = false;
let next = random(5), order = [], drawn = 0, taken = 0;

function disable(ids, disabled = true) {
  for (const id of ids) $(id).disabled = disabled;
}

/** Whether there are images, and how many actions are under way or wait. */
let ready = false, turns = 0, last_turn = Promise.resolve();

/** Runs actions that make classifiers one after another, also where the next is asked for before one has ended. */
function in_turn(action) {
  return guarded(async () => {
    turns++;
    disable(BUTTONS);
    const turn = last_turn.then(action);
    last_turn = turn.catch(() => {});
    try {
      await turn;
    } finally {
      if (--turns === 0) disable(BUTTONS, !ready);
    }
  });
}

/** Each image once in random order (Fisher & Yates), then anew. */
function next_image(count) {
  if (order.length !== count) order = Uint32Array.from({ length: count }, (_, i) => i);
  if (drawn === count) drawn = 0;
  const other = drawn + Math.floor(next() * (count - drawn));
  [order[drawn], order[other]] = [order[other], order[drawn]];
  return order[drawn++];
}

function batch() {
  const { images, labels } = data.train, size = Number($("batch").value);
  const chosen = new Uint8Array(size * 784), their = new Uint8Array(size);
  for (let i = 0; i < size; i++) {
    const at = next_image(labels.length);
    chosen.set(images.subarray(at * 784, at * 784 + 784), i * 784);
    their[i] = labels[at];
  }
  return [chosen, their];
}

/** The learning rate of a step, from 0: up in a twentieth of the steps, then half a cosine down to 0. */
function learning_rate(step, steps) {
  const highest = Number($("lr").value);
  if (steps === 0) return highest;
  return highest * Math.min(1, (step + 1) / (0.05 * steps)) * 0.5 * (1 + Math.cos((Math.PI * step) / steps));
}

/** The part of the first held-out images that are classified right. */
async function accuracy_of(count) {
  const { images, labels } = data.held_out, all = Math.min(count, labels.length);
  let right = 0;
  for (let begin = 0; begin < all; begin += COUNTED) {
    const end = Math.min(begin + COUNTED, all);
    if (all > COUNTED) $("accuracy").textContent = `counting: ${begin} of ${all} …`;
    const part = [images.subarray(begin * 784, end * 784), labels.subarray(begin, end)];
    right += (await classifier.evaluate(...part)).accuracy * (end - begin);
  }
  // As many digits as the count tells apart.
  $("accuracy").textContent = `${((100 * right) / all).toFixed(all < 10_000 ? 1 : 2)} % of ${all}`;
  return right / all;
}

async function start_anew() {
  const old = classifier;
  classifier = null;
  await old?.free();
  await etna.manual_seed(1);
  next = random(5);
  order = [];
  drawn = 0;
  const settings = { model: $("model").value, device: $("device").value, lr: Number($("lr").value) };
  classifier = await etna.classifier(settings);
  chart.clear();
  taken = 0;
  $("steps").textContent = "0";
  for (const id of ["loss", "accuracy", "speed"]) $(id).textContent = "–";
  await classify();
}

async function train() {
  if (training) return (training = false);
  training = true;
  $("train").textContent = "Pause";
  disable(["reset", "compare", ...SETTINGS]);
  try {
    const planned = Number($("plan").value);
    if (planned && taken >= planned) {
      disable(["train"]);
      await start_anew();
      disable(["train"], false);
    }
    let since = performance.now(), steps = 0;
    while (training) {
      const { step, loss } = await classifier.train_step(...batch(), { lr: learning_rate(taken, planned) });
      taken = step;
      steps++;
      if (step % LOSS_STEPS === 0 || step === 1) {
        const value = await loss();
        chart.add_loss(step, value);
        $("steps").textContent = step;
        $("loss").textContent = value.toFixed(4);
      }
      const now = performance.now();
      if (now - since > 1000) {
        $("speed").textContent = ((steps / (now - since)) * 1000).toFixed(0);
        since = now;
        steps = 0;
      }
      if (step === planned) {
        disable(["train"]);
        chart.add_accuracy(step, await accuracy_of(Infinity));
        await classify();
        break;
      }
      if (step % ACCURACY_STEPS === 0) {
        chart.add_accuracy(step, await accuracy_of(COUNTED));
        await classify();
        // The time of an evaluation is none of the steps'.
        since += performance.now() - now;
      }
    }
  } finally {
    training = false;
    $("train").textContent = "Train";
    disable(["train", "reset", "compare", ...SETTINGS], false);
  }
}

/** Steps a second of the chosen model on each device. */
async function compare() {
  const results = [], model = $("model").value;
  for (const device of usable(etna)) {
    $("compared").textContent = `Timing ${product(device)} …`;
    const one = await etna.classifier({ model, device: device.name });
    try {
      const step = async (count) => {
        let last;
        for (let i = 0; i < count; i++) last = await one.train_step(...batch());
        await last.loss();
      };
      await step(3);
      let steps = 0;
      const begin = performance.now();
      while (performance.now() - begin < 1500) {
        await step(10);
        steps += 10;
      }
      results.push(`${product(device)} ${((steps / (performance.now() - begin)) * 1000).toFixed(0)}`);
    } finally {
      await one.free();
    }
  }
  $("compared").textContent = `Steps a second: ${results.join(", ")}.` +
    (results.length === 1 ? " There is no other device here." : "");
}

/** Asks for the drawing; while an answer is awaited, a newer drawing waits. */
async function classify() {
  if (!classifier || pad.empty) return;
  if (asked) return (again = true);
  asked = true;
  try {
    again = false;
    const { labels, probabilities } = await classifier.predict(pad.image());
    if (pad.empty) return;
    const percent = (i) => `${(100 * probabilities[i]).toFixed(0)} %`;
    const answer = `${data.names[labels[0]]} (${percent(labels[0])})`;
    const untrained = $("steps").textContent === "0";
    $("answer").textContent = untrained ? `Before training, a guess: ${answer}.` : `This looks like ${answer}.`;
    $("bars").replaceChildren(...data.names.flatMap((name, i) => {
      const bar = document.createElement("i");
      bar.style.width = percent(i).replace(" ", "");
      return [Object.assign(document.createElement("span"), { textContent: name }), bar,
        Object.assign(document.createElement("span"), { textContent: percent(i) })];
    }));
  } finally {
    asked = false;
  }
  if (again) await classify();
}

let waiting = false;
const pad = new Pad($("pad"), () => {
  if (waiting) return;
  waiting = true;
  setTimeout(() => {
    waiting = false;
    classify().catch(show_error);
  }, 120);
});

$("train").onclick = guarded(train);
$("reset").onclick = in_turn(start_anew);
$("compare").onclick = in_turn(compare);
for (const id of SETTINGS.slice(1)) $(id).onchange = in_turn(start_anew);
$("images").onchange = in_turn(use_images);
function clear() {
  pad.clear();
  $("bars").replaceChildren();
  $("answer").textContent = "Draw in the square.";
}
$("clear").onclick = clear;
$("example").onclick = guarded(async () => {
  const at = Math.floor(Math.random() * data.held_out.labels.length);
  pad.show(data.held_out.images.slice(at * 784, at * 784 + 784));
  await classify();
});

/** Loads the images that are chosen. Where that fails, others can be chosen. */
async function use_images() {
  ready = false;
  disable(SETTINGS.slice(1));
  $("data").textContent = "Loading …";
  clear();
  try {
    data = await load_images(found, $("images").value);
    await start_anew();
    $("data").textContent = [data.about, ...found.notes].join(" ");
    ready = true;
    disable(SETTINGS, false);
  } catch (error) {
    $("data").textContent = "These images cannot be used.";
    throw error;
  } finally {
    disable(["images"], false);
  }
}

disable(SETTINGS);
await in_turn(async () => {
  found = await find_data();
  const sets = image_sets(found);
  for (const { kind, title } of sets) $("images").append(new Option(title, kind));
  // Clothes are hard to draw.
  $("images").value = sets.find(({ kind }) => kind !== "clothes").kind;
  etna = await open_etna();
  list_devices($("device"), etna);
  await use_images();
})();
