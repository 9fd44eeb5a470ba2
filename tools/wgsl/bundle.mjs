// Gathers the translated variants in one file, each declaration once.
//   node bundle.mjs --out kernels.json FOLDER    of translated variants; the file `list` there names them
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const [, , flag, out, folder] = process.argv;
if (flag !== '--out' || !folder) throw new Error('usage: bundle.mjs --out FILE FOLDER');
const files = readFileSync(join(folder, 'list'), 'utf8')
  .trim()
  .split('\n')
  .map((file) => join(folder, file));

const declarations = [],
  numbers = new Map(),
  kernels = {},
  missing = {};
function number_of(text) {
  if (!numbers.has(text)) {
    numbers.set(text, declarations.length);
    declarations.push(text);
  }
  return numbers.get(text);
}

for (const file of files.sort()) {
  const { name, reason, ...kernel } = JSON.parse(readFileSync(file, 'utf8'));
  if (reason) {
    missing[name] = reason;
    continue;
  }
  kernels[name] = {
    ...kernel,
    specialization: kernel.specialization.map((s) => [s.id, s.name, s.type, s.value]),
    declarations: kernel.declarations.map(number_of),
  };
}
const text = JSON.stringify({ declarations, kernels, missing });
writeFileSync(out, text);

const kb = (bytes) => `${(bytes / 1000).toFixed(0)} kB`;
const count = new Map();
for (const reason of Object.values(missing)) count.set(reason, (count.get(reason) ?? 0) + 1);
console.log(
  `WGSL: ${Object.keys(kernels).length} kernels, ${declarations.length} declarations, ${kb(text.length)}, ` +
    `gzipped ${kb(gzipSync(text, { level: 9 }).length)}`,
);
for (const [reason, n] of count) console.log(`WGSL: ${n} kernels are left out: they need ${reason}`);
