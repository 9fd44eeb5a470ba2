// Evaluates constant WGSL expressions to { type: "u32" | "i32" | "bool" | "number", value }; a "number" is a literal
// without a suffix.

const PRECEDENCE = {
  "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7,
  "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
};
const TOKEN = /\s*(?:(\d+)([ui]?)(?![\w.])|([A-Za-z_]\w*)|(\|\||&&|[=!<>]=|<<|>>|[-+*/%&|^<>!~(),]))/y;

function tokens(text) {
  const found = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const at = TOKEN.lastIndex, match = TOKEN.exec(text);
    if (!match) return text.slice(at).trim() === "" ? found : null;
    const [, digits, suffix, name, operator] = match;
    if (digits) found.push({ value: { type: { u: "u32", i: "i32" }[suffix] ?? "number", value: Number(digits) } });
    else found.push({ name, operator });
  }
  return found;
}

/** Converts to the type: numbers wrap around. */
export const wrap = (type, value) =>
  ({ type, value: type === "u32" ? value >>> 0 : type === "i32" ? value | 0 : value });

function binary(operator, a, b) {
  // One operand alone may decide the result.
  if (operator === "&&" || operator === "&" || operator === "||" || operator === "|") {
    const decides = operator[0] === "|";
    for (const side of [a, b]) if (side?.type === "bool" && side.value === decides) return side;
  }
  if (!a || !b) return undefined;
  const type = a.type === "number" ? b.type : a.type, x = a.value, y = b.value;
  const truth = (value) => ({ type: "bool", value });
  switch (operator) {
    case "==": return truth(x === y);
    case "!=": return truth(x !== y);
    case "<": return truth(x < y);
    case "<=": return truth(x <= y);
    case ">": return truth(x > y);
    case ">=": return truth(x >= y);
    case "&&": return truth(x && y);
    case "||": return truth(x || y);
  }
  if (type === "bool") {
    const value = { "&": x && y, "|": x || y, "^": x !== y }[operator];
    return value === undefined ? undefined : truth(value);
  }
  switch (operator) {
    case "+": return wrap(type, x + y);
    case "-": return wrap(type, x - y);
    case "*": return wrap(type, Math.imul(x, y));
    case "/": return y === 0 ? undefined : wrap(type, Math.trunc(x / y));
    case "%": return y === 0 ? undefined : wrap(type, x % y);
    case "&": return wrap(type, x & y);
    case "|": return wrap(type, x | y);
    case "^": return wrap(type, x ^ y);
    case "<<": return y > 31 ? undefined : wrap(type, x << y);
    case ">>": return y > 31 ? undefined : wrap(type, type === "i32" ? x >> y : x >>> y);
  }
}

/** The value of an expression; undefined if it is not known. @param known values by name */
export function evaluate(text, known) {
  const list = tokens(text);
  if (!list) return undefined;
  let at = 0;
  const next = (operator) => list[at]?.operator === operator && ++at;
  function primary() {
    const token = list[at++];
    if (!token) throw new Error("ended");
    if (token.value) return token.value;
    if (token.operator === "(") {
      const value = expression(0);
      if (!next(")")) throw new Error("no )");
      return value;
    }
    if (token.operator === "!" || token.operator === "-" || token.operator === "~") {
      const a = primary();
      if (!a) return undefined;
      if (token.operator === "!") return a.type === "bool" ? { type: "bool", value: !a.value } : undefined;
      return a.type === "bool" ? undefined : wrap(a.type, token.operator === "-" ? -a.value : ~a.value);
    }
    if (!token.name) throw new Error("unexpected");
    if (token.name === "true" || token.name === "false") return { type: "bool", value: token.name === "true" };
    if (!next("(")) return known.get(token.name);
    const values = [];
    while (!next(")")) {
      values.push(expression(0));
      if (!next(",") && list[at]?.operator !== ")") throw new Error("no )");
    }
    const [a, b, c] = values;
    switch (token.name) {
      case "u32":
      case "i32":
        return a && wrap(token.name, Number(a.value));
      case "select":
        return c && (c.value ? b : a);
      case "min":
        return a && b && (a.value < b.value ? a : b);
      case "max":
        return a && b && (a.value > b.value ? a : b);
    }
    return undefined;
  }
  function expression(least) {
    let left = primary();
    for (;;) {
      const operator = list[at]?.operator, precedence = PRECEDENCE[operator];
      if (!precedence || precedence <= least) return left;
      ++at;
      left = binary(operator, left, expression(precedence));
    }
  }
  try {
    const value = expression(0);
    return at === list.length ? value : undefined;
  } catch {
    return undefined;  // indices, members, vectors
  }
}
