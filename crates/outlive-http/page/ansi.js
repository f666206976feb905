// Colours of a line: SGR sequences become classes and colours of spans. Nothing else of a line is interpreted.

import { el } from './dom.js';

const SEQUENCE = /\x1b\[([0-9;:]*)m/g;

export function rgbOf(number) {
  if (number < 16) return null;
  if (number >= 232) { const grey = 8 + (number - 232) * 10; return `rgb(${grey} ${grey} ${grey})`; }
  const level = (value) => (value === 0 ? 0 : 55 + value * 40);
  const cube = number - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}

function apply(style, codes) {
  const numbers = codes === '' ? [0] : codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) for (const key of Object.keys(style)) delete style[key];
    else if (code === 1) style.bold = true;
    else if (code === 2) style.dim = true;
    else if (code === 3) style.italic = true;
    else if (code === 4) style.underline = true;
    else if (code === 7) style.inverse = true;
    else if (code === 9) style.strike = true;
    else if (code === 22) { delete style.bold; delete style.dim; }
    else if (code === 23) delete style.italic;
    else if (code === 24) delete style.underline;
    else if (code === 27) delete style.inverse;
    else if (code === 29) delete style.strike;
    else if (code >= 30 && code <= 37) style.color = code - 30;
    else if (code >= 90 && code <= 97) style.color = code - 82;
    else if (code >= 40 && code <= 47) style.back = code - 40;
    else if (code >= 100 && code <= 107) style.back = code - 92;
    else if (code === 39) delete style.color;
    else if (code === 49) delete style.back;
    else if (code === 38 || code === 48) {
      const key = code === 38 ? 'color' : 'back';
      if (numbers[at + 1] === 5) { style[key] = numbers[at + 2]; at += 2; }
      else if (numbers[at + 1] === 2) { style[key] = `rgb(${numbers[at + 2]} ${numbers[at + 3]} ${numbers[at + 4]})`; at += 4; }
    }
  }
}

export function paint(span, style) {
  const classes = [];
  for (const name of ['bold', 'dim', 'italic', 'underline', 'inverse', 'strike', 'hidden']) if (style[name]) classes.push(name);
  for (const [key, prefix, property] of [['color', 'f', 'color'], ['back', 'b', 'backgroundColor']]) {
    const value = style[key];
    if (value === undefined) continue;
    if (typeof value === 'number' && value < 16) classes.push(`${prefix}${value}`);
    else span.style[property] = typeof value === 'number' ? rgbOf(value) : value;
  }
  if (classes.length) span.className = classes.join(' ');
  return span;
}

// Returns the pieces of a line: nodes to append. `mark` is a RegExp whose matches stand out.
export function nodes(text, mark) {
  const pieces = [];
  const style = {};
  let from = 0;
  const push = (part) => {
    if (!part) return;
    const plain = part.replace(/\x1b\[[0-9;:?]*[ -/]*[@-~]/g, '');
    const inside = marked(plain, mark);
    pieces.push(Object.keys(style).length ? paint(el('span', {}, inside), style) : inside);
  };
  for (const match of text.matchAll(SEQUENCE)) {
    push(text.slice(from, match.index));
    apply(style, match[1]);
    from = match.index + match[0].length;
  }
  push(text.slice(from));
  return pieces.flat();
}

function marked(text, mark) {
  if (!mark) return [text];
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(mark)) {
    if (!match[0]) continue;
    parts.push(text.slice(from, match.index), el('mark', {}, match[0]));
    from = match.index + match[0].length;
  }
  parts.push(text.slice(from));
  return parts.filter((part) => part !== '');
}
