// Names of functions in SPIR-V. GLSL's compiler names a function `load(vu2;u1;`, which tint drops; here it becomes
// `load`, with its arguments appended where several functions have the name.

const OP_NAME = 5;

export function name_functions(bytes) {
  const words = new Uint32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength));
  const names = [];
  for (let at = 5; at < words.length; at += words[at] >>> 16) {
    if ((words[at] & 0xffff) !== OP_NAME) continue;
    const text = Buffer.from(words.slice(at + 2, at + (words[at] >>> 16)).buffer)
      .toString('latin1')
      .split('\0')[0];
    names.push({ at, text });
  }
  const count = new Map();
  for (const { text } of names) {
    const base = text.split('(')[0];
    count.set(base, (count.get(base) ?? 0) + (text.includes('(') ? 1 : 0));
  }
  const replaced = new Map();
  for (const { at, text } of names) {
    if (!text.includes('(')) continue;
    const [base, list] = text.split('(');
    const name = base === 'main' ? 'main' : count.get(base) > 1 ? `${base}_${list.replace(/\W+/g, '')}` : base;
    const encoded = Buffer.alloc((name.length + 4) & ~3);
    encoded.write(name, 'latin1');
    replaced.set(at, new Uint32Array(encoded.buffer.slice(encoded.byteOffset, encoded.byteOffset + encoded.length)));
  }
  const out = [...words.slice(0, 5)];
  for (let at = 5; at < words.length; at += words[at] >>> 16) {
    const length = words[at] >>> 16,
      name = replaced.get(at);
    if (name) out.push(((name.length + 2) << 16) | OP_NAME, words[at + 1], ...name);
    else for (let k = 0; k < length; ++k) out.push(words[at + k]);
  }
  return Buffer.from(new Uint32Array(out).buffer);
}
