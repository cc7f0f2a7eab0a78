// Steppers of mbarriers: a run's operations, one at a time, and what each barrier then lacks.
// A classic script, which each figure carries: the first one defines, every one starts its own.
(function () {
  "use strict";

  const PACE = 1100; // milliseconds a moment, when it plays
  const DOTS = 8; // arrivals that are drawn one by one

  // ---- the arithmetic of Barrier in hopper/figures/mbarrier_stepper.py --------------------------

  const made = (count) => ({ count, pending: count, tx: 0, phase: 0, waiting: [] });
  const passes = (barrier, parity) => parity !== barrier.phase % 2;

  // Counts arrivals, and bytes announced or (negative) landed. Whether the phase is over.
  function change(barrier, arrivals, bytes) {
    barrier.pending -= arrivals;
    barrier.tx += bytes;
    if (barrier.pending || barrier.tx) return false;
    barrier.phase += 1;
    barrier.pending = barrier.count;
    barrier.waiting = barrier.waiting.filter(([, parity]) => !passes(barrier, parity));
    return true;
  }

  // A moment is [kind, barrier, words, source, amount, bytes, warps].
  function apply(now, [kind, at, , , amount, bytes, warps]) {
    if (kind === "init") now[at] = made(amount);
    else if (kind === "arrive") change(now[at], amount, bytes);
    else if (kind === "land") change(now[at], 0, -bytes);
    else if (kind === "wait") now[at].waiting.push(...warps.map((warp) => [warp, amount]));
  }

  function replay(story) {
    const now = story.barriers.map(() => null);
    return story.moments.map((moment) => {
      apply(now, moment);
      return structuredClone(now);
    });
  }

  // ---- words ------------------------------------------------------------------------------------

  function ranges(numbers) {
    const sorted = [...new Set(numbers)].sort((a, b) => a - b);
    const parts = [];
    for (const number of sorted) {
      const last = parts[parts.length - 1];
      if (last && number === last[1] + 1) last[1] = number;
      else parts.push([number, number]);
    }
    return parts.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
  }

  function waiting(barrier) {
    if (!barrier.waiting.length) return "nobody";
    return [0, 1]
      .map((parity) => [parity, barrier.waiting.filter(([, p]) => p === parity).map(([w]) => w)])
      .filter(([, warps]) => warps.length)
      .map(([parity, warps]) => {
        return `${warps.length > 1 ? "warps" : "warp"} ${ranges(warps)}, for parity ${parity}`;
      })
      .join("; ");
  }

  const grouped = (number) => number.toLocaleString("en-US").replace("-", "−");

  // ---- one figure -------------------------------------------------------------------------------

  function element(name, className, text) {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function line(label, content, changed) {
    const row = element("div", "wb-mbarrier-line");
    row.append(element("dt", "", label));
    const told = element("dd", changed ? "is-changed" : "");
    told.append(...content);
    row.append(told);
    return row;
  }

  function dots(barrier) {
    if (barrier.count > DOTS) return [];
    const shown = element("span", "wb-mbarrier-dots");
    shown.setAttribute("aria-hidden", "true");
    for (let i = 0; i < barrier.count; i++) {
      shown.append(element("i", i < barrier.count - barrier.pending ? "is-here" : ""));
    }
    return [shown];
  }

  function card(name, barrier, before, touched) {
    const box = element("div", "wb-mbarrier-card");
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", name);
    box.append(element("p", "wb-mbarrier-name", name));
    box.classList.toggle("is-touched", touched);
    if (!barrier) {
      box.classList.add("is-empty");
      box.append(element("p", "", "not initialised"));
      return box;
    }
    const was = (key) => !before || before[key] !== barrier[key];
    const list = element("dl");
    list.append(
      line("phase", [`${barrier.phase}, parity ${barrier.phase % 2}`], was("phase")),
      line(
        "arrivals missing",
        [`${barrier.pending} of ${barrier.count}`, ...dots(barrier)],
        was("pending"),
      ),
      line("bytes missing", [grouped(barrier.tx)], was("tx")),
      line("waiting", [waiting(barrier)], waiting(before || { waiting: [] }) !== waiting(barrier)),
    );
    box.append(list);
    for (const parity of [0, 1]) {
      const goes = passes(barrier, parity);
      const told = element("p", `wb-mbarrier-wait ${goes ? "goes" : "stays"}`);
      told.append(element("b", "", `wait for parity ${parity}`), goes ? "✓ goes on" : "✗ waits");
      box.append(told);
    }
    return box;
  }

  // Each moment and the barrier that it concerns, as _rows in mbarrier_stepper.py has it.
  function rows(story, states) {
    return story.moments.map(([, at, words], index) => {
      const barrier = at < 0 ? null : states[index][at];
      if (!barrier) return [words, "", "", "", ""];
      const who = barrier.waiting.map(([warp, parity]) => `warp ${warp} (parity ${parity})`);
      return [
        words,
        `${story.barriers[at]}: ${barrier.phase}`,
        `${barrier.pending} of ${barrier.count}`,
        grouped(barrier.tx),
        who.join(", ") || "nobody",
      ];
    });
  }

  function setUp(figure) {
    const find = (selector) => figure.querySelector(selector);
    const data = JSON.parse(find(".wb-explorer-data").textContent);
    const controls = find(".wb-explorer-controls");
    const control = (name) => controls.querySelector(`[name=${name}]`);
    const now = find(".wb-explorer-now");
    const cards = find(".wb-mbarrier-cards");
    const chooser = control("story");
    const range = control("moment");
    const table = find(".wb-mbarrier-table");
    const play = control("play");
    let story;
    let states;
    let at = 0;
    let timer = 0;

    function draw() {
      const [kind, barrier, words, source] = story.moments[at];
      now.replaceChildren(element("b", "", `${at + 1} of ${story.moments.length}. `), words);
      now.classList.toggle("is-wrong", kind === "end");
      const [place, ...code] = source.split(": ");
      if (code.length) now.append(element("code", "", code.join(": ")));
      else if (place) now.append(element("code", "", place));
      cards.replaceChildren(
        ...story.barriers.map((name, index) =>
          card(name, states[at][index], at ? states[at - 1][index] : null, index === barrier),
        ),
      );
      range.value = at;
      range.setAttribute("aria-valuetext", `${at + 1} of ${story.moments.length}`);
      control("back").disabled = at === 0;
      control("forward").disabled = at === story.moments.length - 1;
      figure.dataset.moment = at;
    }

    function stop() {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
    }

    function go(to) {
      at = Math.max(0, Math.min(story.moments.length - 1, to));
      if (timer && at === story.moments.length - 1) stop();
      draw();
    }

    function choose(key) {
      stop();
      story = data.stories[key];
      states = replay(story);
      range.max = story.moments.length - 1;
      const label = `${story.name}, as a table`;
      figure.querySelector("details summary").textContent = label;
      table.setAttribute("aria-label", label);
      table.querySelector("tbody").replaceChildren(
        ...rows(story, states).map((cells) => {
          const row = element("tr");
          row.append(...cells.map((cell) => element("td", "", cell)));
          return row;
        }),
      );
      go(0);
    }

    control("back").addEventListener("click", () => (stop(), go(at - 1)));
    control("forward").addEventListener("click", () => (stop(), go(at + 1)));
    range.addEventListener("input", () => (stop(), go(Number(range.value))));
    chooser.addEventListener("change", () => choose(chooser.value));
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (at === story.moments.length - 1) go(0);
      play.textContent = "Pause";
      timer = setInterval(() => (figure.isConnected ? go(at + 1) : stop()), PACE);
    });

    // Buttons and words stay in sight while the barriers are longer than the screen.
    const dock = element("div", "wb-mbarrier-dock");
    cards.after(dock);
    dock.append(controls, now);
    find(".wb-explorer-drawing").hidden = true;
    for (const part of [controls, now, cards]) part.hidden = false;
    choose(chooser.value);
  }

  window.hopperMbarriers ||= { made, passes, change, replay, rows };
  window.hopperMbarrierSteppers ||= function () {
    for (const figure of document.querySelectorAll("figure.wb-mbarrier-stepper:not([data-ready])")) {
      figure.dataset.ready = "";
      setUp(figure);
    }
  };
  window.hopperMbarrierSteppers();
})();
