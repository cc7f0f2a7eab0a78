// The explorer of matrix descriptors: 64 bits, the tile that they describe, and what is wrong.
// A classic script, which each figure carries: the first one defines, every one starts its own.
(function () {
  "use strict";

  const PIECE = 16;
  const LINE = 128;
  const SVG = "http://www.w3.org/2000/svg";

  const hex = (n) => (n < 0 ? "-0x" : "0x") + (n < 0 ? -n : n).toString(16);
  // % of a number below zero counts from below, as in Python.
  const modulo = (n, by) => ((n % by) + by) % by;

  // ---- arithmetic: what hopper.descriptor, hopper.placement and hopper.banks say ---------------

  function arithmetic(facts) {
    const codes = new Map(facts.codes); // span in bytes -> code of the mode
    const spans = new Map(facts.codes.map(([span, code]) => [code, span]));
    const tensorMap = new Map(facts.tensor_map);
    const masks = new Map([[128, 7], [64, 3], [32, 1], [0, 0]]);
    const fieldBits = facts.fields.reduce(
      (all, [, first, bits]) => all | (((1n << BigInt(bits)) - 1n) << BigInt(first)), 0n);

    function parse(text) {
      const digits = text.replace(/[_']/g, "").trim().replace(/[uUlL]+$/, "");
      const found = /^([+-]?)(0x[0-9a-f]+|0b[01]+|0o[0-7]+|0+|[1-9][0-9]*)$/i.exec(digits);
      if (!found) return null;
      return found[1] === "-" ? -BigInt(found[2]) : BigInt(found[2]);
    }

    function fieldsOf(value) {
      return facts.fields.map(([, first, bits]) =>
        Number((value >> BigInt(first)) & ((1n << BigInt(bits)) - 1n)));
    }

    // Bits of no field are ignored: `mistakes` tells of them.
    function decode(value) {
      const [start, leading, stride, base, mode] = fieldsOf(value);
      return {
        start: start * 16, leading: leading * 16, stride: stride * 16, base, swizzle: spans.get(mode),
      };
    }

    function encode(it) {
      const parts = [it.start / 16, it.leading / 16, it.stride / 16, it.base, codes.get(it.swizzle)];
      return parts.reduce(
        (all, part, i) => all | (BigInt(part) << BigInt(facts.fields[i][1])), 0n);
    }

    const swizzled = (address, span) => address ^ (((address >> 7) & masks.get(span)) << 4);

    function offset(it, r, k, major, itemBytes) {
      const piece = (it.swizzle || PIECE) / itemBytes;
      if (major === "MN") {
        const inside = (r % piece) * itemBytes + (k % 8) * piece * itemBytes;
        const [across, along] = it.swizzle ? [it.leading, it.stride] : [it.stride, it.leading];
        return inside + Math.floor(r / piece) * across + Math.floor(k / 8) * along;
      }
      const inside = (r % 8) * piece * itemBytes + (k % piece) * itemBytes;
      const rows = inside + Math.floor(r / 8) * it.stride;
      return it.swizzle ? rows : rows + Math.floor(k / piece) * it.leading;
    }

    function address(it, r, k, major, itemBytes) {
      const moved = LINE * it.base;
      return swizzled(it.start + offset(it, r, k, major, itemBytes) - moved, it.swizzle) + moved;
    }

    // Leading and stride of a whole tile of (rows, depth) elements.
    function placement(rows, depth, major, swizzle, itemBytes) {
      const core = 8 * PIECE;
      if (swizzle) {
        const leading = major === "MN" ? (depth / 8) * 8 * swizzle : PIECE;
        return { leading, stride: 8 * swizzle };
      }
      if (major === "MN") return { leading: (rows / 8) * core, stride: core };
      return { leading: core, stride: ((depth * itemBytes) / PIECE) * core };
    }

    function coreMatrix(r, k, major, itemBytes) {
      const items = PIECE / itemBytes;
      const eight = [0, 1, 2, 3, 4, 5, 6, 7];
      if (major === "K") return eight.map((i) => [r - (r % 8) + i, k - (k % items)]);
      return eight.map((i) => [r - (r % items), k - (k % 8) + i]);
    }

    // Of 16-byte pieces: banks that they take, and turns until all are served.
    function banks(addresses) {
      const wanted = new Set(addresses.flatMap((a) => [0, 1, 2, 3].map((i) => (a >> 2) + i)));
      const words = new Array(32).fill(0);
      for (const word of wanted) words[word % 32] += 1;
      return [words.filter(Boolean).length, Math.max(...words)];
    }

    // ---- mistakes: hopper.descriptor.mistakes, rule by rule ------------------------------------

    function unusedBits(value) {
      const bits = (first, count) => Number((value >> BigInt(first)) & ((1n << BigInt(count)) - 1n));
      const between = bits(46, 3);
      const high = bits(52, 10);
      const found = [];
      if (bits(14, 2)) {
        found.push(["start-wide", { low: hex(bits(0, 16)), shifted: hex(bits(0, 16) >> 4) }]);
      }
      if (bits(30, 2)) found.push(["leading-wide", {}]);
      if (between === 1 && fieldsOf(value)[2]) found.push(["blackwell", {}]);
      else if (between) found.push(["stride-wide", { code: between }]);
      if (high === 512) found.push(["mode-at-61", {}]);
      else if (high) found.push(["high-bits", { code: hex(high) }]);
      return found;
    }

    function meantBy(it, major, rows) {
      const groups = major === "MN" || rows > 8;
      const eighth = it.stride / 8;
      if (!groups || ![32, 64, 128].includes(eighth)) return [it.swizzle, ""];
      if (it.swizzle === 0 && major === "K" && it.leading <= 16) return [eighth, "mode-missing"];
      if (it.swizzle === 128 && eighth === 32) return [eighth, "mode-of-tensor-map"];
      if (it.swizzle === 32 && eighth === 128 && major === "K") return [eighth, "mode-of-tensor-map"];
      if (it.swizzle > eighth) return [eighth, "mode-of-stride"];
      return [it.swizzle, ""];
    }

    function judgeMode(it, major, rows, wanted) {
      const mode = codes.get(it.swizzle);
      let meant = wanted;
      let key = "";
      if (wanted === null) [meant, key] = meantBy(it, major, rows);
      else if (meant !== it.swizzle) {
        key = mode === tensorMap.get(meant) ? "mode-of-tensor-map" : "mode-other";
      }
      if (!key) return [meant, []];
      const inWords = (span) => (span ? `${span} bytes` : "no swizzle");
      const values = {
        mode, span: it.swizzle, meant, code: codes.get(meant), stride: it.stride,
        said: inWords(it.swizzle), wanted: inWords(meant),
      };
      if (key === "mode-of-stride") values.atom = 8 * it.swizzle;
      if (key === "mode-missing") Object.assign(values, { span: meant, leading: it.leading });
      return [meant, [[key, values]]];
    }

    function judgeStart(it) {
      const code = it.start / 16;
      const start = hex(it.start);
      const end = hex(facts.shared_end);
      if (it.start < facts.shared_start) return [["start-low", { start, first: facts.shared_start }]];
      if (it.start < facts.shared_end) return [];
      if (code % 16) return [["start-beyond", { start, end }]];
      return [["start-unshifted", { start, end, code: hex(code), shifted: hex(code / 16) }]];
    }

    function judgeAlignment(it, span, major, rows) {
      const { base } = it;
      if (!span) return base ? [["base-without-swizzle", { base }]] : [];
      const found = [];
      const atom = 8 * span;
      const values = { start: hex(it.start), span, atom, base };
      const past = it.start % atom;
      if (modulo(it.start - LINE * base, atom) >= span) {
        if (!base) {
          const key = major === "K" ? "start-inside-atom" : "tile-unaligned";
          found.push([key, { ...values, past, steps: span / 32 }]);
        } else if (past < span) found.push(["base-of-aligned", values]);
        else found.push(["base-other", { ...values, right: (it.start >> 7) & 7 }]);
      }
      const inside = it.start % span;
      const need = major === "K" ? 32 : Math.min(2 * rows, span);
      if (inside + need > span) found.push(["row-crossed", { ...values, inside, need }]);
      else if (major === "K" && inside % 32) found.push(["start-half-step", { ...values, inside }]);
      return found;
    }

    function partsOf(span, major, rows) {
      if (!span) return { counts: [2, rows / 8], part: LINE, unit: 16 };
      if (major === "K") return { counts: [1, rows / 8], part: 8 * span, unit: 8 * span };
      return { counts: [Math.ceil((2 * rows) / span), 2], part: 8 * span, unit: 8 * span };
    }

    function fits(leading, stride, layout) {
      const { counts, part, unit } = partsOf(...layout);
      if ([leading, stride].some((length, i) => counts[i] > 1 && length % unit)) return false;
      const starts = [];
      for (let i = 0; i < counts[0]; i += 1) {
        for (let j = 0; j < counts[1]; j += 1) starts.push(i * leading + j * stride);
      }
      starts.sort((a, b) => a - b);
      return starts.every((start, i) => i === 0 || start - starts[i - 1] >= part);
    }

    function unshifted(leading, stride, layout) {
      const { counts, part } = partsOf(...layout);
      if (!layout[0] || counts[0] > 1) {
        return [leading, stride].every((length) => length && length % (16 * part) === 0);
      }
      return counts[1] > 1 && stride === 16 * part;
    }

    function judgeOffsets(leading, stride, layout) {
      const [span, major] = layout;
      const { counts, part, unit } = partsOf(...layout);
      const values = { leading, stride };
      if (fits(leading, stride, layout)) {
        return unshifted(leading, stride, layout) ? [["offsets-unshifted", values]] : [];
      }
      if (fits(stride, leading, layout)) return [["swapped", values]];
      const other = stride / 8;
      const borrowed = span > 0 && counts[1] > 1 && stride % unit > 0 &&
        other !== span && [32, 64, 128].includes(other);
      const small = [leading, stride].every((length, i) => counts[i] === 1 || length < part);
      if (small && !borrowed && fits(16 * leading, 16 * stride, layout)) {
        return [["offsets-shifted-twice", values]];
      }
      const found = [];
      const more = { ...values, span, atom: part };
      if (counts[0] > 1 && leading % unit) {
        found.push(["leading-not-atoms", { ...more, length: leading, rows: span / 2 }]);
      }
      if (counts[1] > 1 && stride % unit) {
        const lines = major === "K" ? "rows" : "of k";
        const key = borrowed ? "stride-of-other-swizzle" : "stride-not-atoms";
        found.push([key, { ...more, length: stride, lines, other: Math.floor(other) }]);
      }
      return found.length ? found : [["overlap", { ...values, part }]];
    }

    function lastByte(it, span, major, rows) {
      const { counts, part } = partsOf(span, major, rows);
      const line = major === "K" ? 32 : Math.min(2 * rows, span);
      const used = span ? part - span + line : part;
      return it.start + (counts[0] - 1) * it.leading + (counts[1] - 1) * it.stride + used - 1;
    }

    // [key, values] of all that is wrong. `meant`: span in bytes, or null to believe the descriptor.
    function mistakes(value, major, itemBytes, rows, meant) {
      if (value < 0n || value >> 64n) return [["too-wide", { value: hex(value) }]];
      const found = unusedBits(value);
      if (found.some(([key]) => /-wide$|^high-bits$/.test(key))) return found;
      const it = decode(value & fieldBits);
      if (major === "MN" && itemBytes !== 2) {
        return [...found, ["mn-not-16-bit", { bits: 8 * itemBytes }]];
      }
      const [span, mode] = judgeMode(it, major, rows, meant);
      const layout = [span, major, rows];
      const start = judgeStart(it);
      if (mode.length) return [...found, ...mode, ...start];
      const place = start.length ? start : judgeAlignment(it, ...layout);
      const offsets = judgeOffsets(it.leading, it.stride, layout);
      const last = lastByte(it, ...layout);
      if (!start.length && !offsets.length && last >= facts.shared_end) {
        const values = { start: hex(it.start), last: hex(last), end: hex(facts.shared_end) };
        offsets.push(["tile-beyond", values]);
      }
      return [...found, ...mode, ...place, ...offsets];
    }

    const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
    const sentence = ([key, values]) => fill(facts.sentences[key], values);

    // The tile that was meant, as it would lie from the start of pasted bits on. Their offsets are
    // believed where such a tile can have them.
    function stored(it, major, itemBytes, rows, span) {
      const deep = major === "K" && span ? span : LINE;
      const sound = judgeOffsets(it.leading, it.stride, [span, major, rows]).length === 0;
      const offsets = sound
        ? { leading: it.leading, stride: it.stride }
        : placement(rows, deep / itemBytes, major, span, itemBytes);
      const begins = !span ? PIECE : major === "K" ? 32 : span;
      return { start: it.start - (it.start % begins), ...offsets, base: 0, swizzle: span };
    }

    return {
      parse, fieldsOf, decode, encode, swizzled, offset, address, placement, coreMatrix, banks,
      mistakes, sentence, fill, stored,
    };
  }

  // ---- the figure -----------------------------------------------------------------------------

  let figures = 0;

  function svgElement(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function element(name, text, className) {
    const made = document.createElement(name);
    made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function setUp(figure) {
    const find = (selector) => figure.querySelector(selector);
    const data = JSON.parse(find(".wb-explorer-data").textContent);
    const { facts, colours, tints } = data;
    const measure = data.drawing;
    const sums = window.hopperDescriptorArithmetic(facts);
    const control = (name) => find(`.wb-explorer-controls [name="${name}"]`);
    const drawing = find(".wb-explorer-drawing");
    const svg = drawing.querySelector("svg");
    const now = find(".wb-explorer-now");
    const verdict = find(".wb-descriptor-verdict");
    const fields = find(".wb-descriptor-bits ol");
    const hatch = `wb-descriptor-${(figures += 1)}`;
    // `pasted`: the last number that is one, `refused`: what is wrong with what was typed since.
    const state = { ...data.state, refused: "", startRefused: "", r: 0, k: 0, from: 0 };
    const columns = LINE / PIECE;
    // Begin where the instruction begins.
    const toStep = () => {
      state.r = 0;
      state.k = state.pasted === null ? (state.step * 256) / state.bits : 0;
    };
    let shown = null;
    let lastPasted = state.pasted === null ? "" : state.pasted;

    // Rows of which a tile of this layout has a multiple: whole spans where it is MN-major.
    const rowUnit = () => (state.major === "MN" ? (state.swizzle || PIECE) / 2 : 8);

    // Greys an option out, and says why in it.
    function offer(option, reason) {
      option.dataset.text ??= option.textContent;
      option.disabled = reason !== "";
      option.textContent = reason ? `${option.dataset.text} (${reason})` : option.dataset.text;
    }

    // What is to be seen: 64 bits, the operand they are part of, and where its pieces lie.
    function work() {
      const itemBytes = state.bits / 8;
      const one = { value: 0n, itemBytes, depth: 32 / itemBytes };
      if (state.pasted !== null) {
        one.value = sums.parse(state.pasted);
        one.whole = sums.decode(one.value & ((1n << 64n) - 1n));
      } else {
        const deep = state.major === "K" && state.swizzle ? state.swizzle : LINE;
        one.depth = deep / itemBytes;
        const offsets = sums.placement(state.rows, one.depth, state.major, state.swizzle, itemBytes);
        one.whole = { start: state.start, ...offsets, base: 0, swizzle: state.swizzle };
        const further = state.major === "K" && state.swizzle
          ? 32 * state.step
          : sums.offset(one.whole, 0, (32 / itemBytes) * state.step, state.major, itemBytes);
        one.value = sums.encode({ ...one.whole, start: (state.start + further) % (1 << 18) });
      }
      const mistakes = sums.mistakes(one.value, state.major, itemBytes, state.rows, state.swizzle);
      const refused = state.refused || (state.pasted === null ? state.startRefused : "");
      one.wrong = refused ? [refused] : mistakes.map(sums.sentence);
      one.fine = mistakes.length === 0;

      const [down, along] = state.major === "K" ? [1, PIECE / itemBytes] : [PIECE / itemBytes, 1];
      one.down = down;
      one.along = along;
      one.placed = new Map();
      one.read = new Set();
      const part = sums.decode(one.value & ((1n << 64n) - 1n));
      for (let r = 0; r < state.rows; r += down) {
        for (let k = 0; k < one.depth; k += along) {
          const address = sums.address(one.whole, r, k, state.major, itemBytes);
          if (!one.placed.has(address)) one.placed.set(address, []);
          one.placed.get(address).push([r, k]);
        }
        for (let k = 0; k < 32 / itemBytes; k += along) {
          one.read.add(sums.address(part, r, k, state.major, itemBytes));
        }
      }
      // Boxes that hold something else in the tile that was chosen.
      one.held = new Map();
      one.strangers = new Set();
      if (state.pasted !== null && !one.fine) {
        const tile = sums.stored(one.whole, state.major, itemBytes, state.rows, state.swizzle);
        for (const place of [...one.placed.values()].flat()) {
          one.held.set(sums.address(tile, ...place, state.major, itemBytes), place);
        }
        for (const [address, places] of one.placed) {
          if (String([one.held.get(address)]) !== String(places)) one.strangers.add(address);
        }
      }
      const addresses = [...one.placed.keys(), ...one.read];
      const low = addresses.reduce((a, b) => Math.min(a, b));
      const high = addresses.reduce((a, b) => Math.max(a, b));
      one.first = Math.floor(low / LINE) * LINE;
      one.lines = Math.floor((high - one.first) / LINE) + 1;
      return one;
    }

    // ---- the 64 bits ----------------------------------------------------------------------------

    function meaning(number, it, codesOf) {
      const code = codesOf[number];
      if (number === 0) return `${hex(code)} × 16 = ${hex(it.start)}`;
      if (number === 3) return String(code);
      if (number === 4) return `${code}: ${it.swizzle ? `${it.swizzle} bytes` : "none"}`;
      const length = number === 1 ? it.leading : it.stride;
      let where = data.directions[state.major][it.swizzle ? 1 : 0][number - 1]
        .replace("{e}", it.swizzle / 2);
      if (state.major === "MN" && it.swizzle && number === 1 && 2 * state.rows <= it.swizzle) {
        where = "unused";
      }
      if (number === 2 && state.rows <= 8 && where === "to the next 8 rows") where = "unused";
      return `${hex(code)} × 16 = ${length} bytes, ${where}`;
    }

    function tellBits() {
      const { value } = shown;
      const cut = value & ((1n << 64n) - 1n);
      const it = sums.decode(cut);
      const codesOf = sums.fieldsOf(cut);
      const digits = cut.toString(2).padStart(64, "0");
      const bits = (first, behind) => digits.slice(64 - behind, 64 - first);
      const shownAs = value < 0n ? hex(value) : "0x" + value.toString(16).padStart(16, "0");
      find(".wb-descriptor-value").textContent = shownAs;
      const items = [];
      let behind = 64;
      facts.fields.map((field, number) => [...field, number]).reverse().forEach((field) => {
        const [name, first, count, number] = field;
        for (const [from, to, label, words] of [
          [first + count, behind, "unused", ""],
          [first, first + count, name, meaning(number, it, codesOf)],
        ]) {
          if (from === to) continue;
          const item = element("li", "", label === "unused" ? "wb-descriptor-unused" : "");
          item.append(element("b", label), " ", element("span", `bits ${from}–${to - 1}`), " ");
          item.append(element("code", bits(from, to)));
          if (words) item.append(" ", element("span", words));
          items.push(item);
        }
        behind = first;
      });
      fields.replaceChildren(...items);
      const lines = shown.wrong.length ? shown.wrong.map((line) => `✗ ${line}`) : [data.fine];
      verdict.classList.toggle("is-wrong", shown.wrong.length > 0);
      if (verdict.textContent !== lines.join("")) {
        verdict.replaceChildren(...lines.map((line) => element("p", line)));
      }
      find(".wb-descriptor-note").textContent = note();
    }

    // What the boxes of the drawing say.
    function note() {
      const { notes } = data;
      if (state.pasted === null) return notes.tile;
      const said = [notes.bits];
      const some = shown.strangers.size;
      if (some) said.push(sums.fill(notes.other, { some, all: shown.placed.size }));
      else if (!shown.fine) said.push(notes.same);
      const most = Math.max(...[...shown.placed.values()].map((places) => places.length));
      if (most > 1) said.push(sums.fill(notes.more, { n: most - 1 }));
      return said.join(" ");
    }

    // ---- shared memory --------------------------------------------------------------------------

    function text(x, y, words, style) {
      const { size = measure.text, fill = "ink", anchor = "middle", halo = "", bold = false } = style;
      const outline = halo
        ? `;paint-order:stroke;stroke:${colours[halo]};stroke-width:5px;stroke-linejoin:round`
        : "";
      const weight = bold ? ";font-weight:700" : "";
      return svgElement("text", {
        x, y: y + size * 0.36, "text-anchor": anchor,
        style: `fill:${colours[fill]};font-size:${size}px${weight}${outline}`,
      }, words);
    }

    function box(x, y, inset, fill, stroke, width, dashed = false) {
      return svgElement("rect", {
        x: x + inset, y: y + inset, rx: 3,
        width: measure.piece - 2 * inset, height: measure.line - 2 * inset,
        style: `fill:${fill};stroke:${colours[stroke]};stroke-width:${width}` +
          (dashed ? ";stroke-dasharray:5 4" : ""),
      });
    }

    function draw() {
      const height = measure.top + measure.lines * measure.line + 8;
      const parts = [];
      const definitions = svgElement("defs", {});
      for (const tint of tints) {
        const pattern = svgElement("pattern", {
          id: `${hatch}-${tint}`, width: 8, height: 8, patternUnits: "userSpaceOnUse",
          patternTransform: "rotate(45)",
        });
        const style = `stroke:${colours[tint]};stroke-width:1.2;opacity:.45`;
        pattern.append(svgElement("path", { d: "M0 0V8", style }));
        definitions.append(pattern);
      }
      parts.push(definitions, svgElement("rect", {
        width: 420, height, rx: 10, style: `fill:${colours.paper}`,
      }));
      const core = coreAddresses();
      const hit = new Set(core.map((address) => (address % LINE) / PIECE));
      parts.push(text(measure.left - 8, 18, "bank", { fill: "muted", anchor: "end" }));
      for (let column = 0; column < columns; column += 1) {
        const on = hit.has(column);
        parts.push(text(measure.left + (column + 0.5) * measure.piece, 18, String(4 * column),
          { fill: on ? "ink" : "muted", bold: on }));
      }
      const here = pieceAddress();
      for (let line = 0; line < measure.lines; line += 1) {
        const begin = shown.first + (state.from + line) * LINE;
        const y = measure.top + line * measure.line;
        parts.push(text(measure.left - 8, y + measure.line / 2, hex(begin),
          { fill: "muted", anchor: "end" }));
        for (let column = 0; column < columns; column += 1) {
          parts.push(piece(begin + column * PIECE, measure.left + column * measure.piece, y, core, here));
        }
      }
      svg.replaceChildren(...parts);
    }

    function piece(address, x, y, core, here) {
      const group = svgElement("g", { "data-address": address });
      const places = shown.placed.get(address);
      const read = shown.read.has(address);
      if (!places) {
        group.append(box(x, y, 1, colours.paper, read ? "ink" : "line", read ? 2 : 0.75));
        return group;
      }
      const [[r, k]] = places;
      const items = PIECE / shown.itemBytes;
      const number = Math.floor((state.major === "K" ? k : r) / items);
      const tint = tints[number % tints.length];
      const strong = core.includes(address);
      const stroke = strong ? "ink" : tint;
      const width = strong ? 3 : read ? 2 : 0.75;
      const dashed = shown.strangers.has(address);
      group.append(box(x, y, 1.5, colours[`${tint}-soft`], stroke, width, dashed));
      if (number % 8 >= tints.length) {
        group.append(box(x, y, 1.5, `url(#${hatch}-${tint})`, stroke, 0));
      }
      const chosen = address === here;
      if (chosen) group.append(box(x, y, 3, colours.ink, "ink", 0));
      const style = chosen ? { fill: "paper", bold: true } : { halo: `${tint}-soft` };
      const below = places.length > 1 ? `+${places.length - 1}` : `k${k}`;
      const middle = x + measure.piece / 2;
      group.append(text(middle, y + 0.3 * measure.line, `r${r}`, style));
      group.append(text(middle, y + 0.7 * measure.line, below, style));
      return group;
    }

    const at = (r, k) => sums.address(shown.whole, r, k, state.major, shown.itemBytes);
    const pieceAddress = () => Math.floor(at(state.r, state.k) / PIECE) * PIECE;

    function coreMatrix() {
      return sums.coreMatrix(state.r, state.k, state.major, shown.itemBytes);
    }

    function coreAddresses() {
      return coreMatrix().map(([r, k]) => at(r, k));
    }

    function turns(count) {
      return count === 1 ? "one turn, no conflict" : `${count} turns, a conflict`;
    }

    // The elements of a box, by the first one.
    function boxed(r, k) {
      const last = PIECE / shown.itemBytes - 1;
      return state.major === "K" ? `row ${r}, k ${k}–${k + last}` : `rows ${r}–${r + last}, k ${k}`;
    }

    function tellElement() {
      const { r, k } = state;
      const before = sums.offset(shown.whole, r, k, state.major, shown.itemBytes);
      const plain = shown.whole.start + before;
      const after = at(r, k);
      const bank = (after >> 2) % 32;
      const core = coreMatrix();
      const [[r0, k0]] = core;
      const items = PIECE / shown.itemBytes;
      const [high, wide] = state.major === "K" ? [8, items] : [items, 8];
      const [taken, needed] = sums.banks(coreAddresses());
      const straight = core.map(([cr, ck]) =>
        shown.whole.start + sums.offset(shown.whole, cr, ck, state.major, shown.itemBytes));
      const [without, more] = sums.banks(straight);
      let words = `Row ${r}, k ${k}: ${before} bytes from the start ${hex(shown.whole.start)}, so ` +
        `${hex(plain)}`;
      words += after === plain
        ? ", which the XOR leaves as it is"
        : `, and ${hex(after)} after the XOR`;
      words += `; bank ${bank}. Its core matrix, rows ${r0}–${r0 + high - 1} and k ${k0}–` +
        `${k0 + wide - 1}, takes ${taken} of 32 banks: ${turns(needed)}.`;
      if (shown.whole.swizzle) words += ` Without the XOR: ${without} banks, ${turns(more)}.`;
      if (shown.strangers.has(pieceAddress())) {
        const kept = shown.held.get(pieceAddress());
        words += ` In this box the chosen tile keeps ${kept ? boxed(...kept) : "nothing"}.`;
      }
      now.textContent = words;
      svg.setAttribute("aria-label", `Shared memory in lines of 128 bytes. ${words}`);
    }

    // ---- what happens ---------------------------------------------------------------------------

    const clamp = (n, last) => Math.max(0, Math.min(last, Number.isFinite(n) ? Math.trunc(n) : 0));

    function follow() {
      const line = Math.floor((at(state.r, state.k) - shown.first) / LINE);
      if (line < state.from || line >= state.from + measure.lines) {
        // Eight lines are a swizzle atom: begin with one, not inside it.
        state.from = Math.max(0, line - (line % 8));
      }
      state.from = clamp(state.from, Math.max(0, shown.lines - measure.lines));
    }

    function showElement() {
      control("r").value = state.r;
      control("k").value = state.k;
      const from = control("from");
      from.value = state.from;
      from.setAttribute("aria-valuetext", `from ${hex(shown.first + state.from * LINE)}`);
      draw();
      tellElement();
    }

    function go(r, k) {
      state.r = clamp(r, state.rows - 1);
      state.k = clamp(k, shown.depth - 1);
      follow();
      showElement();
    }

    function update() {
      if (state.major === "MN") state.bits = 16;
      const unit = rowUnit();
      const possible = [];
      for (const option of control("rows").options) {
        const fits = state.pasted !== null || Number(option.value) % unit === 0;
        offer(option, fits ? "" : `a span is ${unit} rows`);
        if (fits) possible.push(Number(option.value));
      }
      if (!possible.includes(state.rows)) state.rows = possible.find((n) => n >= state.rows);
      for (const option of control("bits").options) {
        offer(option, state.major === "MN" && option.value !== "16" ? "K-major only" : "");
      }
      const steps = state.major === "K" && state.swizzle ? state.swizzle / 32 : 4;
      const last = steps - (state.major === "K" && state.swizzle ? 0 : 1);
      state.step = Math.min(state.step, last);
      const options = [];
      for (let step = 0; step <= last; step += 1) {
        const option = element("option", step === steps ? `${step}, too far` : String(step));
        option.value = step;
        options.push(option);
      }
      control("step").replaceChildren(...options);
      shown = work();
      for (const name of ["bits", "major", "swizzle", "rows", "step"]) control(name).value = state[name];
      const pasted = state.pasted !== null;
      for (const name of ["start", "step"]) control(name).disabled = pasted;
      control("clear").hidden = control("value").value.trim() === "";
      control("value").setAttribute("aria-invalid", String(state.refused !== ""));
      control("start").setAttribute("aria-invalid", String(!pasted && state.startRefused !== ""));
      control("r").max = state.rows - 1;
      control("k").max = shown.depth - 1;
      control("from").max = Math.max(0, shown.lines - measure.lines);
      control("from").parentElement.hidden = shown.lines <= measure.lines;
      tellBits();
      go(state.r, state.k);
    }

    function paste() {
      const typed = control("value").value.trim();
      if (typed === lastPasted) return;
      lastPasted = typed;
      if (typed !== "" && sums.parse(typed) === null) {
        // What is shown stays.
        state.refused = `${typed}: not a whole number; write it like 0x4000004000010040. ` +
          "The drawing has not changed.";
      } else {
        const pasted = typed === "" ? null : typed;
        if (pasted !== state.pasted) Object.assign(state, { pasted, r: 0, k: 0, from: 0 });
        state.refused = "";
      }
      update();
    }

    function choose(event) {
      const group = event.target.closest("[data-address]");
      const places = group && shown.placed.get(Number(group.dataset.address));
      if (!places) return;
      const [[r, k]] = places;
      const edges = group.getBoundingClientRect();
      const across = (event.clientX - edges.left) / edges.width;
      const item = clamp(across * (PIECE / shown.itemBytes), PIECE / shown.itemBytes - 1);
      const [toR, toK] = state.major === "K" ? [r, k + item] : [r + item, k];
      if (toR !== state.r || toK !== state.k) go(toR, toK);
    }

    for (const name of ["bits", "major", "swizzle", "rows", "step"]) {
      control(name).addEventListener("change", () => {
        const { value } = control(name);
        state[name] = name === "major" ? value : Number(value);
        if (name === "step") toStep();
        update();
      });
    }
    control("start").addEventListener("change", () => {
      const typed = control("start").value.trim();
      const start = sums.parse(typed);
      if (start === null || start < 0n || start % 16n || start >> 18n) {
        state.startRefused = `start=${typed}: a descriptor holds multiples of 16 below 262144; ` +
          "pass the tile's shared address in bytes. The drawing has not changed.";
      } else {
        Object.assign(state, { start: Number(start), startRefused: "", from: 0 });
      }
      update();
    });
    for (const name of ["change", "input"]) control("value").addEventListener(name, paste);
    control("clear").addEventListener("click", () => {
      control("value").value = "";
      paste();
      control("value").focus();
    });
    for (const name of ["r", "k"]) {
      control(name).addEventListener("change", () => {
        go(Number(control("r").value), Number(control("k").value));
      });
    }
    control("from").addEventListener("input", () => {
      state.from = Number(control("from").value);
      showElement();
    });
    drawing.addEventListener("keydown", (event) => {
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      const { r, k } = state;
      const moves = {
        ArrowRight: [r, k + 1], ArrowLeft: [r, k - 1], ArrowDown: [r + 1, k], ArrowUp: [r - 1, k],
        PageDown: [r + 8, k], PageUp: [r - 8, k], Home: [r, 0], End: [r, shown.depth - 1],
      };
      if (!(event.key in moves)) return;
      event.preventDefault();
      go(...moves[event.key]);
    });
    svg.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse") choose(event);
    });
    svg.addEventListener("click", choose);

    drawing.tabIndex = 0;
    drawing.setAttribute("role", "group");
    drawing.setAttribute("aria-label",
      "Shared memory: arrow keys go along k and rows, Page Up and Page Down eight rows at a time");
    control("value").value = lastPasted;
    toStep();
    for (const part of [find(".wb-explorer-controls"), now]) part.hidden = false;
    update();
  }

  window.hopperDescriptorArithmetic ||= arithmetic;
  window.hopperDescriptorExplorers ||= function () {
    const waiting = "figure.wb-descriptor-explorer:not([data-ready])";
    for (const figure of document.querySelectorAll(waiting)) {
      figure.dataset.ready = "";
      setUp(figure);
    }
  };
  window.hopperDescriptorExplorers();
})();
