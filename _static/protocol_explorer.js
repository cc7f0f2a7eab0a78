// The protocol's explorer: a loop of steps, one taken away or two swapped, and what came of it.
// A classic script, which each figure carries: the first one defines, every one starts its own.
(function () {
  "use strict";

  // The name of a change: the keys of its steps, in the loop's order; "" for none.
  function keyOf(steps, keys) {
    return steps
      .map((step) => step.key)
      .filter((key) => keys.includes(key))
      .join(" + ");
  }

  // Keys of a part's steps as they then stand; one that was taken away keeps its place.
  function order(steps, part, keys) {
    const found = steps.filter((step) => step.part === part).map((step) => step.key);
    if (keys.length === 2 && found.includes(keys[0])) {
      const [a, b] = keys.map((key) => found.indexOf(key));
      [found[a], found[b]] = [found[b], found[a]];
    }
    return found;
  }

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function made(name, className, text) {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function setUp(figure) {
    const find = (selector) => figure.querySelector(selector);
    const data = JSON.parse(find(".wb-explorer-data").textContent);
    const now = find(".wb-explorer-now");
    const lists = find(".wb-protocol-lists");
    const verdict = find(".wb-protocol-verdict");
    const stage = find(".wb-protocol-run");
    const away = find("button[name=away]");
    const reset = find("button[name=reset]");
    const steps = data.steps;
    const stepOf = (key) => steps.find((step) => step.key === key);
    let changed = []; // keys of the step that is away, or of the two that are swapped
    let chosen = null;
    let wanted = 0; // the latest timeline asked for

    function say(text, wrong) {
      now.textContent = text;
      now.classList.toggle("is-wrong", wrong);
    }

    // Once for a change: rows that are only marked anew keep the focus.
    function build() {
      const focused = document.activeElement?.closest?.(".wb-protocol-step")?.dataset.key;
      lists.replaceChildren();
      for (const [part, title] of Object.entries(data.parts)) {
        const group = made("div", "wb-protocol-part");
        group.setAttribute("role", "group");
        group.setAttribute("aria-label", title);
        group.append(made("p", "wb-protocol-title", title));
        for (const key of order(steps, part, changed)) group.append(row(stepOf(key)));
        lists.append(group);
      }
      mark();
      const rows = [...lists.querySelectorAll(".wb-protocol-step")];
      const first = rows.find((node) => node.dataset.key === focused) || rows[0];
      rove(first);
      if (focused) first.focus();
    }

    function row(step) {
      const node = made("button", "wb-protocol-step");
      node.type = "button";
      node.dataset.key = step.key;
      node.append(made("span", "wb-protocol-name", step.name), made("code", "", step.code));
      if (changed.includes(step.key)) {
        const gone = changed.length === 1;
        node.classList.add(gone ? "is-away" : "is-swapped");
        node.append(made("span", "wb-protocol-note", gone ? "taken away" : "⇅ swapped"));
      }
      return node;
    }

    function mark() {
      for (const node of lists.querySelectorAll(".wb-protocol-step")) {
        const mine = node.dataset.key === chosen;
        node.setAttribute("aria-pressed", String(mine));
        const step = chosen && stepOf(chosen);
        node.classList.toggle(
          "is-partner",
          Boolean(step) && !mine && stepOf(node.dataset.key).part === step.part,
        );
      }
      away.disabled = !chosen || !(chosen in data.variants);
      reset.disabled = !changed.length && !chosen;
    }

    function rove(node) {
      for (const other of lists.querySelectorAll(".wb-protocol-step")) other.tabIndex = -1;
      node.tabIndex = 0;
    }

    function show() {
      const one = data.variants[keyOf(steps, changed)];
      const kinds = [...new Set(one.broken.map(([kind]) => kind))];
      const wrong = kinds.length > 0 || one.elsewhere.length > 0 || !one.right;
      build();
      const parts = [
        ["The compiler says", one.compiler.length ? "" : "nothing"],
        ["The emulator says", ""],
        ["The H200 returned", one.returned],
      ].map(([title, text]) => {
        const line = made("div", "wb-protocol-line");
        line.append(made("strong", "", title));
        const said = made("div", "", text);
        line.append(said);
        return [line, said];
      });
      for (const [code, text] of one.compiler) {
        parts[0][1].append(made("p", "", `${code}: ${text}`));
      }
      const emulator = parts[1][1];
      if (kinds.length) {
        const list = made("ul");
        for (const [kind, warning, told, code] of one.broken) {
          const item = made("li");
          item.append(made("strong", "", warning ? `${kind}, a warning` : kind), `: ${told}`);
          if (code) item.append(made("code", "", code));
          list.append(item);
        }
        emulator.append(list);
      } else if (one.right) emulator.append("no rule is broken, and the result is right");
      else if (!one.elsewhere.length) emulator.append("no rule is broken, and the result is wrong");
      if (one.elsewhere.length) emulator.append(made("p", "", `[${one.elsewhere.join(", ")}]`));
      verdict.replaceChildren(...parts.map(([line]) => line));
      const compiler = one.compiler.map(([code]) => code).join(", ") || "nothing";
      const all = [...kinds, ...one.elsewhere].join(", ");
      const judged = all || (one.right ? "right" : "a wrong result");
      const hint = changed.length ? "" : " Choose a step, to take it away or to swap it.";
      say(
        `${one.name[0].toUpperCase()}${one.name.slice(1)}. The compiler: ${compiler}. ` +
          `The emulator: ${judged}.${hint}`,
        wrong,
      );
      draw(one);
    }

    async function draw(one) {
      const turn = ++wanted;
      let parts;
      try {
        parts = await unpack(one.timeline);
      } catch (error) {
        stage.replaceChildren(made("p", "", "This browser cannot unpack the timelines."));
        return;
      }
      if (turn !== wanted || !figure.isConnected) return;
      const run = made("figure", "wb-run");
      run.innerHTML = parts.controls;
      const scroll = made("div", "wb-run-scroll");
      scroll.tabIndex = 0;
      scroll.setAttribute("role", "group");
      scroll.setAttribute("aria-label", parts.label);
      scroll.innerHTML = parts.svg;
      const states = made("table", "wb-run-states");
      states.hidden = true;
      const held = made("script", "wb-run-data");
      held.type = "application/json";
      held.textContent = parts.data;
      run.append(scroll);
      run.insertAdjacentHTML("beforeend", parts.letters);
      run.append(states, held);
      stage.replaceChildren(run);
      window.hopperRunTimelines();
      figure.dataset.shown = keyOf(steps, changed);
    }

    function change(keys) {
      changed = keys;
      chosen = null;
      show();
    }

    function choose(key) {
      const before = chosen;
      if (changed.length) {
        changed = [];
        chosen = key;
        show();
      } else if (chosen === key) {
        chosen = null;
        show();
        return;
      } else if (chosen && stepOf(chosen).part === stepOf(key).part) {
        const both = steps.filter((step) => [chosen, key].includes(step.key));
        change(both.map((step) => step.key));
        return;
      } else chosen = key;
      mark();
      const other = before && stepOf(before).name;
      const moved = other ? `${other} is in another list, so these two are not swapped. ` : "";
      const next =
        chosen in data.variants
          ? "Take it away, or choose"
          : "It cannot be taken away, for nothing would be returned. Choose";
      say(
        `Chosen: ${stepOf(key).name}. ${moved}${next} another step of this list to swap the two.`,
        false,
      );
    }

    lists.addEventListener("click", (event) => {
      const node = event.target.closest(".wb-protocol-step");
      if (!node) return;
      rove(node);
      node.focus();
      choose(node.dataset.key);
    });
    lists.addEventListener("keydown", (event) => {
      const node = event.target.closest(".wb-protocol-step");
      if (!node || event.altKey || event.ctrlKey || event.metaKey) return;
      const rows = [...lists.querySelectorAll(".wb-protocol-step")];
      const at = rows.indexOf(node);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
      if (to !== undefined) {
        const next = rows[Math.max(0, Math.min(rows.length - 1, to))];
        rove(next);
        next.focus();
      } else if (event.key === "Delete" || event.key === "Backspace") {
        if (node.dataset.key in data.variants) change([node.dataset.key]);
      } else if (event.key === "Escape") change([]);
      else return;
      event.preventDefault();
    });
    away.addEventListener("click", () => change([chosen]));
    reset.addEventListener("click", () => change([]));

    // Buttons and verdict stay in sight while the lists are longer than the screen.
    const dock = made("div", "wb-protocol-dock");
    now.before(dock);
    dock.append(find(".wb-explorer-controls"), now);
    find(".wb-explorer-drawing").hidden = true;
    for (const part of [find(".wb-explorer-controls"), now, lists, verdict]) part.hidden = false;
    show();
  }

  window.hopperProtocol ||= { keyOf, order, unpack };
  window.hopperProtocolExplorers ||= function () {
    for (const figure of document.querySelectorAll("figure.wb-protocol-explorer:not([data-ready])")) {
      figure.dataset.ready = "";
      setUp(figure);
    }
  };
  window.hopperProtocolExplorers();
})();
