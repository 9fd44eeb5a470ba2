// Loss and accuracy by step, in a canvas, in the page's colours.
const most_points = 600;

export class Chart {
  #canvas;
  #losses = [];
  #accuracies = [];
  #has_accuracy;

  /** @param options.accuracy false: only losses are shown */
  constructor(canvas, { accuracy = true } = {}) {
    this.#canvas = canvas;
    this.#has_accuracy = accuracy;
    new ResizeObserver(() => this.draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  clear() {
    this.#losses = [];
    this.#accuracies = [];
    this.draw();
  }
  add_loss(step, value) {
    this.#losses.push([step, value]);
    // Every second point of a long run says the same.
    if (this.#losses.length > most_points) this.#losses = this.#losses.filter((_, i) => i % 2 === 0);
    this.draw();
  }
  add_accuracy(step, value) {
    this.#accuracies.push([step, value]);
    if (this.#accuracies.length > most_points) this.#accuracies = this.#accuracies.filter((_, i) => i % 2 === 0);
    this.draw();
  }

  draw() {
    const canvas = this.#canvas, scale = devicePixelRatio;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    const colour = (name) => getComputedStyle(canvas).getPropertyValue(name);
    const last = Math.max(1, this.#losses.at(-1)?.[0] ?? 1, this.#accuracies.at(-1)?.[0] ?? 1);
    const most = Math.max(2.5, ...this.#losses.map(([, loss]) => loss));
    const left = 30, right = width - 38, top = 8, bottom = height - 20;
    const x = (step) => left + ((right - left) * step) / last;
    const y = (part) => bottom - (bottom - top) * part;
    context.font = "11px system-ui, sans-serif";
    context.strokeStyle = colour("--line");
    context.fillStyle = colour("--quiet");
    for (const part of [0, 0.5, 1]) {
      context.beginPath();
      context.moveTo(left, y(part));
      context.lineTo(right, y(part));
      context.stroke();
      context.textAlign = "right";
      context.fillText((most * part).toFixed(1), left - 5, y(part) + 4);
      context.textAlign = "left";
      if (this.#has_accuracy) context.fillText(`${100 * part}%`, right + 5, y(part) + 4);
    }
    context.textAlign = "right";
    context.fillText(`step ${last}`, right, height - 5);
    const curve = (points, part, name) => {
      context.strokeStyle = colour(name);
      context.lineWidth = 1.75;
      context.beginPath();
      for (const [step, value] of points) context.lineTo(x(step), y(part(value)));
      context.stroke();
    };
    curve(this.#losses, (loss) => loss / most, "--accent");
    curve(this.#accuracies, (accuracy) => accuracy, "--second");
  }
}
