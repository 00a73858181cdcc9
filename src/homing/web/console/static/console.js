// Local times, live parts, keys and the choice of rows. Every page can be read without it.
"use strict";
(() => {
  const root = document.documentElement.dataset.root;
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Times: in the reader's zone, with UTC on hover. The server's clock counts, not the browser's.
  let ahead = Number(document.documentElement.dataset.now) - Date.now();
  const parts = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  const exactThisYear = new Intl.DateTimeFormat(undefined, parts);
  const exactAnyYear = new Intl.DateTimeFormat(undefined, { year: "numeric", ...parts });
  const exact = (at) => (at.getFullYear() === new Date().getFullYear() ? exactThisYear : exactAnyYear).format(at);
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  function distance(seconds) {
    const size = Math.abs(seconds);
    const [unit, length] = units.find((each) => size >= each[1]) || ["", 0];
    if (!unit) return "now";
    const text = `${Math.floor(size / length)} ${unit}`;
    return seconds > 0 ? `in ${text}` : `${text} ago`;
  }
  function showTimes(within = document) {
    for (const element of $$("time", within)) {
      const at = new Date(element.dateTime);
      if (isNaN(at)) continue;
      const utc = element.dataset.utc || (element.dataset.utc = element.title);
      if (element.classList.contains("rel")) {
        const text = distance((at - Date.now() - ahead) / 1000);
        if (element.textContent !== text) element.textContent = text;
        element.title = `${exact(at)} (${utc})`;
      } else {
        element.textContent = exact(at);
        element.title = utc;
      }
    }
  }
  showTimes();
  setInterval(() => document.hidden || showTimes(), 5000);

  // The choice of rows.
  const bulk = $("#bulk");
  const chosen = () => $$("input[name=id]:checked").length;
  function showChoice() {
    if (!bulk) return;
    const all = bulk.elements.matching.checked, number = chosen();
    $("#chosen").textContent = all ? "All pages:" : number ? `${number} selected` : "Select rows, or";
    for (const button of $$("button", bulk)) button.disabled = !all && !number;
  }
  if (bulk) {
    const page = $("#choose-page");
    page.hidden = false;
    document.addEventListener("change", (event) => {
      if (event.target === page)
        for (const box of $$("input[name=id]")) box.checked = page.checked;
      showChoice();
    });
    showChoice();
  }

  // Live parts: a tick says that something has changed; the page is read again and compared.
  const busy = (element) =>
    element.contains(document.activeElement) && document.activeElement !== document.body
      && !document.activeElement.matches("a, summary, td, tr");
  const opened = (element) => $("details.action[open], details.menu[open], details.look[open]", element);
  const source = new Map();
  function swap(fresh) {
    for (const element of $$("[data-live]")) {
      const name = element.dataset.live;
      const other = $(`[data-live="${name}"]`, fresh);
      if (!other || other.outerHTML === source.get(name) || busy(element) || opened(element)) continue;
      source.set(name, other.outerHTML);
      const focus = element.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const next = document.importNode(other, true);
      element.replaceWith(next);
      showTimes(next);
      if (focus) $$("a", next).find((each) => each.getAttribute("href") === focus)?.focus();
    }
    const table = $("main > table[data-rows]"), other = $("main > table[data-rows]", fresh);
    if (table && other) swapRows(table.tBodies[0], other.tBodies[0]);
  }
  for (const element of $$("[data-live]")) source.set(element.dataset.live, element.outerHTML);
  // Rows change in place. New ones wait while the pointer, the focus or a choice is in the table.
  function swapRows(body, fresh) {
    const known = new Map($$("tr", body).map((row) => [row.dataset.id, row]));
    const unknown = $$("tr", fresh).filter((row) => !known.has(row.dataset.id));
    const held = body.matches(":hover") || body.contains(document.activeElement) || chosen() > 0;
    for (const row of $$("tr", fresh)) {
      const old = known.get(row.dataset.id);
      if (old) {
        row.cells.length && [...row.cells].forEach((cell, number) => {
          const mine = old.cells[number];
          if (!cell.classList.contains("choose") && !mine.contains(document.activeElement)
            && plain(mine) !== plain(cell)) { mine.innerHTML = cell.innerHTML; showTimes(mine); }
        });
        old.className = row.className;
      }
    }
    const news = $("#news");
    if (!held) {
      const rows = $$("tr", fresh).map((row) => known.get(row.dataset.id) || fade(row));
      body.replaceChildren(...rows);
    }
    if (news) {
      news.hidden = !(held && unknown.length);
      $("a", news).textContent = `${unknown.length}${unknown.length >= 50 ? " or more" : ""} new`;
    }
  }
  const plain = (cell) => cell.textContent.replace(/\s+/g, " ").trim();
  function fade(row) {
    const next = document.importNode(row, true);
    next.classList.add("fresh");
    showTimes(next);
    return next;
  }

  // On a narrow screen the navigation is scrolled sideways.
  const here = $(".side nav [aria-current]");
  if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 40;

  const sign = $("#live");
  let reading = false, again = false;
  async function look() {
    if (document.hidden || reading) { again = true; return; }
    reading = true; again = false;
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "error" });
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        ahead = Number(fresh.documentElement.dataset.now) - Date.now();
        swap(fresh);
      }
    } catch { /* the stream says whether the server is there */ }
    reading = false;
  }
  if ($("[data-live], [data-rows]")) {
    const one = document.body.dataset.delivery;
    const stream = new EventSource(`${root}live${one ? `?delivery=${encodeURIComponent(one)}` : ""}`);
    const show = (on) => { sign.hidden = false; sign.classList.toggle("on", on); sign.textContent = on ? "Live" : "Not connected"; };
    stream.onopen = () => show(true);
    stream.onerror = () => show(false);
    stream.addEventListener("tick", look);
    // What changes without a delivery changing, such as a bulk action that waits or stops.
    setInterval(() => $("[data-soon]") && look(), 1000);
    document.addEventListener("visibilitychange", () => !document.hidden && again && look());
    addEventListener("pagehide", () => stream.close());
    addEventListener("pageshow", (event) => event.persisted && location.reload());
  }

  // Keys: / searches, j and k go through rows, x chooses one, Escape closes what is open.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
    if (event.key === "Escape") {
      const open = $("details.action[open], details.menu[open]");
      if (open) { open.open = false; $("summary", open).focus(); } else if (typing) event.target.blur();
    }
    if (typing) return;
    if (event.key === "/") { event.preventDefault(); const field = $("#q"); field.focus(); field.select(); }
    const links = $$("[data-rows] .what a");
    const here = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
    if (event.key === "j") links[Math.min(here + 1, links.length - 1)]?.focus();
    if (event.key === "k") links[Math.max(here - 1, 0)]?.focus();
    if (event.key === "x" && here >= 0) $("input[name=id]", links[here].closest("tr"))?.click();
  });

  // An opened form is ready to be filled in; a form is sent once.
  document.addEventListener("toggle", (event) => {
    if (event.target.open && event.target.matches?.("details.action, details.menu"))
      $("input:not([type=hidden]), textarea", event.target)?.focus();
  }, true);
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
    event.submitter?.setAttribute("aria-busy", "true");
  });
})();
