// Push constants -> words of a uniform block.
import { size_of, ELEMENTS } from './heap.mjs';
import { closing, is, sign, tokenize } from './tokens.mjs';
import { Untranslatable } from './rewrite.mjs';

const LANES = 'xyzw';

/// A value of `type` whose first word is number `first` of the block.
function value_at(type, first) {
  const components = Number(/\d$/.exec(type)?.[0] ?? 1),
    kind = type.replace(/\d$/, '');
  const lanes = (from, count) => `parameters[${from >> 2}].${LANES.slice(from & 3, (from & 3) + count)}`;
  let bits;
  if ((first & 3) + components <= 4) {
    bits = lanes(first, components);
  } else {
    const here = 4 - (first & 3);
    bits = `uvec${components}(${lanes(first, here)}, ${lanes(first + here, components - here)})`;
  }
  switch (kind) {
    case 'uint':
    case 'uvec':
      return bits;
    case 'int':
    case 'ivec':
      return `${type}(${bits})`;
    case 'float':
    case 'vec':
      return `uintBitsToFloat(${bits})`;
    default:
      throw new Untranslatable(`${type} among the arguments`);
  }
}

/// Where each member lies, packed as in C, and what reads it.
export function read_parameters(members, structs, buffers) {
  const layout = { members: [], replace };
  let offset = 0;
  for (const m of members) {
    const address = buffers.has(m.type),
      type = address ? 'uvec2' : m.type;
    // Pointers are aligned to eight bytes.
    if (address && offset % 8 !== 0) offset += 4;
    if (m.sizes.length > 1) throw new Untranslatable('an array of arrays among the arguments');
    const count = m.sizes.length === 0 ? 0 : Number.parseInt(m.sizes[0][0].text);
    layout.members.push({ name: m.name, type, offset, count });
    offset += size_of(type, structs, buffers) * (count || 1);
  }
  if (offset > 128) throw new Untranslatable('more than 128 bytes of arguments');

  function replace(tokens, variable, types) {
    const out = [];
    let depth = 0,
      hidden = Infinity; // a local variable of the same name hides the block down to this depth
    for (let i = 0; i < tokens.length; ++i) {
      const t = tokens[i];
      if (is(t, '{')) ++depth;
      if (is(t, '}') && --depth < hidden) hidden = Infinity;
      if (is(t, variable) && types.has(tokens[i - 1]?.text) && !is(tokens[i - 2], 'return')) {
        hidden = Math.max(depth, 1);
      }
      if (is(t, variable) && hidden === Infinity && is(tokens[i + 1], '.') && !is(tokens[i - 1], '.')) {
        const member = layout.members.find((m) => m.name === tokens[i + 2].text);
        if (!member) throw new Error(`${variable}.${tokens[i + 2].text} is no argument`);
        const first = member.offset / 4;
        let text;
        i += 2;
        if (member.count === 0) {
          text = ELEMENTS[member.type] ? value_at(member.type, first) : `parameter_${member.name}()`;
        } else if (is(tokens[i + 1], '[')) {
          const end = closing(tokens, i + 1),
            index = tokens.slice(i + 2, end);
          i = end;
          if (index.length === 1 && index[0].kind === 'number' && ELEMENTS[member.type]) {
            text = value_at(member.type, first + Number.parseInt(index[0].text) * (ELEMENTS[member.type][1] / 4));
          } else {
            out.push(
              ...tokenize(` parameter_${member.name}(uint(`),
              ...replace(index, variable, types),
              sign(')'),
              sign(')'),
            );
            continue;
          }
        } else {
          const step = ELEMENTS[member.type][1] / 4;
          text =
            `${member.type}[${member.count}](` +
            Array.from({ length: member.count }, (_, k) => value_at(member.type, first + k * step)).join(', ') +
            ')';
        }
        out.push(...tokenize(text).map((token, k) => (k === 0 ? { ...token, space: t.space } : token)));
        continue;
      }
      out.push(t);
    }
    return out;
  }
  return layout;
}

/// Functions that read elements of arrays, and structures.
export function parameter_reader(layout, structs) {
  let text = '';
  const word_of = (type, place) => {
    const bits = `parameters[(${place}) >> 2][(${place}) & 3u]`;
    return type === 'uint' ? bits : type === 'int' ? `int(${bits})` : `uintBitsToFloat(${bits})`;
  };
  const components = (type, place) => {
    const n = Number(/\d$/.exec(type)?.[0] ?? 1);
    if (n === 1) return word_of(type, place);
    const of = { uvec: 'uint', ivec: 'int', vec: 'float' }[type.slice(0, -1)];
    return `${type}(${Array.from({ length: n }, (_, c) => word_of(of, `${place} + ${c}u`)).join(', ')})`;
  };
  for (const m of layout.members) {
    const first = m.offset / 4,
      argument = m.count > 0 ? 'const uint i' : '';
    if (ELEMENTS[m.type]) {
      if (m.count === 0) continue;
      text +=
        `${m.type} parameter_${m.name}(${argument}) {\nuint at = ${first}u + i * ${ELEMENTS[m.type][1] / 4}u;\n` +
        `return ${components(m.type, 'at')};\n}\n`;
      continue;
    }
    const members = structs.get(m.type);
    let offset = 0,
      fields = '';
    for (const field of members) {
      if (field.sizes.length > 0 || !ELEMENTS[field.type]) throw new Untranslatable(`${field.type} in an argument`);
      fields += `s.${field.name} = ${components(field.type, `at + ${offset}u`)};\n`;
      offset += ELEMENTS[field.type][1] / 4;
    }
    text +=
      `${m.type} parameter_${m.name}(${argument}) {\nuint at = ${first}u${m.count > 0 ? ` + i * ${offset}u` : ''};\n` +
      `${m.type} s;\n${fields}return s;\n}\n`;
  }
  return tokenize(text);
}
