// Preprocessed GLSL of a kernel -> GLSL that tint can read: one heap in place of buffer addresses, a uniform block in
// place of push constants, numbers in place of sizes that depend on specialization constants.
import { make_const, written_arguments } from './arguments.mjs';
import { to_wgsl } from './constants.mjs';
import { accesses, load_and_store } from './heap.mjs';
import { closing, expression_end, is, print, sign, split, tokenize } from './tokens.mjs';
import { parameter_reader, read_parameters } from './parameters.mjs';

// Sizes of arrays that stand for expressions: FIRST_SIZE + n for the n-th. (Tint reads variables of at most 32767
// numbers; no array of the shaders has such a size.)
export const FIRST_SIZE = 701;
const KEPT_EXTENSIONS = /GL_EXT_control_flow_attributes|GL_KHR_shader_subgroup/;
const NARROW = { uint8_t: 'uint', uint16_t: 'uint', int8_t: 'int', int16_t: 'int' };
const CALLS = {
  umulExtended: 'heap_multiply',
  uaddCarry: 'heap_carry',
  isnan: 'heap_isnan',
  memoryBarrierBuffer: 'heap_barrier',
};
const LACKING = [
  [/^(coopmat|coopMat\w*)$/, 'cooperative matrices'],
  [/^(u?int64_t|u?i64vec\d|packUint2x32|unpackUint2x32)$/, '64-bit integers'],
  [/^(double|dvec\d|packDouble2x32)$/, '64-bit floats'],
  [/^(float16_t|f16vec\d|bfloat16_t)$/, 'arithmetic on 16-bit floats'],
  [/^(subgroup\w+|gl_Subgroup\w+|gl_NumSubgroups)$/, 'subgroup operations'],
];

export class Untranslatable extends Error {}

/// The declarations on the outermost level: { kind, name, tokens }.
function outermost(tokens) {
  const items = [];
  for (let i = 0; i < tokens.length;) {
    let end = i;
    if (tokens[i].kind === 'directive') {
      items.push({ kind: 'directive', tokens: [tokens[i++]] });
      continue;
    }
    let kind = 'variable',
      name = '';
    while (!is(tokens[end], ';')) {
      if (is(tokens[end], '{') || is(tokens[end], '(') || is(tokens[end], '[')) {
        const close = closing(tokens, end);
        // A body that follows a list of parameters ends a function.
        if (is(tokens[end], '{') && is(tokens[end - 1], ')') && !is(tokens[i], 'layout')) {
          kind = 'function';
          end = close;
          break;
        }
        end = close;
      }
      ++end;
    }
    const all = tokens.slice(i, end + 1);
    if (is(all[0], 'spirv_instruction')) kind = 'instruction';
    const at = all.findIndex((t, k) => is(t, '(') && all[k - 1]?.kind === 'word' && !is(all[k - 1], 'layout'));
    if (kind === 'function') name = all[at - 1].text;
    else if (is(all[0], 'struct')) [kind, name] = ['struct', all[1].text];
    else if (is(all[0], 'layout')) kind = 'layout';
    else if (is(all[0], 'const')) kind = 'constant';
    else if (is(all[0], 'precision')) kind = 'precision';
    else if (is(all.at(-2), ')') && all[1].kind === 'word' && is(all[2], '('))
      [kind, name] = ['function', all[1].text];
    items.push({ kind, name, tokens: all });
    i = end + 1;
  }
  return items;
}

/// `TYPE a[2], b;` ... as [{ type, name, sizes: [tokens] }].
export function members_of(tokens) {
  const members = [];
  for (let i = 0; i < tokens.length;) {
    const end = expression_end_of_statement(tokens, i),
      type = tokens[i].text;
    for (const declarator of split(tokens.slice(i + 1, end))) {
      const sizes = [];
      for (let k = 1; k < declarator.length;) {
        const close = closing(declarator, k);
        sizes.push(declarator.slice(k + 1, close));
        k = close + 1;
      }
      members.push({ type, name: declarator[0].text, sizes });
    }
    i = end + 1;
  }
  return members;
}
function expression_end_of_statement(tokens, start) {
  const end = tokens.findIndex((t, i) => i >= start && is(t, ';'));
  return end < 0 ? tokens.length : end;
}

/// Replaces sizes of arrays that depend on specialization constants by numbers. `sizes` gets the expressions.
function replace_sizes(tokens, types, constants, specialized, sizes) {
  const out = tokens.slice();
  const size_at = (open) => {
    const close = closing(out, open),
      size = out.slice(open + 1, close);
    if (size.some((t) => specialized.has(t.text))) {
      const text = to_wgsl(size, constants);
      if (!sizes.includes(text)) sizes.push(text);
      const number = { kind: 'number', text: `${FIRST_SIZE + sizes.indexOf(text)}`, space: '' };
      out.splice(open + 1, close - open - 1, number);
      return open + 3;
    }
    return close + 1;
  };
  for (let i = 0; i + 1 < out.length; ++i) {
    if (out[i].kind !== 'word' || !types.has(out[i].text)) continue;
    let at = i + 1;
    while (is(out[at], '[')) at = size_at(at);
    while (out[at]?.kind === 'word') {
      ++at;
      while (is(out[at], '[')) at = size_at(at);
      if (is(out[at], '=')) at = expression_end(out, at + 1);
      if (!is(out[at], ',') || types.has(out[at + 1].text) || is(out[at + 2], '(')) break;
      if (/^(in|out|inout|const|precise)$/.test(out[at + 1].text)) break;
      ++at;
    }
  }
  return out;
}

/// Numbers that are not finite are no constants in WGSL: their bits are made at run time.
function hide_nonfinite(tokens) {
  const out = [];
  for (let i = 0; i < tokens.length; ++i) {
    out.push(tokens[i]);
    if (!is(tokens[i], 'uintBitsToFloat') || !is(tokens[i + 1], '(')) continue;
    const end = closing(tokens, i + 1),
      bits = tokens.slice(i + 2, end);
    if (!bits.some((t) => t.kind === 'number' && (Number.parseInt(t.text) & 0x7f800000) === 0x7f800000)) continue;
    out.push(sign('('), sign('('), ...bits, sign(')'), sign('^', ' '), ...tokenize(' heap_zero()'), sign(')'));
    i = end;
  }
  return out;
}

function reachable(items) {
  const functions = new Map();
  for (const item of items) {
    if (item.kind === 'function') functions.set(item.name, [...(functions.get(item.name) ?? []), item]);
  }
  const seen = new Set(),
    next = ['main'];
  for (const item of items) {
    if (item.kind !== 'function') next.push(...item.tokens.map((t) => t.text).filter((t) => functions.has(t)));
  }
  while (next.length > 0) {
    const name = next.pop();
    if (seen.has(name)) continue;
    seen.add(name);
    for (const item of functions.get(name) ?? []) {
      for (const t of item.tokens) if (functions.has(t.text)) next.push(t.text);
    }
  }
  return items.filter((item) => item.kind !== 'function' || seen.has(item.name));
}

const BUILTIN = [
  'void',
  'bool',
  'int',
  'uint',
  'float',
  ...[2, 3, 4].flatMap((n) => ['vec', 'ivec', 'uvec', 'bvec'].map((v) => `${v}${n}`)),
  ...Object.keys(NARROW),
];

/// @param heap the text of shaders/webgpu/heap.glsl
/// @return { glsl, specialization: [{ id, name, type, value }], sizes: [WGSL expression], threads: name of a constant
///   or null, parameters: [{ name, type, offset, count }] }
/// @throws Untranslatable
export function rewrite(source, heap) {
  let items = reachable(outermost(tokenize(source)));
  const buffers = new Map(),
    structs = new Map(),
    constants = new Map(),
    types = new Set(BUILTIN);
  const specialization = [],
    sizes = [];
  let parameters = null,
    threads_id = null,
    packed_dot = false;
  const kept = [];
  for (const item of items) {
    const { kind, tokens } = item;
    const text = tokens.map((t) => t.text);
    if (kind === 'directive') {
      if (/#\s*version/.test(text[0])) continue;
      if (/#\s*extension/.test(text[0]) && !KEPT_EXTENSIONS.test(text[0])) continue;
    } else if (kind === 'instruction') {
      packed_dot = true;
      continue;
    } else if (kind === 'struct') {
      structs.set(item.name, members_of(tokens.slice(3, -2)));
      types.add(item.name);
    } else if (kind === 'constant' && types.has(text[1])) {
      for (const one of split(tokens.slice(2, -1))) {
        if (is(one[1], '=')) constants.set(one[0].text, one.slice(2));
      }
    } else if (kind === 'function') {
      for (let i = 0; i + 3 < tokens.length; ++i) {
        if (!is(tokens[i], 'const') || !types.has(text[i + 1]) || text[i + 3] !== '=') continue;
        const end = tokens.findIndex((t, k) => k > i && is(t, ';'));
        for (const one of split(tokens.slice(i + 2, end))) {
          if (is(one[1], '=') && !constants.has(one[0].text)) constants.set(one[0].text, one.slice(2));
        }
      }
    } else if (kind === 'layout') {
      const end = closing(tokens, 1);
      if (text.includes('buffer_reference')) {
        const name = tokens[end + 2].text;
        buffers.set(name, tokens[end + 4].text);
        types.add(name);
        continue;
      }
      if (text.includes('push_constant')) {
        const open = tokens.findIndex((t, i) => i > end && is(t, '{')),
          close = closing(tokens, open);
        parameters = { members: members_of(tokens.slice(open + 1, close)), variable: tokens[close + 1].text };
        parameters.layout = read_parameters(parameters.members, structs, buffers);
        item.kind = 'parameters';
      } else if (text.includes('local_size_x_id')) {
        threads_id = Number(text[4]);
        item.tokens = tokenize('layout(local_size_x = 1) in;');
      } else if (text.includes('constant_id')) {
        const id = Number(text[text.indexOf('constant_id') + 2]),
          name = tokens[end + 3].text;
        specialization.push({
          id,
          name,
          type: tokens[end + 2].text,
          value: constant_value(tokens.slice(end + 5, -1), constants),
        });
        constants.set(name, null);
      }
    }
    kept.push(item);
  }
  items = kept;

  const used = new Set(items.flatMap((item) => item.tokens.filter((t) => t.kind === 'word').map((t) => t.text)));
  const lack = LACKING.find(([pattern]) => [...used].some((name) => pattern.test(name)));
  if (lack) throw new Untranslatable(lack[1]);
  const specialized = new Set(specialization.map((s) => s.name));
  for (const [name, value] of constants) if (value?.some((t) => specialized.has(t.text))) specialized.add(name);
  let threads = null;
  if (threads_id !== null) {
    threads = specialization.find((s) => s.id === threads_id)?.name ?? 'LOCAL_SIZE';
    if (threads === 'LOCAL_SIZE') {
      specialization.push({ id: threads_id, name: threads, type: 'uint', value: 1 });
      items.unshift({
        kind: 'layout',
        tokens: tokenize(`layout(constant_id = ${threads_id}) const uint ${threads} = 1;`),
      });
    }
  }

  const writes = written_arguments(items.filter((item) => item.kind === 'function'));
  // Constants that are not finite: their expressions take their places.
  const nonfinite = new Map();
  const declared = new Set(items.filter((i) => i.kind === 'function' && is(i.tokens.at(-1), ';')).map((i) => i.name));
  const plain = (type) => types.has(type) && !(structs.get(type) ?? []).some((m) => m.sizes.length > 0);
  let out = [];
  for (const item of items) {
    let { tokens } = item;
    if (item.kind === 'parameters') {
      out.push(...parameter_reader(parameters.layout, structs));
      continue;
    }
    tokens = replace_sizes(tokens, types, constants, specialized, sizes);
    tokens = accesses(tokens, { buffers, parameters, structs });
    if (item.kind === 'function' && !declared.has(item.name)) tokens = make_const(tokens, writes, plain);
    if (parameters?.layout) tokens = parameters.layout.replace(tokens, parameters.variable, types);
    tokens = hide_nonfinite(tokens).flatMap((t) => nonfinite.get(t.text) ?? [t]);
    if (item.kind === 'constant' && tokens.some((t) => is(t, 'heap_zero'))) {
      nonfinite.set(tokens[2].text, [sign('(', ' '), ...tokens.slice(4, -1), sign(')')]);
      continue;
    }
    tokens = tokens.map((t) => {
      if (t.kind !== 'word') return t;
      if (buffers.has(t.text)) return { ...t, text: 'uvec2' };
      if (CALLS[t.text]) return { ...t, text: CALLS[t.text] };
      return NARROW[t.text] ? { ...t, text: NARROW[t.text] } : t;
    });
    if (threads) tokens = work_group_size(tokens, threads);
    out.push(...tokens);
    if (item.kind === 'struct') out.push(...load_and_store(item.name, structs, buffers));
  }
  const directives = out.filter((t) => t.kind === 'directive' && /extension/.test(t.text));
  out = out.filter((t) => !directives.includes(t));
  const extensions = [...new Set(directives.map((t) => t.text.trim()))].join('\n');
  let library = heap;
  if (packed_dot)
    library += 'int packed_dot(const int a, const int b, const int format) { return a + b + format; }\n';
  return {
    glsl: `#version 460\n${extensions}\n${library}\n${print(out)}`,
    specialization,
    sizes,
    threads,
    parameters: parameters?.layout?.members ?? [],
  };
}

/// A default value, which may name other constants.
function constant_value(tokens, constants) {
  const text = to_wgsl(tokens, constants);
  const value = text === 'true' ? 1 : text === 'false' ? 0 : Number(text);
  if (Number.isNaN(value)) throw new Error(`the default value ${text} of a specialization constant is no number`);
  return value;
}

function work_group_size(tokens, threads) {
  const out = [];
  for (let i = 0; i < tokens.length; ++i) {
    if (is(tokens[i], 'gl_WorkGroupSize') && is(tokens[i + 1], '.') && is(tokens[i + 2], 'x')) {
      out.push({ ...tokens[i], text: threads });
      i += 2;
    } else {
      out.push(tokens[i]);
    }
  }
  return out;
}
