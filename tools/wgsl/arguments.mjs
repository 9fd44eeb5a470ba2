// Arguments that a function does not change become const. The compiler then passes values instead of pointers to
// copies: less text, and control flow that depends on them stays uniform where they are.
import { closing, is, split, word } from './tokens.mjs';

const ASSIGNS = /^([-+*/%&|^]|<<|>>)?=$|^\+\+$|^--$/;

/// The end of a chain of .member and [index] that begins at i.
function chain_end(tokens, i) {
  for (++i; ;) {
    if (is(tokens[i], '.')) i += 2;
    else if (is(tokens[i], '[')) i = closing(tokens, i) + 1;
    else return i;
  }
}

export const name_at = (tokens) => tokens.findIndex((t, k) => is(t, '(') && k > 0) - 1;

/// Which arguments functions of these names write to: name -> set of positions.
export function written_arguments(functions) {
  const found = new Map();
  for (const { name, tokens } of functions) {
    const open = name_at(tokens) + 1;
    split(tokens.slice(open + 1, closing(tokens, open))).forEach((p, at) => {
      if (p.some((t) => is(t, 'out') || is(t, 'inout'))) found.set(name, (found.get(name) ?? new Set()).add(at));
    });
  }
  return found;
}

function changes(body, name, writes) {
  for (let i = 0; i < body.length; ++i) {
    if (is(body[i], name) && !is(body[i - 1], '.')) {
      if (is(body[i - 1], '++') || is(body[i - 1], '--')) return true;
      const end = chain_end(body, i);
      if (body[end]?.kind === 'sign' && ASSIGNS.test(body[end].text)) return true;
      // A local variable of the same name.
      if (body[i - 1]?.kind === 'word' && !/^(return|else|case|in)$/.test(body[i - 1].text)) return true;
    }
    const positions = writes.get(body[i].text);
    if (positions && is(body[i + 1], '(')) {
      const given = split(body.slice(i + 2, closing(body, i + 1)));
      for (const at of positions) if (is(given[at]?.[0], name)) return true;
    }
  }
  return false;
}

/// @param plain whether values of a type are passed well: types without arrays in them
export function make_const(tokens, writes, plain) {
  const open = name_at(tokens) + 1,
    close = closing(tokens, open);
  if (!is(tokens[close + 1], '{')) return tokens;
  const body = tokens.slice(close + 1),
    parts = split(tokens.slice(open + 1, close));
  const parameters = parts.map((p) =>
    p.length === 2 && plain(p[0].text) && !changes(body, p[1].text, writes)
      ? [word('const', p[0].space), { ...p[0], space: ' ' }, p[1]]
      : p,
  );
  const list = parameters.flatMap((p, i) => (i > 0 ? [{ kind: 'sign', text: ',', space: '' }, ...p] : p));
  return [...tokens.slice(0, open + 1), ...list, ...tokens.slice(close)];
}
