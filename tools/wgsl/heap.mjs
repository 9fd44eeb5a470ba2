// Elements of buffers -> calls of the functions in shaders/webgpu/heap.glsl.
import { closing, expression_end, is, opening, sign, split, tokenize, word } from './tokens.mjs';
import { Untranslatable } from './rewrite.mjs';

/// Names of heap.glsl's functions, and sizes in bytes. All but the last four lie at multiples of four bytes.
export const ELEMENTS = {
  float: ['f32', 4],
  int: ['i32', 4],
  uint: ['u32', 4],
  vec2: ['f32x2', 8],
  uvec2: ['u32x2', 8],
  vec3: ['f32x3', 12],
  uvec3: ['u32x3', 12],
  ivec3: ['i32x3', 12],
  vec4: ['f32x4', 16],
  ivec4: ['i32x4', 16],
  uvec4: ['u32x4', 16],
  uint16_t: ['u16', 2],
  int16_t: ['i16', 2],
  uint8_t: ['u8', 1],
  int8_t: ['i8', 1],
};

function count_of(member) {
  return member.sizes.reduce((all, size) => {
    if (size.length !== 1 || size[0].kind !== 'number')
      throw new Untranslatable('a structure of unknown size in memory');
    return all * Number.parseInt(size[0].text);
  }, 1);
}

/// @return bytes of a type in memory, packed as in C; addresses take eight
export function size_of(type, structs, buffers) {
  if (ELEMENTS[type]) return ELEMENTS[type][1];
  if (buffers.has(type)) return 8;
  if (!structs.has(type)) throw new Untranslatable(`${type} in memory`);
  return structs.get(type).reduce((sum, m) => sum + size_of(m.type, structs, buffers) * count_of(m), 0);
}

/// Functions that load and store a structure, if it can lie in memory.
export function load_and_store(name, structs, buffers) {
  let loads = '',
    stores = '',
    offset = 0,
    bytes;
  try {
    bytes = size_of(name, structs, buffers);
  } catch {
    return [];
  }
  for (const m of structs.get(name)) {
    const type = buffers.has(m.type) ? 'uvec2' : m.type;
    if (!ELEMENTS[type] || m.sizes.length > 1) return [];
    const [suffix, size] = ELEMENTS[type];
    for (let k = 0; k < count_of(m); ++k) {
      const place = m.sizes.length === 0 ? m.name : `${m.name}[${k}]`;
      loads += `s.${place} = heap_load_${suffix}(heap_at(at, ${offset}), 0);\n`;
      stores += `heap_store_${suffix}(heap_at(at, ${offset}), 0, s.${place});\n`;
      offset += size;
    }
  }
  return tokenize(`
${name} heap_load_${name}(const uvec2 address, const uint i) {
uvec2 at = heap_at(address, i * ${bytes}u);
${name} s;
${loads}return s;
}
void heap_store_${name}(const uvec2 address, const uint i, ${name} s) {
uvec2 at = heap_at(address, i * ${bytes}u);
${stores}}
`);
}

const COMPOUND = /^([-+*/%&|^]|<<|>>)=$/;
const ATOMIC = { atomicAdd: 'heap_add', atomicOr: 'heap_or', atomicMax: 'heap_max' };

/// Replaces every ADDRESS.v[i], read, written or changed atomically.
export function accesses(tokens, { buffers, parameters, structs }) {
  const variables = new Map();
  tokens.forEach((t, i) => {
    if (buffers.has(t.text) && tokens[i + 1]?.kind === 'word') variables.set(tokens[i + 1].text, t.text);
  });

  // Takes the address off the end of what was written: its tokens and the type of its elements.
  function take_address(out) {
    const last = out.at(-1);
    if (is(last, ')')) {
      const open = opening(out, out.length - 1),
        type = out[open - 1]?.text;
      if (!buffers.has(type)) throw new Untranslatable(`an element of ${type}(...)`);
      const address = out.slice(open + 1, -1);
      out.splice(open - 1);
      return { address, type: buffers.get(type) };
    }
    if (is(out.at(-2), '.') && is(out.at(-3), parameters?.variable)) {
      const member = parameters.members.find((m) => m.name === last.text);
      const address = out.splice(-3);
      return { address, type: buffers.get(member?.type) };
    }
    const type = buffers.get(variables.get(last.text));
    return { address: out.splice(-1), type };
  }

  function call(name, ...parts) {
    const list = [word(name, ' '), sign('(')];
    parts.forEach((p, i) => list.push(...(i > 0 ? [sign(','), ...spaced(p)] : p)));
    return [...list, sign(')')];
  }
  const spaced = (list) => list.map((t, i) => (i === 0 ? { ...t, space: ' ' } : t));

  function rewrite(list) {
    const out = [];
    for (let i = 0; i < list.length; ++i) {
      const t = list[i];
      if (ATOMIC[t.text] && is(list[i + 1], '(')) {
        const end = closing(list, i + 1),
          [place, value] = split(list.slice(i + 2, end));
        const dot = place.findIndex((p, k) => is(p, '.') && is(place[k + 1], 'v') && is(place[k + 2], '['));
        if (dot >= 0) {
          const base = rewrite(place.slice(0, dot)),
            { address } = take_address(base);
          const index = rewrite(place.slice(dot + 3, closing(place, dot + 2)));
          out.push(...call(ATOMIC[t.text], address, index, rewrite(value)));
          i = end;
          continue;
        }
      }
      if (!(is(t, '.') && is(list[i + 1], 'v') && is(list[i + 2], '['))) {
        out.push(t);
        continue;
      }
      const { address, type } = take_address(out);
      if (!type) throw new Untranslatable('an element of a buffer of unknown type');
      let end = closing(list, i + 2);
      const index = rewrite(list.slice(i + 3, end));
      const suffix = ELEMENTS[type]?.[0] ?? type;
      const next = list[end + 1];
      if (next?.kind === 'sign' && (next.text === '=' || COMPOUND.test(next.text))) {
        const stop = expression_end(list, end + 2);
        let value = rewrite(list.slice(end + 2, stop));
        if (next.text !== '=') {
          value = [
            ...call(`heap_load_${suffix}`, address, index),
            sign(next.text.slice(0, -1), ' '),
            sign('(', ' '),
            ...value,
            sign(')'),
          ];
        }
        out.push(...call(`heap_store_${suffix}`, address, index, value));
        i = stop - 1;
        continue;
      }
      if (is(next, '++') || is(next, '--')) throw new Untranslatable('++ of an element of a buffer');
      // A member of a structure is loaded alone.
      const member = structs
        .get(type)
        ?.find((m) => is(next, '.') && is(list[end + 2], m.name) && m.sizes.length === 0);
      if (member && (ELEMENTS[member.type] || buffers.has(member.type))) {
        const members = structs.get(type),
          before = members.slice(0, members.indexOf(member));
        const size = (m) => size_of(m.type, structs, buffers) * count_of(m);
        const offset = before.reduce((sum, m) => sum + size(m), 0),
          bytes = members.reduce((sum, m) => sum + size(m), 0);
        const at = call('heap_at', address, [sign('('), ...index, ...tokenize(`) * ${bytes}u + ${offset}u`)]);
        out.push(...call(`heap_load_${ELEMENTS[member.type]?.[0] ?? 'u32x2'}`, at, tokenize('0u')));
        end += 2;
      } else {
        out.push(...call(`heap_load_${suffix}`, address, index));
      }
      i = end;
    }
    return out;
  }
  return rewrite(tokens);
}
