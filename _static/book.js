// Small repairs and additions that need a browser. A classic script: it also runs from a folder.
(function () {
  "use strict";

  // A region that scrolls must be reachable by keyboard (WCAG 2.1.1).
  function makeScrollableReachable() {
    const wide = "pre, .pst-scrollable-table-container, .cell_output > .output, .book-scroll, " +
      "mjx-container[display]";
    for (const element of document.querySelectorAll(wide)) {
      if (element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight) {
        element.tabIndex = 0;
      }
    }
  }

  // How old a recording is depends on today, so the built page holds the date alone.
  function tellAges() {
    const day = 24 * 60 * 60 * 1000;
    for (const element of document.querySelectorAll("time.age[datetime]")) {
      const days = Math.floor((Date.now() - Date.parse(element.dateTime)) / day);
      if (days >= 0) {
        element.textContent += days === 0 ? " (today)" : ` (${days} day${days === 1 ? "" : "s"} ago)`;
      }
    }
  }

  // A summary of each hit is fetched from its page, which a browser forbids to pages on disk.
  if (location.protocol === "file:") {
    DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
  }

  addEventListener("DOMContentLoaded", tellAges);
  addEventListener("load", makeScrollableReachable);
  addEventListener("resize", makeScrollableReachable);
})();
