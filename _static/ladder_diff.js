// Any two rungs of the ladder: two selects, and the difference that hopper computed of them.
// A classic script, which the page carries.
(function () {
  "use strict";

  const KINDS = { "+": "wb-add", "-": "wb-del", "~": "wb-gap" };

  function shownLine(mark, number, html) {
    const line = document.createElement("span");
    line.className = "wb-ladder-line";
    line.dataset.number = number;
    const code = document.createElement("span");
    code.innerHTML = html;
    // Changed lines are plain, so that their ink is legible on their ground.
    if (mark !== "=") code.textContent = mark === "~" ? html : mark + code.textContent;
    else code.prepend(" ");
    if (KINDS[mark]) code.className = KINDS[mark];
    line.append(code, "\n");
    return line;
  }

  function setUp(root) {
    const find = (selector) => root.querySelector(selector);
    const data = JSON.parse(find(".wb-explorer-data").textContent);
    const now = find(".wb-explorer-now");
    const shown = find(".wb-ladder-shown");
    const pre = shown.querySelector("pre");
    const before = find("select[name=before]");
    const after = find("select[name=after]");

    function draw() {
      const pair = data.pairs[before.value + " " + after.value];
      pre.replaceChildren();
      for (const [mark, first, count] of pair.runs) {
        const lines = data.lines[mark === "-" ? before.value : after.value];
        for (let at = 0; at < count; at += 1) {
          const [number, html] = mark === "~" ? ["", first] : lines[first + at];
          pre.append(shownLine(mark, number, html));
        }
      }
      pre.setAttribute("aria-label", pair.title);
      pre.scrollLeft = 0;
      now.textContent = pair.title;
    }

    function choose(one, other) {
      before.value = one;
      after.value = other;
      draw();
    }

    // So that the address in the bar names what is shown.
    function name() {
      draw();
      history.replaceState(null, "", "#diff-" + before.value + "-" + after.value);
    }

    // An address may name a pair: #diff-v1_wgmma-v4_two_consumers.
    function follow(address) {
      const [, one, other] = /^#diff-(\w+)-(\w+)$/.exec(address) || [];
      if (!data.pairs[one + " " + other]) return;
      choose(one, other);
      root.scrollIntoView();
    }

    // The same address again is no change of address: a click on a link counts in any case.
    function clicked(event) {
      const link = event.target.closest?.("a[href^='#diff-']");
      if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
        follow(link.getAttribute("href"));
      }
    }

    before.addEventListener("change", name);
    after.addEventListener("change", name);
    find("button[name=swap]").addEventListener("click", () => {
      [before.value, after.value] = [after.value, before.value];
      name();
    });
    document.addEventListener("click", clicked);
    window.addEventListener("hashchange", () => follow(location.hash));
    find(".wb-explorer-controls").hidden = false;
    now.hidden = false;
    shown.hidden = false;
    find(".wb-ladder-steps").hidden = true;
    draw();
    follow(location.hash);
  }

  // Each chooser once, however many of these scripts a page carries.
  for (const root of document.querySelectorAll(".wb-ladder-diff:not([data-started])")) {
    root.dataset.started = "";
    setUp(root);
  }
})();
