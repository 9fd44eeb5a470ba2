// Where one draws: strokes by pointer or by keyboard.
import { centred, draw_strokes } from "./digits.mjs";

const PEN = 18;

export class Pad {
  #canvas;
  #strokes = [];
  #pen = { x: 140, y: 60, down: false };
  #image = null;

  constructor(canvas, changed) {
    this.#canvas = canvas;
    let drawing = false;
    const point = (event) => {
      const box = canvas.getBoundingClientRect();
      return [((event.clientX - box.left) / box.width) * 280, ((event.clientY - box.top) / box.height) * 280];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      drawing = true;
      this.#begin(point(event));
      changed();
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drawing) return;
      // Between two frames a finger moves on: all the points, not only the last.
      const events = event.getCoalescedEvents?.() ?? [];
      for (const one of events.length ? events : [event]) this.#strokes.at(-1).push(point(one));
      this.#paint();
      changed();
    });
    const end = () => (drawing = false);
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
    canvas.addEventListener("keydown", (event) => this.#key(event, changed));
    canvas.addEventListener("focus", () => this.#paint());
    canvas.addEventListener("blur", () => this.#paint());
    this.#paint();
  }

  #begin(at) {
    this.#image = null;
    this.#strokes.push([at]);
    this.#paint();
  }

  #key(event, changed) {
    const pen = this.#pen, step = event.shiftKey ? 24 : 8;
    const move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
    if (event.key === " ") {
      pen.down = !pen.down;
      if (pen.down) this.#begin([pen.x, pen.y]);
    } else if (move) {
      pen.x = Math.max(10, Math.min(270, pen.x + move[0]));
      pen.y = Math.max(10, Math.min(270, pen.y + move[1]));
      if (pen.down) this.#strokes.at(-1).push([pen.x, pen.y]);
    } else {
      return;
    }
    event.preventDefault();
    this.#paint();
    if (pen.down) changed();
  }

  clear() {
    this.#strokes = [];
    this.#image = null;
    this.#pen.down = false;
    this.#paint();
  }

  /** Shows an image of 28×28 instead of strokes. */
  show(image) {
    this.#strokes = [];
    this.#image = image;
    this.#paint();
  }

  get empty() {
    return !this.#image && this.#strokes.length === 0;
  }

  /** 784 bytes: the drawing in the middle, in the size and with the pen of the images that are trained on. */
  image() {
    return this.#image ?? draw_strokes(centred(this.#strokes), 2.6);
  }

  #paint() {
    const context = this.#canvas.getContext("2d");
    context.fillStyle = "#000";
    context.fillRect(0, 0, 280, 280);
    if (this.#image) {
      for (let i = 0; i < 784; i++) {
        const grey = this.#image[i];
        context.fillStyle = `rgb(${grey} ${grey} ${grey})`;
        context.fillRect((i % 28) * 10, Math.floor(i / 28) * 10, 10, 10);
      }
    }
    context.strokeStyle = context.fillStyle = "#fff";
    context.lineWidth = PEN;
    context.lineCap = context.lineJoin = "round";
    for (const stroke of this.#strokes) {
      context.beginPath();
      context.moveTo(...stroke[0]);
      for (const point of stroke) context.lineTo(...point);
      context.stroke();
    }
    if (document.activeElement === this.#canvas && this.#canvas.matches(":focus-visible")) {
      context.fillStyle = this.#pen.down ? "#f08a5d" : "#888";
      context.fillRect(this.#pen.x - 4, this.#pen.y - 4, 8, 8);
    }
  }
}
