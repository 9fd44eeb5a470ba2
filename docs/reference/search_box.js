// The search box of every page: names in Doxygen's search index, searched as they are typed. Works from file:// too,
// where pages can load scripts but not read files. Doxygen's pages make a SearchBox, which is not used.
class SearchBox {}

/// Entries [name, scope or signature, address], read when the box is first used.
let entries = null;

function load(whenLoaded) {
  if (entries) return whenLoaded();
  entries = [];
  const decoder = document.createElement('textarea');
  const decoded = (text) => ((decoder.innerHTML = text), decoder.value);
  let missing = indexSectionsWithContent[0].length;
  for (let i = 0; i < indexSectionsWithContent[0].length; ++i) {
    const script = document.createElement('script');
    script.src = `search/all_${i.toString(16)}.js`;
    script.onload = () => {
      for (const [, [name, ...places]] of searchData) {
        if (name.startsWith('ETNA_')) continue;  // Macros that headers use themselves.
        for (const [address, , scope] of places) {
          // Doxygen 1.9.8 puts names that differ in case below one; the scope, if it has the name too, has it as it is.
          const last = scope.replace(/[(&].*/, '').split('::').pop();
          const exact = last.toLowerCase() === name.toLowerCase() ? last : decoded(name);
          entries.push([exact, decoded(scope), address.replace('../', '')]);
        }
      }
      if (--missing === 0) whenLoaded();
    };
    document.head.append(script);
  }
}

/// How badly an entry suits; Infinity if it does not. `path` is what was typed before the last name.
function distance([name, scope], path, wanted) {
  const lower = name.toLowerCase(), at = lower.indexOf(wanted.toLowerCase());
  if (at < 0) return Infinity;
  const space = scope.replace(/\(.*/, '').toLowerCase();
  if (path && !`${space}::`.includes(`${path.toLowerCase()}::`)) return Infinity;
  const known = space.startsWith('etna::nn::module::') ? 1.5 : space.startsWith('etna::tensor::') ? 0.5 : 0;
  return (name === wanted ? 0 : lower.length === wanted.length ? 10 : at === 0 ? 100 : 200) - known + name.length / 20 +
    space.split('::').length + (scope.includes('(') ? 0.3 : 0) + (/->/.test(scope) ? 5 : 0);
}

function ranked(typed) {
  const parts = typed.split(/::|\./), wanted = parts.pop();
  if (!wanted) return [];
  const distances = entries.map((entry) => [distance(entry, parts.join('::'), wanted), entry]);
  return distances.filter(([far]) => far < Infinity).sort((a, b) => a[0] - b[0]).slice(0, 40).map(([, entry]) => entry);
}

/// Of a name of PyTorch, what has another name here (renamed.js) comes first.
function found(typed) {
  const name = typed.trim().replace(/\(.*/, ''), last = name.split(/::|\./).pop();
  const here = Object.hasOwn(renamed, last) ? ranked(renamed[last]).slice(0, 5) : [];
  const pytorchs = /^(torch|nn\.functional|f|optim\.lr_scheduler|utils\.data)\./i;
  return here.concat(ranked(name.replace(/^torch\./, '').replace(pytorchs, '')));
}

document.addEventListener('DOMContentLoaded', () => {
  const input = document.querySelector('#search input'), list = document.querySelector('#search ol');
  let chosen = 0;

  const mark = (index) => {
    chosen = Math.max(0, Math.min(index, list.children.length - 1));
    [...list.children].forEach((item, i) => item.classList.toggle('chosen', i === chosen));
    list.children[chosen]?.scrollIntoView({block: 'nearest'});
  };
  const show = () => load(() => {
    list.replaceChildren(...found(input.value).map(([name, scope, address]) => {
      const [item, link, where] = ['li', 'a', 'span'].map((tag) => document.createElement(tag));
      link.href = address;
      link.append(name, where);
      where.textContent = scope;
      item.append(link);
      return item;
    }));
    if (list.children.length === 0 && input.value) list.textContent = 'Nothing has this name.';
    list.hidden = !input.value;
    mark(0);
  });
  const close = () => (list.hidden = true);

  input.addEventListener('input', show);
  input.addEventListener('focus', show);
  input.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown') mark(chosen + 1);
    else if (event.key === 'ArrowUp') mark(chosen - 1);
    else if (event.key === 'Enter') list.children[chosen]?.querySelector('a')?.click();
    else if (event.key === 'Escape') close();
    else return;
    event.preventDefault();
  });
  list.addEventListener('click', close);
  document.addEventListener('click', (event) => event.target.closest('#search') || close());
  document.addEventListener('keydown', (event) => {
    if (event.key !== '/' || event.target.matches('input')) return;
    event.preventDefault();
    input.focus();
  });
});
