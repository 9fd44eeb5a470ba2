// GLSL as a list of tokens: { kind, text, space } with the white space before each. Lines of the preprocessor are one
// token each. What glslangValidator -E prints has no comments and no macros left.

const PATTERN = new RegExp(
  [
    '(?<directive>^[ \\t]*#[^\\n]*)',
    '(?<word>[A-Za-z_]\\w*)',
    '(?<number>(?:0[xX][0-9a-fA-F]+|(?:\\d+\\.\\d*|\\.\\d+|\\d+)(?:[eE][+-]?\\d+)?)(?:[uU]|lf|LF|[fF])?)',
    '(?<text>"[^"]*")',
    '(?<sign><<=|>>=|\\+\\+|--|[-+*/%&|^<>=!]=|&&|\\|\\||\\^\\^|<<|>>|[-+*/%&|^~!<>=?:;,.()[\\]{}])',
  ].join('|'),
  'my',
);

export function tokenize(source) {
  const tokens = [];
  let at = 0;
  while (at < source.length) {
    const space = /[ \t\r\n]*/y;
    space.lastIndex = at;
    let gap = space.exec(source)[0];
    // A directive must keep the start of its line.
    const line = gap.lastIndexOf('\n');
    at += gap.length;
    if (at >= source.length) break;
    PATTERN.lastIndex = at;
    const match = PATTERN.exec(source);
    let kind, text;
    if (match) {
      kind = Object.keys(match.groups).find((k) => match.groups[k] !== undefined);
      text = match[0];
    } else if (source[at] === '#' && (line >= 0 || tokens.length === 0)) {
      kind = 'directive';
      text = source.slice(at, (source.indexOf('\n', at) + 1 || source.length + 1) - 1);
    } else {
      throw new Error(`unexpected character ${JSON.stringify(source.slice(at, at + 20))}`);
    }
    at += text.length;
    if (kind === 'directive' && /^\s*#\s*line/.test(text)) continue;
    if (kind === 'directive') gap = '\n';
    tokens.push({ kind, text, space: gap === '' ? '' : gap.includes('\n') ? '\n' : ' ' });
  }
  return tokens;
}

export function print(tokens) {
  let out = '',
    before = null;
  for (const t of tokens) {
    out += t.kind === 'directive' || before?.kind === 'directive' ? '\n' : t.space;
    // Tokens from elsewhere may come without the space between them.
    if (/\w$/.test(out) && /^[\w"]/.test(t.text)) out += ' ';
    out += t.text;
    before = t;
  }
  return out.replace(/^\n+/, '') + '\n';
}

export const is = (token, text) => token !== undefined && token.text === text;
export const word = (text, space = '') => ({ kind: 'word', text, space });
export const sign = (text, space = '') => ({ kind: 'sign', text, space });

const CLOSING = { '(': ')', '[': ']', '{': '}' };
const OPENING = { ')': '(', ']': '[', '}': '{' };

/// Where the bracket that opens at `open` closes.
export function closing(tokens, open) {
  let depth = 0;
  for (let i = open; i < tokens.length; ++i) {
    if (tokens[i].kind !== 'sign') continue;
    if (CLOSING[tokens[i].text]) ++depth;
    if (OPENING[tokens[i].text] && --depth === 0) return i;
  }
  throw new Error(`no end of '${tokens[open]?.text}'`);
}

export function opening(tokens, close) {
  let depth = 0;
  for (let i = close; i >= 0; --i) {
    if (tokens[i].kind !== 'sign') continue;
    if (OPENING[tokens[i].text]) ++depth;
    if (CLOSING[tokens[i].text] && --depth === 0) return i;
  }
  throw new Error(`no start of '${tokens[close]?.text}'`);
}

/// The end of an expression that begins at `start`: the comma, semicolon, colon or bracket that ends it.
export function expression_end(tokens, start) {
  let depth = 0,
    questions = 0;
  for (let i = start; i < tokens.length; ++i) {
    const text = tokens[i].kind === 'sign' ? tokens[i].text : '';
    if (depth === 0) {
      if (text === '?') ++questions;
      if (text === ':' && questions-- === 0) return i;
      if (text === ',' || text === ';' || OPENING[text]) return i;
    }
    if (CLOSING[text]) ++depth;
    if (OPENING[text]) --depth;
  }
  return tokens.length;
}

/// Lists between commas on the outermost level.
export function split(tokens) {
  const parts = [[]];
  let depth = 0;
  for (const t of tokens) {
    if (t.kind === 'sign') {
      if (CLOSING[t.text]) ++depth;
      if (OPENING[t.text]) --depth;
      if (t.text === ',' && depth === 0) {
        parts.push([]);
        continue;
      }
    }
    parts.at(-1).push(t);
  }
  return parts.length === 1 && parts[0].length === 0 ? [] : parts;
}
