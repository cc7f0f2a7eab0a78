// Explorers of fragments: a matrix, a place in it, and the thread and register that hold it.
// A classic script, which each figure carries: the first one defines, every one starts its own.
(function () {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const ZOOM = 8;
  const WIDTH = 420;
  const LABELS = 76; // room for "warp 0" beside the matrix
  const SHOWN = 8; // accumulators of a thread that are listed; they repeat
  const POINT = "Point at a place to read who holds it; click to choose it.";

  // ---- the arithmetic of hopper/fragment.py -----------------------------------------------------

  const div = Math.floor;
  const threadOf = (row, quarter) => 32 * div(row / 16) + 4 * (row % 8) + quarter;
  const lowerOf = (row) => div(row / 8) % 2;

  // Each family: where an element is, and what a thread holds. A place is [thread, register, item].
  const FAMILIES = {
    d32: {
      holder: (kind, row, column) => [
        threadOf(row, div((column % 8) / 2)),
        4 * div(column / 8) + 2 * lowerOf(row) + (column % 2),
        0,
      ],
      heldBy: (kind, thread, register) => [
        16 * div(thread / 32) + 8 * (div(register / 2) % 2) + div((thread % 32) / 4),
        8 * div(register / 4) + 2 * (thread % 4) + (register % 2),
      ],
      registers: (kind, columns) => columns / 2,
    },
    d16: {
      holder(kind, row, column) {
        const [thread, place] = FAMILIES.d32.holder(kind, row, column);
        return [thread, div(place / 2), place % 2];
      },
      heldBy: (kind, thread, register, item) =>
        FAMILIES.d32.heldBy(kind, thread, 2 * register + item),
      registers: (kind, columns) => columns / 4,
    },
    a: {
      holder(kind, row, k) {
        const piece = 4 * kind.items; // elements of 16 bytes
        return [
          threadOf(row, div((k % piece) / kind.items)),
          2 * div(k / piece) + lowerOf(row),
          k % kind.items,
        ];
      },
      heldBy: (kind, thread, register, item) => [
        16 * div(thread / 32) + 8 * (register % 2) + div((thread % 32) / 4),
        4 * kind.items * div(register / 2) + kind.items * (thread % 4) + item,
      ],
      registers: () => 4,
    },
    b: {
      holder(kind, k, column) {
        const piece = 4 * kind.items;
        return [4 * column + div((k % piece) / kind.items), div(k / piece), k % kind.items];
      },
      heldBy: (kind, lane, register, item) => [
        4 * kind.items * register + kind.items * (lane % 4) + item,
        div(lane / 4),
      ],
      registers: () => 2,
    },
    matrix: {
      holder: (kind, row, column) => [4 * row + div(column / 2), 0, column % 2],
      heldBy: (kind, lane, register, item) => [div(lane / 4), 2 * (lane % 4) + item],
      registers: () => 1,
    },
    matrix_trans: {
      holder: (kind, row, column) => FAMILIES.matrix.holder(kind, column, row),
      heldBy: (kind, lane, register, item) =>
        FAMILIES.matrix.heldBy(kind, lane, register, item).reverse(),
      registers: () => 1,
    },
  };

  const holder = (kind, row, column) => FAMILIES[kind.family].holder(kind, row, column);
  const heldBy = (kind, thread, register, item) =>
    FAMILIES[kind.family].heldBy(kind, thread, register, item);
  const columnsOf = (kind, n) => kind.columns || n;

  // Every place that a thread holds: [row, column, register, item].
  function placesOf(kind, n, thread) {
    const found = [];
    const registers = FAMILIES[kind.family].registers(kind, columnsOf(kind, n));
    for (let register = 0; register < registers; register++) {
      for (let item = 0; item < kind.items; item++) {
        found.push([...heldBy(kind, thread, register, item), register, item]);
      }
    }
    return found;
  }

  // The formulas with the numbers put in.
  function formulas(kind, row, column) {
    const [thread, register, item] = holder(kind, row, column);
    const lane = thread % 32;
    const lines = [];
    const { items } = kind;
    if (kind.family === "b" || kind.family.startsWith("matrix")) {
      const matrix = kind.family !== "b";
      const turned = kind.family === "matrix_trans";
      const [major, minor] = matrix && !turned ? [row, column] : [column, row];
      const piece = matrix ? 8 : 4 * items;
      const along = matrix ? String(minor) : `(${minor} mod ${piece})`;
      lines.push(
        `lane = 4 · ${major} + ⌊${along} / ${items}⌋ = ` +
          `${4 * major} + ${div((minor % piece) / items)} = ${lane}`,
      );
      if (!matrix) lines.push(`register = ⌊${minor} / ${piece}⌋ = ${register}`);
      lines.push(`element of the register = ${minor} mod ${items} = ${item}`);
      return lines;
    }
    const isA = kind.family === "a";
    const piece = isA ? 4 * items : 8;
    const each = isA ? items : 2;
    if (kind.threads > 32) lines.push(`warp = ⌊${row} / 16⌋ = ${div(row / 16)}`);
    lines.push(
      `lane = 4 · (${row} mod 8) + ⌊(${column} mod ${piece}) / ${each}⌋ = ` +
        `${4 * (row % 8)} + ${div((column % piece) / each)} = ${lane}`,
    );
    const lower = `⌊(${row} mod 16) / 8⌋`;
    if (isA) {
      lines.push(
        `register = 2 · ⌊${column} / ${piece}⌋ + ${lower} = ` +
          `${2 * div(column / piece)} + ${lowerOf(row)} = ${register}`,
      );
    } else if (kind.family === "d16") {
      lines.push(
        `register = 2 · ⌊${column} / 8⌋ + ${lower} = ` +
          `${2 * div(column / 8)} + ${lowerOf(row)} = ${register}`,
      );
    } else {
      lines.push(
        `register = 4 · ⌊${column} / 8⌋ + 2 · ${lower} + ${column} mod 2 = ` +
          `${4 * div(column / 8)} + ${2 * lowerOf(row)} + ${column % 2} = ${register}`,
      );
    }
    if (items > 1) lines.push(`element of the register = ${column} mod ${items} = ${item}`);
    return lines;
  }

  function bits(kind, item) {
    const width = 32 / kind.items;
    return `bits ${item * width}–${(item + 1) * width - 1}`;
  }

  function told(kind, row, column) {
    const [thread, register, item] = holder(kind, row, column);
    const who =
      kind.threads > 32
        ? `warp ${div(thread / 32)}, lane ${thread % 32} (thread ${thread})`
        : `lane ${thread}`;
    const where = kind.items > 1 ? `, ${bits(kind, item)}` : "";
    return `(${row}, ${column}) of ${kind.matrix}: ${who}, register ${register}${where}.`;
  }

  // ---- one figure -------------------------------------------------------------------------------

  function element(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function setUp(figure) {
    const find = (selector) => figure.querySelector(selector);
    const data = JSON.parse(find(".wb-explorer-data").textContent);
    const controls = find(".wb-explorer-controls");
    const [kindSelect, nSelect, threadInput] = ["kind", "n", "thread"].map((name) =>
      controls.querySelector(`[name="${name}"]`),
    );
    const now = find(".wb-explorer-now");
    const svg = find(".wb-explorer-drawing svg");
    const note = find(".wb-fragment-note");
    const under = find(".wb-fragment-under");
    const zoom = find(".wb-fragment-zoom");
    const formula = find(".wb-fragment-formula");
    const holds = find(".wb-fragment-holds");
    let kind = data.kinds.d32;
    // What the reader asked for. A kind may have fewer threads or fewer N, and shows the nearest.
    const wanted = { thread: data.thread, n: data.n };
    let n = data.n;
    let row = 0;
    let column = 0;
    let scale = { left: LABELS, top: 8, x: 1, y: 1 };
    const rows = () => kind.rows;
    const columns = () => columnsOf(kind, n);

    // Where the pointer is, in the whole; it lies over the drawing and is only moved.
    const pointed = element("rect", { class: "wb-fragment-pointed", visibility: "hidden" });

    function drawWhole(thread) {
      const x = Math.min((WIDTH - LABELS - 14) / columns(), 24);
      const y = Math.max(3, Math.min(x, 240 / rows()));
      scale = { left: LABELS, top: 8, x, y };
      const height = 8 + rows() * y + 10;
      svg.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
      svg.setAttribute(
        "aria-label",
        `${kind.matrix}, ${rows()} rows and ${columns()} columns; the places of thread ${thread} ` +
          "are filled.",
      );
      const whole = { class: "wb-fragment-paper", width: WIDTH, height, rx: 10 };
      const parts = [element("rect", whole)];
      const bands = Math.max(1, rows() / 16);
      for (let warp = 0; warp < bands; warp++) {
        const tall = (rows() / bands) * y;
        const top = scale.top + warp * tall;
        parts.push(
          element("rect", {
            class: `wb-fragment-band wb-fragment-band-${warp}`,
            x: LABELS,
            y: top,
            width: columns() * x,
            height: tall,
          }),
          element(
            "text",
            { class: "wb-fragment-label", x: LABELS - 10, y: top + tall / 2 + 5 },
            kind.threads > 32 ? `warp ${warp}` : "a warp",
          ),
        );
      }
      // Around the piece, and under the marks: it must hide none of them.
      const [pieceTop, pieceLeft] = corner();
      parts.push(
        element("rect", {
          class: "wb-fragment-frame",
          x: LABELS + pieceLeft * x - 1,
          y: scale.top + pieceTop * y - 1,
          width: ZOOM * x + 2,
          height: ZOOM * y + 2,
        }),
      );
      for (const [i, j] of placesOf(kind, n, thread)) {
        parts.push(
          element("rect", {
            class: "wb-fragment-mine",
            x: LABELS + j * x,
            y: scale.top + i * y,
            width: Math.max(x, 1.6),
            height: y,
          }),
        );
      }
      svg.replaceChildren(...parts, pointed);
    }

    // The piece as an ARIA grid, made once; its cells are filled in anew.
    const cells = [];
    const heads = { row: [], column: [] };
    function makeZoom() {
      const made = (role, text) => {
        const cell = document.createElement("div");
        cell.setAttribute("role", role);
        if (text !== undefined) cell.textContent = text;
        return cell;
      };
      zoom.setAttribute("role", "grid");
      const first = made("row");
      first.append(made("columnheader", "row"));
      for (let j = 0; j < ZOOM; j++) {
        heads.column.push(made("columnheader"));
        first.append(heads.column[j]);
      }
      zoom.append(first);
      for (let i = 0; i < ZOOM; i++) {
        const line = made("row");
        heads.row.push(made("rowheader"));
        line.append(heads.row[i]);
        for (let j = 0; j < ZOOM; j++) {
          const cell = made("gridcell");
          cell.append(document.createElement("b"), document.createElement("span"));
          cells.push(cell);
          line.append(cell);
        }
        zoom.append(line);
      }
    }

    const corner = () => [div(row / ZOOM) * ZOOM, div(column / ZOOM) * ZOOM];

    function drawZoom(thread) {
      const [top, left] = corner();
      zoom.setAttribute("aria-label", `${kind.matrix}: thread and register of each place`);
      zoom.setAttribute("aria-rowcount", rows() + 1);
      zoom.setAttribute("aria-colcount", columns() + 1);
      for (let at = 0; at < ZOOM; at++) {
        heads.row[at].textContent = top + at;
        heads.row[at].parentNode.setAttribute("aria-rowindex", top + at + 2);
        heads.column[at].textContent = left + at;
      }
      cells.forEach((cell, index) => {
        const i = top + div(index / ZOOM);
        const j = left + (index % ZOOM);
        const [who, register, item] = holder(kind, i, j);
        const part = kind.items > 1 ? `.${item}` : "";
        cell.children[0].textContent = `t${who}`;
        cell.children[1].textContent = `r${register}${part}`;
        cell.setAttribute("aria-colindex", j + 2);
        cell.setAttribute("aria-label", told(kind, i, j));
        const chosen = i === row && j === column;
        cell.setAttribute("tabindex", chosen ? "0" : "-1");
        cell.setAttribute("aria-selected", chosen);
        cell.classList.toggle("is-mine", who === thread);
        // A line wherever the next thread begins.
        const before = index % ZOOM ? holder(kind, i, j - 1)[0] : who;
        const above = index >= ZOOM ? holder(kind, i - 1, j)[0] : who;
        cell.classList.toggle("is-next", before !== who);
        cell.classList.toggle("is-below", above !== who);
      });
    }

    function say(text, wrong) {
      now.textContent = text;
      now.classList.toggle("is-wrong", wrong);
      threadInput.setAttribute("aria-invalid", wrong);
    }

    // What is under the pointer has a line of its own: the rest is about the chosen place.
    function tellUnder(place) {
      under.textContent = place ? `Under the pointer: ${told(kind, ...place)}` : POINT;
      pointed.setAttribute("visibility", place ? "visible" : "hidden");
      if (!place) return;
      const [i, j] = place;
      const [wide, tall] = [Math.max(scale.x, 3), Math.max(scale.y, 3)];
      pointed.setAttribute("x", scale.left + (j + 0.5) * scale.x - wide / 2);
      pointed.setAttribute("y", scale.top + (i + 0.5) * scale.y - tall / 2);
      pointed.setAttribute("width", wide);
      pointed.setAttribute("height", tall);
    }

    function drawNote(thread) {
      const said = [];
      if (!kind.columns && kind.sizes) {
        said.push(kind.note);
        if (n !== wanted.n) said.push(`There is no N = ${wanted.n}: shown is ${n}.`);
      }
      if (thread !== wanted.thread) {
        said.push(`A warp has lanes 0 to 31: thread ${wanted.thread} is lane ${thread} of its own.`);
      }
      note.textContent = said.join(" ");
      note.hidden = !said.length;
    }

    function drawWords(thread) {
      say(told(kind, row, column), false);
      formula.replaceChildren(
        ...formulas(kind, row, column).map((line) => {
          const item = document.createElement("li");
          item.textContent = line;
          return item;
        }),
      );
      const places = placesOf(kind, n, thread);
      const repeats = kind.family.startsWith("d") && places.length > SHOWN;
      const listed = places.slice(0, repeats ? SHOWN : places.length).map(([i, j, register, item]) => {
        const part = kind.items > 1 ? `.${item}` : "";
        return `r${register}${part} (${i}, ${j})`;
      });
      const more = repeats ? ", and so on every 8 columns" : "";
      holds.textContent =
        `Thread ${thread} holds ${places.length} elements: ${listed.join(", ")}${more}.`;
    }

    function draw() {
      const [thread] = holder(kind, row, column);
      threadInput.value = thread;
      drawWhole(thread);
      drawZoom(thread);
      drawNote(thread);
      drawWords(thread);
      tellUnder(null);
    }

    function go(toRow, toColumn, focus) {
      row = Math.max(0, Math.min(rows() - 1, toRow));
      column = Math.max(0, Math.min(columns() - 1, toColumn));
      wanted.thread = holder(kind, row, column)[0];
      draw();
      if (focus) cells.find((cell) => cell.tabIndex === 0).focus({ preventScroll: true });
    }

    // Another instruction or another N: the thread stays, and the place, if it still is the thread's.
    function keepThread() {
      n = Math.max(...(kind.sizes || [wanted.n]).filter((size) => size <= wanted.n));
      nSelect.value = n;
      const thread = wanted.thread % kind.threads;
      if (column >= columns()) column = columns() - ZOOM + (column % ZOOM);
      if (row >= rows() || holder(kind, row, column)[0] !== thread) {
        [row, column] = heldBy(kind, thread, 0, 0);
      }
      draw();
    }

    kindSelect.addEventListener("change", () => {
      kind = data.kinds[kindSelect.value];
      const free = !kind.columns;
      nSelect.disabled = !free;
      nSelect.parentNode.hidden = !free;
      threadInput.max = kind.threads - 1;
      for (const option of nSelect.options) {
        option.disabled = !!kind.sizes && !kind.sizes.includes(Number(option.value));
      }
      keepThread();
    });
    nSelect.addEventListener("change", () => {
      wanted.n = Number(nSelect.value);
      keepThread();
    });

    // Digits only: Number("") is 0, and "3.0" or "1e1" is no way to name a thread.
    const typed = () => (/^\d+$/.test(threadInput.value) ? Number(threadInput.value) : NaN);
    threadInput.addEventListener("input", () => {
      const thread = typed();
      if (thread < kind.threads) {
        go(...heldBy(kind, thread, 0, 0));
        return;
      }
      const given = threadInput.value === "" ? "Which thread?" : `There is no thread ${threadInput.value}.`;
      const [stays] = holder(kind, row, column);
      say(`${given} Whole numbers from 0 to ${kind.threads - 1}; thread ${stays} stays.`, true);
    });
    // Left with something else in it, the field shows the thread that stayed.
    threadInput.addEventListener("change", () => {
      const [thread] = holder(kind, row, column);
      if (typed() === thread) return;
      threadInput.value = thread;
      threadInput.setAttribute("aria-invalid", false);
    });

    zoom.addEventListener("click", (event) => {
      const index = cells.indexOf(event.target.closest('[role="gridcell"]'));
      if (index < 0) return;
      const [top, left] = corner();
      go(top + div(index / ZOOM), left + (index % ZOOM), true);
    });
    zoom.addEventListener("keydown", (event) => {
      if (event.altKey || event.metaKey) return;
      const far = event.ctrlKey;
      const to = {
        ArrowUp: [row - 1, column],
        ArrowDown: [row + 1, column],
        ArrowLeft: [row, column - 1],
        ArrowRight: [row, column + 1],
        PageUp: [row - ZOOM, column],
        PageDown: [row + ZOOM, column],
        Home: [far ? 0 : row, 0],
        End: [far ? rows() - 1 : row, columns() - 1],
      }[event.key];
      if (!to) return;
      go(...to, true);
      event.preventDefault();
    });

    function placeAt(event) {
      const box = svg.getBoundingClientRect();
      const unit = WIDTH / box.width;
      const i = div(((event.clientY - box.top) * unit - scale.top) / scale.y);
      const j = div(((event.clientX - box.left) * unit - scale.left) / scale.x);
      return { place: [i, j], inside: i >= 0 && i < rows() && j >= 0 && j < columns() };
    }
    svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "touch") svg.setPointerCapture(event.pointerId);
      const { place, inside } = placeAt(event);
      if (inside) go(...place);
    });
    svg.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch") return;
      const { place, inside } = placeAt(event);
      if (event.buttons === 1) go(...place);
      else tellUnder(inside ? place : null);
    });
    zoom.addEventListener("pointerover", (event) => {
      const index = cells.indexOf(event.target.closest('[role="gridcell"]'));
      if (event.pointerType === "touch" || index < 0) return;
      const [top, left] = corner();
      tellUnder([top + div(index / ZOOM), left + (index % ZOOM)]);
    });
    for (const part of [svg, zoom]) part.addEventListener("pointerleave", () => tellUnder(null));

    makeZoom();
    for (const part of [controls, now, under, zoom, formula, holds]) part.hidden = false;
    go(...heldBy(kind, data.thread, 0, 0));
  }

  window.hopperFragments ||= { holder, heldBy, formulas, placesOf };
  window.hopperFragmentExplorers ||= function () {
    const fresh = "figure.wb-fragment-explorer:not([data-ready])";
    for (const figure of document.querySelectorAll(fresh)) {
      figure.dataset.ready = "";
      setUp(figure);
    }
  };
  window.hopperFragmentExplorers();
})();
