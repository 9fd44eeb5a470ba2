// Digits that the page makes itself: strokes of ten shapes, each time shifted, scaled, slanted and of another width.

/** A generator of numbers in [0, 1) that repeats itself for a seed (xorshift32). */
export function random(seed) {
  let state = (seed * 2654435761 + 1) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  };
}

/** Points of an arc, angles in turns: 0 is right, 0.25 down. */
function arc(x, y, rx, ry, from, to, points = 14) {
  return Array.from({ length: points + 1 }, (_, i) => {
    const angle = 2 * Math.PI * (from + ((to - from) * i) / points);
    return [x + rx * Math.cos(angle), y + ry * Math.sin(angle)];
  });
}

/** Ways to write each digit: strokes of points in a square from 0 to 1. */
const WAYS = [
  [[arc(0.5, 0.5, 0.3, 0.45, 0, 1)]],
  [[[[0.5, 0.05], [0.5, 0.95]]], [[[0.3, 0.25], [0.52, 0.05], [0.52, 0.95]]],
    [[[0.3, 0.25], [0.5, 0.05], [0.5, 0.95]], [[0.3, 0.95], [0.7, 0.95]]]],
  [[[...arc(0.5, 0.3, 0.28, 0.25, 0.52, 1.08), [0.22, 0.95], [0.8, 0.95]]]],
  [[[...arc(0.47, 0.27, 0.26, 0.22, 0.6, 1.22), ...arc(0.47, 0.72, 0.3, 0.24, 0.8, 1.42)]]],
  [[[[0.6, 0.05], [0.2, 0.62], [0.85, 0.62]], [[0.65, 0.35], [0.65, 0.95]]],
    [[[0.25, 0.05], [0.22, 0.5], [0.75, 0.5]], [[0.75, 0.05], [0.75, 0.95]]]],
  [[[[0.75, 0.05], [0.3, 0.05], [0.27, 0.42], ...arc(0.48, 0.66, 0.28, 0.27, 0.68, 1.4)]]],
  [[[[0.66, 0.05], [0.38, 0.35], ...arc(0.5, 0.68, 0.25, 0.26, 0.5, 1.5)]]],
  [[[[0.2, 0.06], [0.8, 0.06], [0.42, 0.95]]], [[[0.2, 0.06], [0.8, 0.06], [0.42, 0.95]], [[0.38, 0.5], [0.72, 0.5]]]],
  [[arc(0.5, 0.27, 0.22, 0.22, 0, 1), arc(0.5, 0.72, 0.27, 0.23, 0, 1)]],
  [[[...arc(0.5, 0.3, 0.25, 0.25, 0, 1), [0.72, 0.6], [0.64, 0.95]]]],
];

/** Squared distance of a point from a line between two points. */
function distance(px, py, ax, ay, bx, by) {
  const dx = bx - ax, dy = by - ay;
  const t = Math.max(0, Math.min(1, ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy || 1)));
  return (px - ax - t * dx) ** 2 + (py - ay - t * dy) ** 2;
}

/** Draws strokes, in pixels, with soft edges; brightness 0 to 255. */
export function draw_strokes(strokes, width, side = 28) {
  const pixels = new Uint8Array(side * side);
  const reach = width / 2 + 1;
  for (const stroke of strokes) {
    for (let i = 0; i < Math.max(1, stroke.length - 1); i++) {
      const [ax, ay] = stroke[i];
      const [bx, by] = stroke[i + 1] ?? stroke[i];
      const low = (a, b) => Math.max(0, Math.floor(Math.min(a, b) - reach));
      const high = (a, b) => Math.min(side - 1, Math.ceil(Math.max(a, b) + reach));
      for (let y = low(ay, by); y <= high(ay, by); y++) {
        for (let x = low(ax, bx); x <= high(ax, bx); x++) {
          const light = width / 2 + 0.5 - Math.sqrt(distance(x + 0.5, y + 0.5, ax, ay, bx, by));
          if (light > 0) pixels[y * side + x] = Math.max(pixels[y * side + x], Math.min(1, light) * 255);
        }
      }
    }
  }
  return pixels;
}

/**
 * Strokes as they are shown to the classifier, and as MNIST's digits lie: 20 pixels in the longer direction, their
 * middle in the middle.
 */
export function centred(strokes, { size = 20, shift = [0, 0] } = {}) {
  const points = strokes.flat();
  if (points.length === 0) return [];
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const left = Math.min(...xs), right = Math.max(...xs), top = Math.min(...ys), bottom = Math.max(...ys);
  const scale = size / Math.max(right - left, bottom - top, 1e-6);
  const place = (value, from, to, by) => 14 + (value - (from + to) / 2) * scale + by;
  return strokes.map((stroke) =>
    stroke.map(([x, y]) => [place(x, left, right, shift[0]), place(y, top, bottom, shift[1])]));
}

function make_digit(digit, next) {
  const ways = WAYS[digit];
  const way = ways[Math.floor(next() * ways.length)];
  const between = (low, high) => low + (high - low) * next();
  const slant = between(-0.3, 0.3), squeeze = between(0.7, 1.15), turn = between(-0.15, 0.15);
  const cos = Math.cos(turn), sin = Math.sin(turn);
  const bend = () => between(-0.035, 0.035);
  const strokes = way.map((stroke) => stroke.map(([x, y]) => {
    const u = (x - 0.5) * squeeze - (y - 0.5) * slant + bend(), v = y - 0.5 + bend();
    return [u * cos - v * sin, u * sin + v * cos];
  }));
  const shift = [between(-1.5, 1.5), between(-1.5, 1.5)];
  return draw_strokes(centred(strokes, { size: between(16, 21), shift }), between(1.6, 3.6));
}

/** @returns { images: Uint8Array of 784 bytes each, labels: Uint8Array } */
export function make_digits(count, seed) {
  const next = random(seed);
  const images = new Uint8Array(count * 784), labels = new Uint8Array(count);
  for (let i = 0; i < count; i++) {
    labels[i] = Math.floor(next() * 10);
    images.set(make_digit(labels[i], next), i * 784);
  }
  return { images, labels };
}
