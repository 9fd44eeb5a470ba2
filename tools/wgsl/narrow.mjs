// Which specialization constants decide whether a kernel stores less than a word. Such stores need atomics, which make
// every access to the heap slower, so a kernel has them only for values that ask for them.
import { accesses } from './heap.mjs';
import { closing, is, print, split } from './tokens.mjs';

// Functions that store by a dtype, and where it is among their arguments.
const STORES = { store_float: 2, store_int: 2, store_value: 2, store_pair: 2, store_vector: 3, store_ints: 2 };
const WIDE = /^(F32|I32|I64|F64)$/,
  FIXED = /^(F16|BF16|I8|U8|BOOL)$/;

/// @return { dtypes: [id], units: [id], always, direct: [function] }: constants that are dtypes, or bytes of a unit;
///   `always` where none tells
export function narrow_stores(items, specialization, context) {
  const dtypes = new Set(),
    direct = [];
  let fixed = false;
  const all = specialization.filter((s) => /DTYPE/.test(s.name)).map((s) => s.id);
  for (const { kind, name, tokens } of items) {
    if (kind !== 'function') continue;
    tokens.forEach((t, i) => {
      const place = STORES[t.text];
      if (place === undefined || STORES[name] !== undefined || !is(tokens[i + 1], '(')) return;
      const given = split(tokens.slice(i + 2, closing(tokens, i + 1)))[place];
      const constant = given.length === 1 && specialization.find((s) => s.name === given[0].text);
      if (constant) dtypes.add(constant.id);
      else if (given.length === 1 && FIXED.test(given[0].text)) fixed = true;
      else if (given.length !== 1 || !WIDE.test(given[0].text)) all.forEach((id) => dtypes.add(id));
    });
    if (STORES[name] === undefined && /heap_store_[ui](8|16)\b/.test(print(accesses(tokens, context))))
      direct.push(name);
  }
  const units = direct.length > 0 ? specialization.filter((s) => /^(UNIT|SIZE)$/.test(s.name)).map((s) => s.id) : [];
  // Units decide only where nothing but copies stores directly.
  return { dtypes: [...dtypes], units, always: fixed || (direct.length > 0 && units.length === 0), direct };
}
