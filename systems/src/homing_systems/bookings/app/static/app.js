// Keeps the admin pages current without reloading them. Every page also works without this script.

const REFRESH_MS = 5000;
const STATUSES = ["pending", "failed"];
const TEXTS = ["id", "toAddress", "subject", "nextRetryAt", "createdAt"];
const REFUSED = {
  401: "Your session has ended.",
  404: "This email is not in the queue any more.",
  409: "This email is not failed any more.",
};
const NUMBERS = ["attempts", "maxAttempts"];

export function decodeEntry(value) {
  for (const name of TEXTS) check(typeof value[name] === "string", name, value[name]);
  for (const name of NUMBERS) check(Number.isInteger(value[name]), name, value[name]);
  check(value.lastError === null || typeof value.lastError === "string", "lastError", value.lastError);
  check(STATUSES.includes(value.status), "status", value.status);
  return value;
}

export function decodeEntries(value) {
  check(Array.isArray(value), "the list", value);
  return value.map(decodeEntry);
}

export function decodeDashboard(value) {
  const counts = { pending: value.pendingEmailCount, failed: value.failedEmailCount };
  for (const status of STATUSES) check(Number.isInteger(counts[status]), status, counts[status]);
  return counts;
}

function check(holds, name, value) {
  if (!holds) throw new Error(`The server's answer is not understood: ${name} is ${JSON.stringify(value)}.`);
}

async function call(method, path) {
  let answer;
  try {
    // The server takes changes only with this content type, which a foreign page cannot send.
    const body = method === "POST" ? "{}" : undefined;
    answer = await fetch(path, { method, body, headers: { "Content-Type": "application/json" } });
  } catch {
    throw new Error("The server cannot be reached. What you see may be out of date.");
  }
  if (answer.status === 401) location.assign("/admin/login");
  if (!answer.ok) throw new Error(REFUSED[answer.status] ?? `The server answered ${answer.status}.`);
  return answer.status === 204 ? null : answer.json();
}

function showCounts(area, counts) {
  for (const place of area.querySelectorAll("[data-count]")) showText(place, String(counts[place.dataset.count]));
  const { pending, failed } = counts;
  area.dataset.state = failed ? (pending ? "mixed" : "failed") : pending ? "pending" : "healthy";
}

function showProblem(text) {
  const place = document.querySelector("[data-problem]");
  place.hidden = !text;
  showText(place, text);
}

// Asks again only after an answer, so that a slow server is never asked twice at once.
function refreshing(ask) {
  let lost = false;
  async function refresh() {
    if (!document.hidden) {
      try {
        await ask();
        if (lost) showProblem("");
        lost = false;
      } catch (problem) {
        lost = true;
        showProblem(problem.message);
      }
    }
    setTimeout(refresh, REFRESH_MS);
  }
  refresh();
}

function startDashboard(card) {
  const dashboardReceived = (value) => showCounts(card, decodeDashboard(value));
  refreshing(async () => dashboardReceived(await call("GET", "/api/admin/dashboard")));
}

function startQueue(page) {
  const body = page.querySelector("tbody");
  const blank = page.querySelector("template").content.querySelector("tr");
  const dialog = page.querySelector("dialog");
  const done = page.querySelector("[data-done]");
  let version = 0;

  function outboxEntriesReceived(entries) {
    const ids = new Set(entries.map((entry) => entry.id));
    for (const row of [...body.rows]) if (!ids.has(row.dataset.id)) removeRow(row);
    // Rows that stay are not moved: a moved row would lose the focus.
    entries.forEach((entry, index) => {
      let row = body.rows[index];
      if (row?.dataset.id !== entry.id) {
        row = [...body.rows].find((each) => each.dataset.id === entry.id) ?? blank.cloneNode(true);
        body.insertBefore(row, body.rows[index] ?? null);
      }
      fillRow(row, entry);
    });
    countRows();
  }

  function countRows() {
    const count = (status) => [...body.rows].filter((row) => row.dataset.status === status).length;
    showCounts(page, { pending: count("pending"), failed: count("failed") });
  }

  function fillRow(row, entry) {
    row.dataset.id = entry.id;
    row.dataset.status = entry.status;
    fillFields(row, entry);
    for (const time of row.querySelectorAll("[data-time]")) {
      time.dateTime = entry[time.dataset.time];
      showTime(time);
    }
    const actions = row.querySelector(".actions > div");
    const hadFocus = actions.contains(document.activeElement);
    actions.hidden = entry.status !== "failed";
    if (hadFocus && actions.hidden) focusNear(row);
    for (const form of actions.querySelectorAll("form")) {
      form.setAttribute("action", `/admin/email-queue/${encodeURIComponent(entry.id)}/${form.dataset.action}`);
    }
  }

  function removeRow(row) {
    if (row.contains(document.activeElement)) focusNear(row);
    row.remove();
  }

  function focusNear(row) {
    const others = [...body.rows].filter((each) => each !== row && each.dataset.status === "failed");
    const after = others.find((each) => each.rowIndex > row.rowIndex);
    const near = after ?? others.at(-1);
    (near ? near.querySelector("button") : page.querySelector("h1")).focus();
  }

  async function change(row, method, path, completed) {
    version += 1;
    row.setAttribute("aria-busy", "true");
    try {
      completed(await call(method, path));
      showProblem("");
    } catch (problem) {
      done.textContent = "";
      showProblem(problem.message);
    } finally {
      row.removeAttribute("aria-busy");
      version += 1;
    }
  }

  function retryClicked(row) {
    const retryCompleted = (value) => {
      fillRow(row, decodeEntry(value));
      countRows();
      done.textContent = "The email is tried again.";
    };
    change(row, "POST", `${api(row)}/retry`, retryCompleted);
  }

  function dismissClicked(row) {
    fillFields(dialog, {
      subject: row.querySelector("[data-field=subject]").textContent,
      toAddress: row.querySelector("[data-field=toAddress]").textContent,
    });
    dialog.returnValue = "";
    dialog.onclose = () => dialog.returnValue === "dismiss" && dismissConfirmed(row);
    dialog.showModal();
  }

  function dismissConfirmed(row) {
    const dismissCompleted = () => {
      removeRow(row);
      countRows();
      done.textContent = "The email is dismissed.";
    };
    change(row, "DELETE", api(row), dismissCompleted);
  }

  const api = (row) => `/api/admin/outbox/${encodeURIComponent(row.dataset.id)}`;

  page.addEventListener("submit", (event) => {
    const row = event.target.closest("tr");
    if (!row) return;
    event.preventDefault();
    if (row.hasAttribute("aria-busy")) return;
    if (event.target.dataset.action === "retry") retryClicked(row);
    else dismissClicked(row);
  });

  refreshing(async () => {
    const asked = version;
    const entries = decodeEntries(await call("GET", "/api/admin/outbox"));
    // A list that was asked for before a change would bring the old row back.
    if (asked === version && !dialog.open) outboxEntriesReceived(entries);
  });
  setInterval(() => page.querySelectorAll("tbody [data-time]").forEach(showTime), 1000);
}

function fillFields(area, entry) {
  for (const place of area.querySelectorAll("[data-field]")) {
    if (place.dataset.field in entry) showText(place, String(entry[place.dataset.field] ?? ""));
  }
}

// Writing the same text again would end a selection, and be read out again.
function showText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "always", style: "short" });
const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "short" });

function showTime(time) {
  const at = new Date(time.dateTime);
  const seconds = Math.round((at - Date.now()) / 1000);
  time.title = moment.format(at);
  showText(time, time.dataset.time === "nextRetryAt" && seconds <= 0 ? "now" : ago(seconds));
}

function ago(seconds) {
  const size = Math.abs(seconds);
  if (size < 60) return relative.format(seconds, "second");
  if (size < 3600) return relative.format(Math.round(seconds / 60), "minute");
  if (size < 86400) return relative.format(Math.round(seconds / 3600), "hour");
  return relative.format(Math.round(seconds / 86400), "day");
}

// Visitors see their own time first, with its weekday where that is not the day of the page.
function startVisitor() {
  const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
  const { timeZone } = clock.resolvedOptions();
  for (const time of document.querySelectorAll("[data-moment]"))
    time.textContent = `${moment.format(new Date(time.dateTime))} (${timeZone})`;
  document.querySelector("[data-focus]")?.focus();
  const zone = document.querySelector("[data-zone]");
  const times = [...document.querySelectorAll("[data-clock]")];
  if (!zone || times.every((time) => clock.format(new Date(time.dateTime)) === time.textContent)) return;
  zone.textContent = `Times are in your time zone (${timeZone}), and below them in UTC.`;
  const weekday = (at, zone) => new Intl.DateTimeFormat("en-GB", { weekday: "short", timeZone: zone }).format(at);
  for (const time of times) {
    const at = new Date(time.dateTime);
    const utc = document.createElement("small");
    utc.textContent = time.textContent;
    const own = clock.format(at);
    const day = weekday(at);
    time.textContent = day === weekday(at, "UTC") ? own : `${day} ${own}`;
    time.after(utc);
  }
}

const area = document.querySelector("[data-live]");
if (area?.dataset.live === "dashboard") startDashboard(area);
else if (area?.dataset.live === "queue") startQueue(area);
else startVisitor();
