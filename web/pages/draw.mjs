// Draw: trains a classifier and asks it what a drawing shows.
import { Chart } from "./chart.mjs";
import { random } from "./digits.mjs";
import { load_images } from "./images.mjs";
import { Pad } from "./pad.mjs";
import { $, find_data, guarded, list_devices, open_etna, product, show_error, usable } from "./page.mjs";

const BATCH = 64;
/** A loss is fetched every so many steps: fetching it waits for the device. */
const LOSS_STEPS = 5, ACCURACY_STEPS = 50;

const chart = new Chart($("chart"));
let etna, data, classifier, training = false, asked = false, again = false;
let next = random(5);

function batch() {
  const { images, labels } = data.train;
  const chosen = new Uint8Array(BATCH * 784), their = new Uint8Array(BATCH);
  for (let i = 0; i < BATCH; i++) {
    const at = Math.floor(next() * labels.length);
    chosen.set(images.subarray(at * 784, at * 784 + 784), i * 784);
    their[i] = labels[at];
  }
  return [chosen, their];
}

async function start_anew() {
  const old = classifier;
  classifier = null;
  await old?.free();
  await etna.manual_seed(1);
  next = random(5);
  const settings = { model: $("model").value, device: $("device").value, lr: Number($("lr").value) };
  classifier = await etna.classifier(settings);
  chart.clear();
  $("steps").textContent = "0";
  for (const id of ["loss", "accuracy", "speed"]) $(id).textContent = "–";
  await classify();
}

async function train() {
  if (training) return (training = false);
  training = true;
  $("train").textContent = "Pause";
  for (const id of ["reset", "compare", "model", "device", "lr"]) $(id).disabled = true;
  try {
    let since = performance.now(), steps = 0;
    while (training) {
      const { step, loss } = await classifier.train_step(...batch());
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
      if (step % ACCURACY_STEPS === 0) {
        const { accuracy } = await classifier.evaluate(data.held_out.images, data.held_out.labels);
        chart.add_accuracy(step, accuracy);
        $("accuracy").textContent = `${(100 * accuracy).toFixed(1)} %`;
        await classify();
        // The time of an evaluation is none of the steps'.
        since += performance.now() - now;
      }
    }
  } finally {
    training = false;
    $("train").textContent = "Train";
    for (const id of ["reset", "compare", "model", "device", "lr"]) $(id).disabled = false;
  }
}

/** Steps a second of the chosen model on each device. */
async function compare() {
  $("compare").disabled = $("train").disabled = true;
  const results = [];
  try {
    for (const device of usable(etna)) {
      $("compared").textContent = `Timing ${product(device)} …`;
      const one = await etna.classifier({ model: $("model").value, device: device.name });
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
  } finally {
    $("compare").disabled = $("train").disabled = false;
  }
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
$("reset").onclick = guarded(start_anew);
$("compare").onclick = guarded(compare);
for (const id of ["model", "device", "lr"]) $(id).onchange = guarded(start_anew);
$("clear").onclick = () => {
  pad.clear();
  $("bars").replaceChildren();
  $("answer").textContent = "Draw in the square.";
};
$("example").onclick = guarded(async () => {
  const at = Math.floor(Math.random() * data.held_out.labels.length);
  pad.show(data.held_out.images.slice(at * 784, at * 784 + 784));
  await classify();
});

await guarded(async () => {
  data = await load_images(await find_data());
  etna = await open_etna();
  list_devices($("device"), etna);
  await start_anew();
  $("data").textContent = data.about;
  for (const id of ["train", "reset", "compare", "example"]) $(id).disabled = false;
})();
