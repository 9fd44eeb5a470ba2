// The images that Draw trains on: IDX files that the server has, or digits that the page makes.
import { make_digits } from "./digits.mjs";

const CLOTHES = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"];
const DIGITS = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
/** How many of a file's images a page loads at most: all of MNIST's, 55 MB. */
const TRAIN = 60_000, HELD_OUT = 10_000;

const KINDS = {
  digits: { title: "Digits (MNIST)", what: "MNIST: handwritten digits", names: DIGITS },
  clothes: { title: "Clothes (Fashion-MNIST)", what: "Fashion-MNIST: ten kinds of clothes", names: CLOTHES },
};

/** What can be chosen: [{ kind, title }], handwritten digits first. @param found what find_data() gave */
export function image_sets(found) {
  const there = Object.keys(KINDS).filter((kind) => found.images.some((one) => one.kind === kind));
  const made = { kind: "made", title: "Digits made by this page" };
  return [...there.map((kind) => ({ kind, title: KINDS[kind].title })), made];
}

/** The first bytes of a file; not all servers know ranges, so what is too much is cut off. */
async function first_bytes(url, count) {
  const response = await fetch(url, { headers: { Range: `bytes=0-${count - 1}` } });
  // What this project's server writes in the body of an error names the file.
  if (!response.ok) throw new Error(`${url}: ${response.status} ${(await response.text()) || response.statusText}`);
  return new Uint8Array(await response.arrayBuffer()).subarray(0, count);
}

/** Images or labels of an IDX file: magic number, sizes, bytes. */
async function read_idx(url, count, item, header) {
  const bytes = await first_bytes(url, header + count * item);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const what = item > 1 ? "images" : "labels";
  if (bytes.length < header || view.getUint32(0) !== (item > 1 ? 0x803 : 0x801))
    throw new Error(`${url}: this is no IDX file of ${what}`);
  if (item > 1 && (view.getUint32(8) !== 28 || view.getUint32(12) !== 28))
    throw new Error(`${url}: the images have ${view.getUint32(8)}×${view.getUint32(12)} pixels, not 28×28`);
  const wanted = Math.min(count, view.getUint32(4)), here = Math.floor((bytes.length - header) / item);
  if (wanted === 0 || here < wanted)
    throw new Error(`${url}: the file is cut short: it has ${here} of ${view.getUint32(4)} ${what}`);
  return bytes.subarray(header, header + wanted * item);
}

async function read_pair([images, labels], count) {
  const pair = { images: await read_idx(images, count, 784, 16), labels: await read_idx(labels, count, 1, 8) };
  if (pair.images.length !== pair.labels.length * 784)
    throw new Error(`${images}: ${pair.images.length / 784} images, but ${pair.labels.length} labels in ${labels}`);
  return pair;
}

/** @param kind of image_sets() @returns { train, held_out, names, about } */
export async function load_images(found, kind) {
  const set = found.images.find((one) => one.kind === kind);
  if (set) {
    const train = await read_pair(set.files.slice(0, 2), TRAIN);
    const held_out = await read_pair(set.files.slice(2), HELD_OUT);
    const { what, names } = KINDS[kind];
    const about = `Images: ${what}, ${train.labels.length} to train on and ${held_out.labels.length} held out.`;
    return { train, held_out, names, about };
  }
  const train = make_digits(6_000, 1), held_out = make_digits(600, 2);
  const about = "Images: digits that this page makes itself, of strokes with random shifts, widths and slants; " +
    "6000 to train on and 600 held out.";
  return { train, held_out, names: DIGITS, about };
}
