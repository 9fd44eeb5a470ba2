// Removes the code of a kernel that its specialization constants rule out. GPU compilers do this too, but some
// implementations of WebGPU do not: SwiftShader runs every case of a switch under a mask. A shorter text also compiles
// faster everywhere.
//
// Works on the declarations that tools/wgsl/finish.mjs extracts from tint's output: one statement per line, braces at
// the ends of lines. Branches and switches whose condition is known are replaced by the branch taken; functions that
// get known numbers which decide a branch are copied for them; declarations that are then unused are dropped.

import { evaluate, wrap } from "./evaluate.mjs";

/** Lines after an opening brace, up to the closing one. */
function parse_block(lines, from) {
  const nodes = [];
  let at = from;
  for (;;) {
    const line = lines[at].trim();
    if (line === "") {
      ++at;
    } else if (line.startsWith("}")) {
      return { nodes, at };
    } else if (!line.endsWith("{")) {
      nodes.push({ kind: "line", text: line });
      ++at;
    } else {
      const { node, at: behind } = parse_compound(line, lines, at);
      nodes.push(node);
      at = behind;
    }
  }
}

function parse_compound(line, lines, at) {
  const condition = /^(?:\} else )?if \((.*)\) \{$/.exec(line);
  if (condition) {
    const taken = parse_block(lines, at + 1);
    const node = { kind: "if", condition: condition[1], then: taken.nodes, else: [] };
    const closing = lines[taken.at].trim();
    if (closing === "} else {") {
      const other = parse_block(lines, taken.at + 1);
      node.else = other.nodes;
      return { node, at: other.at + 1 };
    }
    if (closing.startsWith("} else if ")) {
      const other = parse_compound(closing, lines, taken.at);
      node.else = [other.node];
      return { node, at: other.at };
    }
    return { node, at: taken.at + 1 };
  }
  const { nodes, at: behind } = parse_block(lines, at + 1);
  const chosen = /^switch\s*\((.*)\) \{$/.exec(line);
  if (chosen) return { node: { kind: "switch", value: chosen[1], cases: nodes }, at: behind + 1 };
  const label = /^(?:case (.*?)|default)\s*:? \{$/.exec(line);
  if (label) {
    const labels = label[1] === undefined ? ["default"] : label[1].split(",").map((one) => one.trim()).filter(Boolean);
    return { node: { kind: "case", labels, body: nodes }, at: behind + 1 };
  }
  return { node: { kind: "block", head: line, body: nodes }, at: behind + 1 };
}

/** A declaration: a function with its statements, or any other text. */
export function parse_declaration(text) {
  const match = /^((?:@[^\n]*\n)*)fn (\w+)\(([\s\S]*?)\)(?: -> ([^{]*))? \{\n/.exec(text);
  if (!match) {
    const name = /\b(?:struct|alias|const)\s+(\w+)|\bvar(?:<[^>]*>)?\s+(\w+)/.exec(text);
    const constant = /^const (\w+) : [^=]*= ([^;]*);$/.exec(text);
    return { name: name?.[1] ?? name?.[2], text, expression: constant?.[2] };
  }
  const [head, attributes, name, list, result] = match;
  const parameters = split(list, true).map((one) => {
    const [parameter, type] = one.replace(/@\w+(\([^)]*\))?\s*/g, "").split(":").map((part) => part.trim());
    return { name: parameter, type };
  });
  const lines = text.slice(head.length).split("\n");
  return { name, text, attributes, list, result: result?.trim(), parameters, body: parse_block(lines, 0).nodes };
}

/** Splits at commas outside brackets. @param angles true: < and > are brackets, as in types */
function split(text, angles) {
  const open = angles ? "([<" : "([", close = angles ? ")]>" : ")]", parts = [];
  let depth = 0, from = 0;
  for (let i = 0; i < text.length; ++i) {
    if (open.includes(text[i])) ++depth;
    else if (close.includes(text[i])) --depth;
    // A comma within a type, as in array<f32, 4>(...): comparisons are always in parentheses.
    else if (text[i] === "," && depth === 0 && (angles || !/<[^()]*$/.test(text.slice(from, i)))) {
      parts.push(text.slice(from, i).trim());
      from = i + 1;
    }
  }
  if (text.slice(from).trim()) parts.push(text.slice(from).trim());
  return parts;
}

/** Calls f(name, [arguments]) for each call of a function of `functions` in a text, and replaces it. */
function replace_calls(text, functions, f) {
  const pattern = /\b([A-Za-z_]\w*)\(/g;
  let out = "", from = 0;
  for (let match; (match = pattern.exec(text)); ) {
    if (!functions.has(match[1])) continue;
    let depth = 1, end = pattern.lastIndex;
    for (; depth > 0; ++end) depth += text[end] === "(" ? 1 : text[end] === ")" ? -1 : 0;
    const inner = split(text.slice(pattern.lastIndex, end - 1), false);
    out += text.slice(from, match.index) + f(match[1], inner.map((one) => replace_calls(one, functions, f)));
    from = pattern.lastIndex = end;
  }
  return out + text.slice(from);
}

const NAMES = /(?<![.\w])[A-Za-z_]\w*/g;
const ASSIGNED = /^(\w+)(?:\.\w+|\[[^=]*\])*\s*(?:<<|>>|[-+*/%&|^])?=[^=]/;

/** Names that statements may change. */
function assigned(nodes, into = new Set()) {
  for (const node of nodes) {
    if (node.kind === "line") {
      const name = ASSIGNED.exec(node.text)?.[1];
      if (name) into.add(name);
      for (const [, pointed] of node.text.matchAll(/&\(?(\w+)/g)) into.add(pointed);
    } else {
      for (const one of [node.condition, node.value]) {
        for (const [, pointed] of (one ?? "").matchAll(/&\(?(\w+)/g)) into.add(pointed);
      }
      for (const list of [node.then, node.else, node.body, node.cases]) if (list) assigned(list, into);
    }
  }
  return into;
}

/** True if nothing after this statement runs: tint's own analysis of returns, without loops. */
function ends(node) {
  if (!node) return false;
  switch (node.kind) {
    case "line": return /^(return\b|break;|continue;)/.test(node.text);
    case "if": return ends(node.then.at(-1)) && ends(node.else.at(-1));
    case "switch":
      return node.cases.some((one) => one.labels.includes("default")) &&
        node.cases.every((one) => !breaks(one.body) && ends(one.body.at(-1)));
    case "block": return node.head === "{" && ends(node.body.at(-1));
  }
  return false;
}

/** True if a `break` in these statements leaves the switch around them. */
function breaks(nodes) {
  return nodes.some((node) =>
    node.kind === "line" ? node.text === "break;"
    : node.kind === "if" ? breaks(node.then) || breaks(node.else)
    : node.kind === "block" ? node.head === "{" && breaks(node.body)
    : false);
}

function print(nodes, indent, out) {
  for (const node of nodes) {
    switch (node.kind) {
      case "line":
        out.push(indent + node.text);
        break;
      case "if":
        out.push(`${indent}if (${node.condition}) {`);
        print(node.then, indent + " ", out);
        if (node.else.length) {
          out.push(`${indent}} else {`);
          print(node.else, indent + " ", out);
        }
        out.push(`${indent}}`);
        break;
      case "switch":
        out.push(`${indent}switch(${node.value}) {`);
        for (const one of node.cases) {
          const only_default = one.labels.length === 1 && one.labels[0] === "default";
          out.push(`${indent}${only_default ? "default" : `case ${one.labels.join(", ")}`}: {`);
          print(one.body, indent + " ", out);
          out.push(`${indent}}`);
        }
        out.push(`${indent}}`);
        break;
      default:
        out.push(indent + node.head);
        print(node.body, indent + " ", out);
        out.push(`${indent}}`);
    }
  }
}

/** Declarations of a bundle, parsed once. */
export class Declarations {
  #parsed = [];
  constructor(texts) {
    this.texts = texts;
  }
  at(number) {
    return (this.#parsed[number] ??= parse_declaration(this.texts[number]));
  }
}

/**
 * The declarations that a kernel needs.
 * @param declarations parsed ones, constants before their uses; the kernel's function is `main`
 * @returns text
 */
export function specialize(declarations) {
  const functions = new Map(), others = new Map(), globals = new Map();
  for (const one of declarations) (one.body ? functions : others).set(one.name, one);
  for (const one of others.values()) {
    if (one.expression === undefined) continue;
    const value = evaluate(one.expression, globals);
    if (value) globals.set(one.name, value);
  }
  const decisive = decisive_parameters(functions);
  const made = new Map(), texts = [], used = new Set();

  /** The name of a function's copy for these arguments. */
  function copy(name, values) {
    const f = functions.get(name);
    const key = f.parameters.map((p, i) => (values[i] && decisive.get(name).has(p.name) ? values[i].value : "")).join();
    const copies = made.get(name) ?? new Map();
    made.set(name, copies);
    if (copies.has(key)) return copies.get(key);
    const own = copies.size === 0 ? name : `${name}_s${copies.size}`;
    copies.set(key, own);
    const known = new Map(globals);
    f.parameters.forEach((p, i) => {
      known.delete(p.name);
      if (values[i] && decisive.get(name).has(p.name)) known.set(p.name, wrap(p.type, values[i].value));
    });
    const out = [`${f.attributes}fn ${own}(${f.list})${f.result ? ` -> ${f.result}` : ""} {`];
    print(statements(f.body, known, new Set()), " ", out);
    out.push("}");
    const text = without_unused(out.join("\n"));
    texts.push(text);
    for (const [word] of text.matchAll(NAMES)) used.add(word);
    return own;
  }

  const rewritten = (text, known) => replace_calls(text, functions, (name, list) =>
    `${copy(name, list.map((one) => evaluate(one, known)))}(${list.join(", ")})`);

  /** @param known values by name, changed as statements change them @param locals variables of this function so far */
  function statements(nodes, known, locals) {
    const out = [];
    for (const node of nodes) {
      statement(node, known, locals, out);
      if (ends(out.at(-1))) break;
    }
    return out;
  }

  function statement(node, known, locals, out) {
    const forget = (list) => assigned(list).forEach((name) => known.delete(name));
    if (node.kind === "line") {
      const set = /^(let )?(\w+)(?: : \w+)? = (.*);$/.exec(node.text), declared = /^var (\w+)/.exec(node.text);
      const value = set ? evaluate(set[3], known) : undefined;
      const text = rewritten(node.text, known);
      forget([node]);
      if (declared) locals.add(declared[1]);
      // A variable outside this function may change in the functions it calls.
      if (value && (set[1] || (locals.has(set[2]) && value.type !== "number"))) known.set(set[2], value);
      out.push({ kind: "line", text });
    } else if (node.kind === "if") {
      const value = evaluate(node.condition, known);
      if (value) {
        const body = statements(value.value ? node.then : node.else, known, locals);
        if (body.length) out.push({ kind: "block", head: "{", body });
        return;
      }
      const condition = rewritten(node.condition, known);
      forget([{ kind: "line", text: node.condition }]);
      const then = statements(node.then, new Map(known), locals);
      const other = statements(node.else, new Map(known), locals);
      forget([node]);
      out.push({ kind: "if", condition, then, else: other });
    } else if (node.kind === "switch") {
      const value = evaluate(node.value, known);
      if (value) {
        const fits = (label) => label !== "default" && evaluate(label, known)?.value === value.value;
        const taken = node.cases.find((one) => one.labels.some(fits)) ??
          node.cases.find((one) => one.labels.includes("default"));
        if (taken) switch_taken(taken.body, known, locals, out);
        return;
      }
      const chosen = rewritten(node.value, known);
      forget([{ kind: "line", text: node.value }]);
      const cases = node.cases.map((one) => ({ ...one, body: statements(one.body, new Map(known), locals) }));
      forget([node]);
      out.push({ kind: "switch", value: chosen, cases });
    } else if (node.head === "{") {
      const body = statements(node.body, known, locals);
      if (breaks(node.body)) forget([node]);
      out.push({ kind: "block", head: "{", body });
    } else {
      // A loop may return here with the variables it changed, and reach its last block from anywhere within it.
      forget([node]);
      const last = node.body.filter((one) => one.head?.startsWith("continuing"));
      const body = statements(node.body.filter((one) => !last.includes(one)), new Map(known), locals);
      for (const one of last) {
        body.push({ kind: "block", head: one.head, body: statements(one.body, new Map(known), locals) });
      }
      out.push({ kind: "block", head: rewritten(node.head, known), body });
    }
  }

  /** The case of a switch that is known to be taken. */
  function switch_taken(nodes, known, locals, out) {
    // A break inside an if may skip the statements after it.
    const leaves = breaks(nodes.at(-1)?.text === "break;" ? nodes.slice(0, -1) : nodes);
    if (leaves) assigned(nodes).forEach((name) => known.delete(name));
    const body = statements(nodes, leaves ? new Map(known) : known, locals);
    if (body.at(-1)?.text === "break;") body.pop();
    if (breaks(body)) out.push({ kind: "switch", value: "0u", cases: [{ kind: "case", labels: ["default"], body }] });
    else if (body.length) out.push({ kind: "block", head: "{", body });
  }

  copy("main", []);
  // Variables, structures and constants, in order, with the names that they use themselves.
  const kept = new Set(), names = [...used];
  while (names.length) {
    const one = others.get(names.pop());
    if (!one || kept.has(one)) continue;
    kept.add(one);
    for (const [word] of one.text.matchAll(NAMES)) names.push(word);
  }
  const text = [...others.values()].filter((one) => kept.has(one)).map((one) => one.text);
  return [...text, ...texts].join("\n");
}

/** A function's text without variables that are declared but not used. */
function without_unused(text) {
  const count = new Map();
  for (const [word] of text.matchAll(NAMES)) count.set(word, (count.get(word) ?? 0) + 1);
  return text.replace(/^ *var (\w+) : [^=;]*;\n/gm, (line, name) => (count.get(name) === 1 ? "" : line));
}

/** By function: the parameters whose values choose branches in it or in functions it calls. */
function decisive_parameters(functions) {
  const decisive = new Map([...functions.keys()].map((name) => [name, new Set()]));
  const reads = new Map();  // by function: names that decide, and calls
  for (const [name, f] of functions) reads.set(name, facts_of(f, functions));
  for (let changed = true; changed; ) {
    changed = false;
    for (const [name, f] of functions) {
      const { deciding, calls, lets } = reads.get(name);
      const names = new Set(deciding);
      for (const { callee, list } of calls) {
        functions.get(callee).parameters.forEach((p, i) => {
          if (decisive.get(callee).has(p.name)) for (const [word] of (list[i] ?? "").matchAll(NAMES)) names.add(word);
        });
      }
      for (let more = true; more; ) {
        more = false;
        for (const [own, text] of lets) {
          if (!names.has(own)) continue;
          for (const [word] of text.matchAll(NAMES)) if (!names.has(word)) more = names.add(word) && true;
        }
      }
      for (const p of f.parameters) {
        if (!/^(u32|i32|bool)$/.test(p.type) || !names.has(p.name) || decisive.get(name).has(p.name)) continue;
        decisive.get(name).add(p.name);
        changed = true;
      }
    }
  }
  return decisive;
}

function facts_of(f, functions) {
  if (f.facts) return f.facts;
  const deciding = new Set(), calls = [], lets = [];
  const look = (text) => replace_calls(text, functions, (callee, list) => {
    calls.push({ callee, list });
    return `${callee}(${list.join(", ")})`;
  });
  const visit = (nodes) => {
    for (const node of nodes) {
      for (const text of [node.condition, node.value]) {
        if (text === undefined) continue;
        for (const [word] of text.matchAll(NAMES)) deciding.add(word);
        look(text);
      }
      if (node.kind === "line") {
        const set = /^(?:let )?(\w+)(?: : \w+)? = (.*);$/.exec(node.text);
        if (set) lets.push([set[1], set[2]]);
        look(node.text);
      }
      for (const list of [node.then, node.else, node.body, node.cases]) if (list) visit(list);
    }
  };
  visit(f.body);
  return (f.facts = { deciding, calls, lets });
}
