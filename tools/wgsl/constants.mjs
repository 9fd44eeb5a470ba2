// Constant expressions of GLSL that depend on specialization constants, as constant expressions of WGSL.
import { closing, is, split } from './tokens.mjs';

const LEVELS = [
  ['||'],
  ['&&'],
  ['|'],
  ['^'],
  ['&'],
  ['==', '!='],
  ['<', '>', '<=', '>='],
  ['<<', '>>'],
  ['+', '-'],
  ['*', '/', '%'],
];

/// @param names values of other constants: name -> tokens (to be put in their place), or null (to be left as they are)
export function to_wgsl(tokens, names) {
  let at = 0;
  const take = (text) => is(tokens[at], text) && tokens[at].kind === 'sign' && ++at > 0;

  function conditional() {
    const condition = binary(0);
    if (!take('?')) return condition;
    const yes = conditional();
    if (!take(':')) throw new Error('a conditional without its second half');
    return `select(${conditional()}, ${yes}, ${condition})`;
  }
  function binary(level) {
    if (level === LEVELS.length) return unary();
    let left = binary(level + 1);
    while (at < tokens.length && tokens[at].kind === 'sign' && LEVELS[level].includes(tokens[at].text)) {
      const operator = tokens[at++].text;
      left = `(${left} ${operator} ${binary(level + 1)})`;
    }
    return left;
  }
  function unary() {
    const t = tokens[at];
    if (t === undefined) throw new Error('a constant expression ends early');
    if (take('!')) return `!${unary()}`;
    if (take('-')) return `-${unary()}`;
    if (take('(')) {
      const inner = conditional();
      if (!take(')')) throw new Error('a bracket is not closed');
      return inner;
    }
    ++at;
    if (t.kind === 'number') return t.text.replace(/[uU]$/, '');
    if (t.text === 'true' || t.text === 'false') return t.text;
    if (is(tokens[at], '(')) {
      const end = closing(tokens, at),
        of = split(tokens.slice(at + 1, end));
      at = end + 1;
      if (t.text === 'uint' && of.length === 1) return to_wgsl(of[0], names);
      if (t.text === 'min' || t.text === 'max') return `${t.text}(${of.map((o) => to_wgsl(o, names)).join(', ')})`;
    }
    if (!names.has(t.text)) throw new Error(`the size of an array needs ${t.text}, which is no constant`);
    const value = names.get(t.text);
    return value === null ? t.text : to_wgsl(value, names);
  }

  const text = conditional();
  if (at !== tokens.length) throw new Error(`a constant expression goes on with '${tokens[at].text}'`);
  return text;
}
