// What tint wrote -> the declarations of a kernel that kernels.mjs puts together again.
import { RESERVED } from './reserved.mjs';
import { FIRST_SIZE } from './rewrite.mjs';

/// Declarations on the outermost level, each with what it names: { name, text }.
export function declarations(wgsl) {
  const found = [];
  let depth = 0,
    text = '';
  for (const line of wgsl.split('\n')) {
    if (text === '' && line.trim() === '') continue;
    text += line + '\n';
    for (const c of line) depth += c === '{' || c === '(' ? 1 : c === '}' || c === ')' ? -1 : 0;
    // Attributes stand on lines of their own before what they belong to.
    if (depth > 0 || /^@[^\n]*\)$/.test(text.trim()) || /^@compute\b[^{]*$/.test(text.trim())) continue;
    const name = /\b(?:fn|struct|alias|const|override)\s+(\w+)|\bvar(?:<[^>]*>)?\s+(\w+)/.exec(text);
    if (name) found.push({ name: name[1] ?? name[2], text: text.trim() });
    else if (!/^(enable|diagnostic|requires)\b/.test(text.trim())) throw new Error(`unknown declaration: ${text}`);
    text = '';
  }
  return found;
}

// kernels.mjs writes these.
const PRELUDE = new RegExp(
  '^(heap_words?|heap_set_word|heap_set_bits|heap_add|heap_or|heap_max|heap_zero|heap_uniform_word|heap_barrier|' +
    'packed_dot)$',
);

/// Numbers local names from 1 on, so that equal functions of different kernels have equal texts.
function renumber(text, outer) {
  // Names that a local must not have: reserved words, and what the function calls.
  const locals = new Map(),
    taken = new Set([...text.matchAll(/(\w+)[(<]/g)].map((m) => m[1]));
  const declare = (name) => {
    const base = name.replace(/(_\d+)+$/, '');
    for (let n = 0; ; ++n) {
      const short = n === 0 ? base : `${base}_${n}`;
      if (outer.has(short) || taken.has(short) || RESERVED.has(short)) continue;
      taken.add(short);
      locals.set(name, short);
      return;
    }
  };
  const header = text.slice(0, text.indexOf('{'));
  for (const m of header.matchAll(/(\w+) : /g)) declare(m[1]);
  for (const m of text.matchAll(/\b(?:var|let) (\w+)/g)) if (!locals.has(m[1])) declare(m[1]);
  return text.replace(/(?<![.\w])[A-Za-z_]\w*/g, (name) => locals.get(name) ?? name);
}

const words = (text) => new Set(text.match(/[A-Za-z_]\w*/g));

/// @param kernel what rewrite() returned
/// @return { specialization, sizes, threads, parameters, declarations: [text], uses: [name of the prelude] }
export function finish(wgsl, kernel) {
  const all = declarations(wgsl),
    names = new Set(kernel.specialization.map((s) => s.name));
  const blocks = new Map();
  // The heap and the arguments: variables with a binding, and the structures they have.
  for (const d of all) {
    const binding = /@binding\((\d)u?\)/.exec(d.text);
    if (binding) blocks.set(d.name, { binding: Number(binding[1]), type: /:\s*(\w+)/.exec(d.text)[1] });
  }
  const structures = new Set([...blocks.values()].map((b) => b.type));
  let kept = all.filter(
    (d) =>
      !blocks.has(d.name) &&
      !structures.has(d.name) &&
      !PRELUDE.test(d.name) &&
      !(d.text.includes('override') && names.has(d.name)),
  );
  // Constants that tint had to invent a name for.
  const invented = new Map();
  for (const d of kept) {
    const m = /^override (v_\d+) : [^=]*= ([^;]*);$/.exec(d.text);
    if (m) invented.set(m[1], m[2]);
  }
  const inline = (text) => text.replace(/\bv_\d+\b/g, (v) => (invented.has(v) ? inline(invented.get(v)) : v));
  kept = kept.filter((d) => !invented.has(d.name));
  const outer = new Set([...kept.map((d) => d.name), ...names]);
  for (const d of kept) {
    d.text = inline(d.text);
    for (const [name, { binding }] of blocks) {
      // A block is a structure of one member.
      d.text = d.text.replace(new RegExp(`\\b${name}\\.\\w+`, 'g'), binding === 0 ? 'heap_words' : 'parameters');
    }
    d.text = d.text.replace(/(?:@id\(\d+\)\s*)?\boverride\b/g, 'const');
    // In constants, tint changes only signs by bitcast. A conversion does the same, and Firefox computes it there, too.
    if (/^const /.test(d.text)) d.text = d.text.replace(/\bbitcast<([iu]32)>/g, '$1');
    d.text = d.text.replace(/, (7\d\d)u?>/g, (all, digits) => {
      const n = Number(digits) - FIRST_SIZE;
      return n >= 0 && n < kernel.sizes.length ? `, size_${n}>` : all;
    });
    if (kernel.threads) d.text = d.text.replace(/@workgroup_size\([^)]*\)/, `@workgroup_size(${kernel.threads})`);
    if (/\bfn\b/.test(d.text)) d.text = renumber(d.text, outer);
    d.uses = words(d.text);
  }
  const by_name = new Map(kept.map((d) => [d.name, d])),
    seen = new Set(),
    next = ['main'];
  while (next.length > 0) {
    const d = by_name.get(next.pop());
    if (!d || seen.has(d)) continue;
    seen.add(d);
    next.push(...d.uses);
  }
  kept = kept.filter((d) => seen.has(d));
  const uses = new Set(kept.flatMap((d) => [...d.uses].filter((u) => PRELUDE.test(u))));
  const stray = kept.find((d) => d.uses.has('heap_words'));
  if (stray) throw new Error(`the heap is used outside its functions: ${stray.name}`);
  return {
    specialization: kernel.specialization,
    sizes: kernel.sizes,
    threads: kernel.threads,
    parameters: kernel.parameters,
    uses: [...uses].sort(),
    declarations: kept.map((d) => d.text),
  };
}
