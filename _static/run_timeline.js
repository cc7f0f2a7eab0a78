// Timelines of emulated runs: controls, a place in time, and words for what is pointed at.
// A classic script, which each figure carries: the first one defines, every one starts its own.
(function () {
  "use strict";

  const PLAY_MS = 700;
  const SVG = "http://www.w3.org/2000/svg";

  function element(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function setUp(figure) {
    const find = (selector) => figure.querySelector(selector);
    const data = JSON.parse(find(".wb-run-data").textContent);
    const scroll = find(".wb-run-scroll");
    const svg = scroll.querySelector("svg");
    const play = find(".wb-run-play");
    const back = find(".wb-run-back");
    const forward = find(".wb-run-forward");
    const scrub = find(".wb-run-scrub");
    const now = find(".wb-run-now");
    const states = find(".wb-run-states");
    const labels = svg.querySelector(".wb-run-labels");
    const items = [...svg.querySelectorAll(".wb-run-item")].map((node) => ({
      node,
      lane: Number(node.dataset.lane),
      begin: Number(node.dataset.begin),
      end: Number(node.dataset.end),
    }));
    items.sort((a, b) => a.lane - b.lane || a.begin - b.begin || a.end - b.end);
    const last = data.moments.length - 1;
    const cells = [];
    let moment = 0;
    let timer = 0;

    function tell(words, source) {
      now.replaceChildren(words);
      if (source) {
        const code = document.createElement("code");
        code.textContent = source;
        now.append(code);
      }
    }

    function tellMoment() {
      const [step, words, source] = data.moments[moment];
      tell(`Step ${step}. ${words}`, source);
      now.classList.toggle("is-broken", data.broken.includes(moment));
    }

    function follow() {
      const x = data.places[moment] - scroll.scrollLeft;
      if (x < 0.1 * scroll.clientWidth || x > 0.8 * scroll.clientWidth) {
        scroll.scrollLeft = data.places[moment] - 0.35 * scroll.clientWidth;
      }
    }

    function go(where) {
      moment = Math.max(0, Math.min(last, where));
      const [step, words] = data.moments[moment];
      scrub.value = moment;
      scrub.setAttribute("aria-valuetext", `Step ${step}. ${words}`);
      back.setAttribute("aria-disabled", moment === 0);
      forward.setAttribute("aria-disabled", moment === last);
      head.setAttribute("transform", `translate(${data.places[moment]} 0)`);
      for (const { node, begin, end } of items) {
        node.classList.toggle("is-now", begin <= moment && moment < end);
      }
      states.caption.textContent = `State from step ${step} on`;
      data.lanes.forEach(([, changes], lane) => {
        let words = "";
        for (const [from, is] of changes) if (from <= moment) words = is;
        cells[lane].textContent = words;
      });
      tellMoment();
      follow();
    }

    function pause() {
      clearInterval(timer);
      timer = 0;
      play.textContent = "Play";
      now.setAttribute("aria-live", "polite");
    }

    function toggle() {
      if (timer) return pause();
      now.setAttribute("aria-live", "off"); // a voice could not keep up
      play.textContent = "Pause";
      if (moment === last) go(0);
      timer = setInterval(() => {
        go(moment + 1);
        if (moment === last || !figure.isConnected) pause();
      }, PLAY_MS);
    }

    function step(by) {
      pause();
      go(moment + by);
    }

    function nearest(x) {
      let best = 0;
      data.places.forEach((place, i) => {
        if (place <= x + 1) best = i;
      });
      return best;
    }

    function rove(item) {
      for (const other of items) other.node.setAttribute("tabindex", "-1");
      item.node.setAttribute("tabindex", "0");
    }

    function neighbour(item, key) {
      const row = items.filter((other) => other.lane === item.lane);
      const place = row.indexOf(item);
      if (key === "ArrowRight") return row[place + 1];
      if (key === "ArrowLeft") return row[place - 1];
      if (key === "Home") return row[0];
      if (key === "End") return row[row.length - 1];
      const lanes = [...new Set(items.map((other) => other.lane))];
      const lane = lanes[lanes.indexOf(item.lane) + (key === "ArrowDown" ? 1 : -1)];
      const there = items.filter((other) => other.lane === lane);
      return there.filter((other) => other.begin < item.end).pop() || there[0];
    }

    function say(node) {
      tell(node.getAttribute("aria-label"), node.dataset.source);
    }

    // What is a picture without a script is a group of things with it.
    svg.setAttribute("role", "group");
    for (const { node } of items) {
      node.setAttribute("role", "img");
      node.setAttribute("tabindex", "-1");
    }
    if (items.length) rove(items.find((item) => item.lane === 0) || items[0]);
    const head = element("g", {});
    head.append(
      element("line", { class: "wb-run-head", x1: 0, x2: 0, y1: 40, y2: svg.height.baseVal.value }),
      element("path", { class: "wb-run-head-grip", d: "M-6 38 H6 L0 50 Z" }),
    );
    svg.insertBefore(head, labels);

    states.createCaption();
    const body = states.createTBody();
    for (const [label] of data.lanes) {
      const row = body.insertRow();
      const name = document.createElement("th");
      name.scope = "row";
      name.textContent = label;
      row.append(name);
      cells.push(row.insertCell());
    }

    scrub.max = last;
    play.addEventListener("click", toggle);
    back.addEventListener("click", () => step(-1));
    forward.addEventListener("click", () => step(1));
    scrub.addEventListener("input", () => {
      pause();
      go(Number(scrub.value));
    });
    find(".wb-run-controls").addEventListener("keydown", (event) => {
      const onRange = event.target === scrub;
      const moves = {
        ArrowLeft: moment - 1,
        ArrowRight: moment + 1,
        Home: 0,
        End: last,
      };
      if (event.key === " " && onRange) toggle();
      else if (event.key in moves && !onRange && !event.altKey && !event.ctrlKey && !event.metaKey) {
        pause();
        go(moves[event.key]);
      } else return;
      event.preventDefault();
    });

    svg.addEventListener("keydown", (event) => {
      const item = items.find((other) => other.node === event.target);
      if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "Enter") {
        pause();
        go(item.begin);
        say(item.node);
      } else if (event.key === " ") toggle();
      else if (/^(Arrow|Home$|End$)/.test(event.key)) {
        const next = neighbour(item, event.key);
        if (next) {
          rove(next);
          next.node.focus();
        }
      } else return;
      event.preventDefault();
    });
    // Not on the svg: Chromium lets Tab stop at a drawing that listens for focus.
    scroll.addEventListener("focusin", (event) => {
      const node = event.target.closest(".wb-run-item");
      if (node) say(node);
    });
    svg.addEventListener("pointerover", (event) => {
      const node = event.target.closest(".wb-run-item");
      if (node && !timer) say(node);
    });
    svg.addEventListener("pointerleave", () => {
      if (!timer && !svg.contains(document.activeElement)) tellMoment();
    });
    svg.addEventListener("click", (event) => {
      const node = event.target.closest(".wb-run-item");
      pause();
      go(nearest(event.clientX - svg.getBoundingClientRect().left));
      if (node) {
        rove(items.find((item) => item.node === node));
        say(node);
      }
    });
    scroll.addEventListener("scroll", () => {
      labels.setAttribute("transform", `translate(${scroll.scrollLeft} 0)`);
    });

    for (const part of [find(".wb-run-controls"), now, states]) part.hidden = false;
    go(data.start);
  }

  window.hopperRunTimelines ||= function () {
    for (const figure of document.querySelectorAll("figure.wb-run:not([data-ready])")) {
      figure.dataset.ready = "";
      setUp(figure);
    }
  };
  window.hopperRunTimelines();
})();
