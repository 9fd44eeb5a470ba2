// The images that Draw trains on: IDX files that the server has, or digits that the page makes.
import { make_digits } from "./digits.mjs";

const CLOTHES = ["T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"];
const DIGITS = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
/** How many of a file's images a page loads: 10 MB. */
const TRAIN = 12_000, HELD_OUT = 1_000;

/** The first bytes of a file; not all servers know ranges, so what is too much is cut off. */
async function first_bytes(url, count) {
  const response = await fetch(url, { headers: { Range: `bytes=0-${count - 1}` } });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer()).subarray(0, count);
}

/** Images or labels of an IDX file: magic number, sizes, bytes. */
async function read_idx(url, count, item, header) {
  const bytes = await first_bytes(url, header + count * item);
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  if (bytes.length < header || view.getUint32(0) !== (item > 1 ? 0x803 : 0x801))
    throw new Error(`${url}: this is no IDX file of ${item > 1 ? "images" : "labels"}`);
  if (item > 1 && (view.getUint32(8) !== 28 || view.getUint32(12) !== 28))
    throw new Error(`${url}: the images have ${view.getUint32(8)}×${view.getUint32(12)} pixels, not 28×28`);
  return bytes.subarray(header);
}

async function read_pair([images, labels], count) {
  return { images: await read_idx(images, count, 784, 16), labels: await read_idx(labels, count, 1, 8) };
}

/** @returns { train, held_out, names, about } */
export async function load_images(found) {
  if (found.images) {
    const { name, files } = found.images;
    const train = await read_pair(files.slice(0, 2), TRAIN);
    const held_out = await read_pair(files.slice(2), HELD_OUT);
    const clothes = /fashion/i.test(name);
    const what = clothes ? "Fashion-MNIST: ten kinds of clothes" : "MNIST: handwritten digits";
    const about = `Images: ${what}, ${train.labels.length} to train on and ${held_out.labels.length} held out.`;
    return { train, held_out, names: clothes ? CLOTHES : DIGITS, about };
  }
  const train = make_digits(6_000, 1), held_out = make_digits(600, 2);
  const about = "Images: digits that this page makes itself, of strokes with random shifts, widths and slants; " +
    "6000 to train on and 600 held out.";
  return { train, held_out, names: DIGITS, about };
}
