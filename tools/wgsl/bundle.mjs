// Gathers the translated variants in one file, each declaration once.
//   node bundle.mjs --out kernels.json --names fused_names.txt FOLDER
// FOLDER has the translated variants, and in the file `list` their names; fused_names.txt says how rows of the
// elementwise table are called by their expressions.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const [, , flag, out, names_flag, names, folder] = process.argv;
if (flag !== '--out' || names_flag !== '--names' || !folder)
  throw new Error('usage: bundle.mjs --out FILE --names FILE FOLDER');
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
const rows = { a: 'identity' };
for (const [, name, quoted] of readFileSync(names, 'utf8').matchAll(/ETNA_NAME (\w+) ("(?:[^"\\]|\\.)*")/g))
  rows[JSON.parse(quoted)] ??= name;
const text = JSON.stringify({ declarations, kernels, missing, rows });
writeFileSync(out, text);

const kb = (bytes) => `${(bytes / 1000).toFixed(0)} kB`;
const count = new Map();
for (const reason of Object.values(missing)) count.set(reason, (count.get(reason) ?? 0) + 1);
console.log(
  `WGSL: ${Object.keys(kernels).length} kernels, ${declarations.length} declarations, ${kb(text.length)}, ` +
    `gzipped ${kb(gzipSync(text, { level: 9 }).length)}`,
);
for (const [reason, n] of count) console.log(`WGSL: ${n} kernels are left out: they need ${reason}`);
