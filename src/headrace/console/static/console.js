"use strict";
// The console's script: live regions, charts, dialogs, forms. The pages work without it, except
// charts, dialogs and the record search.
(() => {
  const body = document.body;
  const LIVE_MS = 5000;
  const RETRY_MS = 15000;

  // Content-Security-Policy allows HTML only through this policy. Its input is a page of this
  // console, which the server has escaped; the parsed document runs no scripts.
  const policy = window.trustedTypes
    ? window.trustedTypes.createPolicy("headrace", { createHTML: (html) => html })
    : { createHTML: (html) => html };
  const parsePage = (html) =>
    new DOMParser().parseFromString(policy.createHTML(html), "text/html");

  const SVG = "http://www.w3.org/2000/svg";
  function svg(name, attributes, text) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function element(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }
  function icon(name) {
    const node = svg("svg", { class: "icon", "aria-hidden": "true", focusable: "false" });
    node.append(svg("use", { href: `${body.dataset.icons}#${name}` }));
    return node;
  }

  // -- Numbers -------------------------------------------------------------------------------
  function scaled(value, step, units) {
    let unit = 0;
    let amount = value;
    while (Math.abs(amount) >= step && unit < units.length - 1) { amount /= step; unit += 1; }
    const digits = Math.abs(amount) >= 100 || Number.isInteger(amount) ? 0 : 1;
    return amount.toFixed(digits) + units[unit];
  }
  function shortNumber(value, unit) {
    if (unit === "bytes/s") return scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
    return scaled(value, 1000, ["", "k", "M", "G", "T"]);
  }

  // -- Charts --------------------------------------------------------------------------------
  function niceTop(largest, unit) {
    if (largest <= 0) return 1;
    if (unit === "bytes/s" && largest >= 1024) return 1024 * niceTop(largest / 1024, unit);
    const power = 10 ** Math.floor(Math.log10(largest));
    return [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= largest);
  }

  function drawChart(figure) {
    const plot = figure.querySelector(".plot");
    const times = JSON.parse(figure.dataset.times);
    const values = JSON.parse(figure.dataset.values);
    const unit = figure.dataset.unit;
    const known = values.filter((value) => value !== null);
    plot.replaceChildren();
    if (known.length < 2) {
      plot.append(element("p", { class: "none" }, "Collecting data: the chart begins with the second refresh."));
      return;
    }
    const width = Math.max(220, plot.clientWidth - 24);
    const height = 144;
    const left = 46;
    const bottom = 20;
    const largest = Math.max(...known);
    const top = unit === "partitions" ? Math.max(niceTop(largest, unit), 2) : niceTop(largest, unit);
    const first = times[0];
    const span = Math.max(1, times[times.length - 1] - first);
    const x = (time) => left + ((time - first) / span) * (width - left - 6);
    const y = (value) => 6 + (1 - value / top) * (height - bottom - 6);
    const title = figure.querySelector("h3").textContent;
    const root = svg("svg", {
      viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `${title}: now ${shortNumber(known[known.length - 1], unit)}, at most ${shortNumber(largest, unit)} ${unit}`,
    });
    for (const part of [0, 0.5, 1]) {
      root.append(svg("line", { class: "grid-line", x1: left, x2: width, y1: y(top * part), y2: y(top * part) }));
      root.append(svg("text", { class: "axis", x: left - 6, y: y(top * part) + 4, "text-anchor": "end" }, shortNumber(top * part, unit)));
    }
    const clock = (time) => new Date(time).toISOString().slice(11, 19);
    root.append(svg("text", { class: "axis", x: left, y: height - 3 }, clock(first)));
    root.append(svg("text", { class: "axis", x: width, y: height - 3, "text-anchor": "end" }, `${clock(times[times.length - 1])} UTC`));
    let runs = [];
    let run = [];
    values.forEach((value, index) => {
      if (value === null) { if (run.length) runs.push(run); run = []; } else run.push([x(times[index]), y(value)]);
    });
    if (run.length) runs.push(run);
    for (const points of runs) {
      const path = points.map(([px, py], index) => `${index ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
      const base = y(0);
      root.append(svg("path", { class: "area", d: `${path}L${points[points.length - 1][0].toFixed(1)} ${base}L${points[0][0].toFixed(1)} ${base}Z` }));
      root.append(svg("path", { class: "line", d: path }));
    }
    const cursor = svg("g", { visibility: "hidden" });
    const line = svg("line", { class: "cursor", y1: 6, y2: y(0) });
    const dot = svg("circle", { class: "dot", r: 4 });
    const tip = svg("text", { class: "tip", y: 16 });
    cursor.append(line, dot, tip);
    root.append(cursor);
    root.addEventListener("pointermove", (event) => {
      const box = root.getBoundingClientRect();
      const wanted = first + ((event.clientX - box.left) * (width / box.width) - left) / (width - left - 6) * span;
      let near = -1;
      times.forEach((time, index) => {
        if (values[index] !== null && (near < 0 || Math.abs(time - wanted) < Math.abs(times[near] - wanted))) near = index;
      });
      if (near < 0) return;
      const px = x(times[near]);
      line.setAttribute("x1", px); line.setAttribute("x2", px);
      dot.setAttribute("cx", px); dot.setAttribute("cy", y(values[near]));
      tip.textContent = `${shortNumber(values[near], unit)} at ${clock(times[near])}`;
      const onRight = px > width / 2;
      tip.setAttribute("x", px + (onRight ? -8 : 8));
      tip.setAttribute("text-anchor", onRight ? "end" : "start");
      cursor.setAttribute("visibility", "visible");
    });
    root.addEventListener("pointerleave", () => cursor.setAttribute("visibility", "hidden"));
    plot.append(root);
  }

  function localTimes(root) {
    for (const node of root.querySelectorAll("time[datetime]")) {
      const at = new Date(node.dateTime);
      if (!Number.isNaN(at.valueOf())) node.title = `${at.toLocaleString()} (your time zone)`;
    }
  }

  // The button of a destructive form works once the name is typed. The server checks the name too.
  function guardForm(form) {
    const field = form.querySelector("[name=confirm]");
    const submit = form.querySelector("button.danger");
    const check = () => { submit.disabled = field.value.trim() !== form.dataset.confirm; };
    field.addEventListener("input", check);
    check();
  }

  function decorate(root) {
    root.querySelectorAll("form[data-confirm]").forEach(guardForm);
    root.querySelectorAll("[data-chart]").forEach(drawChart);
    localTimes(root);
  }

  // -- Live regions: [data-live] with an id are replaced from a fresh copy of the same page ----
  let paused = false;
  let liveTimer = 0;

  function isInUse(region) {
    return region.querySelector("dialog[open], details[open], input:focus, select:focus, textarea:focus") !== null;
  }

  async function refreshLive() {
    let wait = LIVE_MS;
    if (!paused && !document.hidden) {
      try {
        const address = location.href;
        const answer = await fetch(address, { headers: { "X-Headrace-Live": "1" }, redirect: "error" });
        if (answer.status === 401) { location.reload(); return; }
        const fresh = parsePage(await answer.text());
        // The visitor may have begun to select text, or another filter may apply by now.
        const isWanted = !paused && location.href === address && window.getSelection().isCollapsed;
        if (isWanted) replaceLive(fresh);
      } catch {
        wait = RETRY_MS;
        showLost();
      }
    }
    liveTimer = setTimeout(refreshLive, wait);
  }

  function replaceLive(fresh) {
    for (const region of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(region.id);
      if (!next || isInUse(region)) continue;
      const focused = document.activeElement && region.contains(document.activeElement) ? focusKey(document.activeElement) : null;
      const scrolled = [...region.querySelectorAll(".table-wrap")].map((each) => each.scrollLeft);
      region.replaceChildren(...[...next.childNodes].map((node) => document.importNode(node, true)));
      [...region.querySelectorAll(".table-wrap")].forEach((each, index) => { each.scrollLeft = scrolled[index] || 0; });
      decorate(region);
      if (focused) { const target = focused(region); if (target) target.focus({ preventScroll: true }); }
    }
  }

  // How to find the focused element again after its region was replaced.
  function focusKey(node) {
    const selector = node.id ? `#${CSS.escape(node.id)}`
      : node.getAttribute("href") ? `a[href="${CSS.escape(node.getAttribute("href"))}"]`
        : node.getAttribute("aria-label") ? `[aria-label="${CSS.escape(node.getAttribute("aria-label"))}"]` : null;
    return selector ? (region) => region.querySelector(selector) : null;
  }

  function showLost() {
    const where = document.getElementById("freshness");
    if (where) where.replaceChildren(element("span", { class: "badge critical" }, icon("critical"), "The console does not answer"), element("span", {}, "Trying again every 15 seconds."));
  }

  // -- Dialogs, menus, forms -----------------------------------------------------------------
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.dialog);
      dialog.showModal();
      const field = dialog.querySelector("input:not([type=hidden]), textarea, select");
      if (field) field.focus();
      return;
    }
    if (event.target.closest("[data-close]")) { event.target.closest("dialog").close(); return; }
    if (event.target instanceof HTMLDialogElement) { event.target.close(); return; }
    const copier = event.target.closest("[data-copy]");
    if (copier) {
      const source = document.getElementById(copier.dataset.copy);
      const denied = () => announce("The browser did not allow copying. It does on HTTPS pages and on this machine.");
      if (!navigator.clipboard) { denied(); return; }
      navigator.clipboard.writeText(source.value ?? source.textContent).then(() => announce("Copied."), denied);
    }
  });

  function announce(text) {
    const place = document.getElementById("flashes");
    const note = element("div", { class: "flash info" }, icon("info"), element("div", {}, text));
    place.replaceChildren(note);
    setTimeout(() => note.remove(), 6000);
  }

  // A form is sent once: a second click on its button must not repeat the change.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post") return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "1";
    form.setAttribute("aria-busy", "true");
  });
  window.addEventListener("pageshow", () => {
    document.querySelectorAll("form[data-sent]").forEach((form) => { delete form.dataset.sent; form.removeAttribute("aria-busy"); });
  });

  // A filter applies itself: at once for choices, after a pause in typing for text.
  let typing = 0;
  async function applyFilter(form) {
    const query = new URLSearchParams(new FormData(form));
    for (const [key, value] of [...query]) if (!value) query.delete(key);
    const address = `${form.action.split("?")[0]}?${query}`;
    history.replaceState(null, "", address);
    try {
      const answer = await fetch(address, { headers: { "X-Headrace-Live": "1" }, redirect: "error" });
      if (answer.status === 401) { location.reload(); return; }
      const text = await answer.text();
      if (location.href === new URL(address, location.href).href) replaceLive(parsePage(text));
    } catch { form.submit(); }
  }
  for (const field of document.querySelectorAll("[data-autosubmit]")) {
    const isText = field.matches("input[type=search], input[type=text]");
    field.addEventListener(isText ? "input" : "change", () => {
      clearTimeout(typing);
      typing = setTimeout(() => applyFilter(field.form), isText ? 250 : 0);
    });
  }

  const menu = document.querySelector("[data-menu]");
  if (menu) {
    const sidebar = document.getElementById("sidebar");
    menu.addEventListener("click", () => {
      const open = sidebar.classList.toggle("open");
      menu.setAttribute("aria-expanded", String(open));
    });
    sidebar.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && sidebar.classList.contains("open")) { menu.click(); menu.focus(); }
    });
  }

  const toggle = document.querySelector("[data-theme-toggle]");
  if (toggle) {
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      document.cookie = `headrace-theme=${root.dataset.theme}; path=/; max-age=31536000; SameSite=Strict`;
    });
  }

  const pause = document.querySelector("[data-pause]");
  if (document.querySelector("[data-live]:not(#freshness)") && !document.querySelector("[data-search]")) {
    if (pause) {
      pause.hidden = false;
      pause.addEventListener("click", () => {
        paused = !paused;
        pause.setAttribute("aria-pressed", String(paused));
        pause.replaceChildren(icon(paused ? "play" : "pause"), element("span", {}, paused ? " Resume updates" : " Pause updates"));
      });
    }
    liveTimer = setTimeout(refreshLive, LIVE_MS);
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) { clearTimeout(liveTimer); refreshLive(); }
    });
  }

  // "/" goes to the page's search field, as in other tools of this kind.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable], dialog")) return;
    const field = document.querySelector("input[type=search]");
    if (field) { event.preventDefault(); field.focus(); field.select(); }
  });

  // A field of a choice selects the choice: [data-selects=VALUE] a radio button of its form,
  // [data-selects-option="SELECT=VALUE"] an option.
  document.addEventListener("input", (event) => {
    const field = event.target;
    if (field.dataset.selects) {
      const radio = field.form.querySelector(`input[type=radio][value="${CSS.escape(field.dataset.selects)}"]`);
      if (radio) radio.checked = true;
    } else if (field.dataset.selectsOption) {
      const [name, value] = field.dataset.selectsOption.split("=");
      if (field.value) field.form.elements[name].value = value;
    }
  });

  // -- Server-sent events ----------------------------------------------------------------------
  // Calls handlers[name](data) for each event, until "ended" or close(). A stream that breaks off
  // is not opened again: its search would begin anew.
  function openStream(address, handlers, onLost) {
    const source = new EventSource(address);
    let over = false;
    const close = () => { over = true; source.close(); };
    for (const [name, handle] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => {
        if (over) return;
        if (name === "ended") close();
        handle(JSON.parse(event.data));
      });
    }
    source.onerror = () => { if (!over) { close(); onLost(); } };
    window.addEventListener("pagehide", close, { once: true });
    return close;
  }

  // -- The record search -----------------------------------------------------------------------
  function startSearch(section) {
    const find = (selector) => section.querySelector(selector);
    const rows = find("tbody");
    const wrap = find(".table-wrap");
    const empty = find("[data-search-empty]");
    const status = find("[data-search-progress]");
    const bar = find("[data-search-bar]");
    const stop = find("[data-search-stop]");
    const problems = find("[data-search-problems]");
    const order = section.dataset.order;
    const newestFirst = order === "newest" || order === "tail";
    const limit = Number(section.dataset.limit);
    let shown = [];
    let pending = [];
    let frame = 0;

    function cell(text, className) {
      const td = element("td", { class: className, role: "cell" });
      if (text === null) td.append(element("span", { class: "muted" }, "null"));
      else td.append(element("div", { class: "cell" }, text));
      return td;
    }
    function rowOf(record) {
      const link = element("a", { href: `${section.dataset.record}${record.partition}/${record.offset}` }, `${record.partition} / ${record.offset}`);
      const time = element("time", { datetime: record.iso, class: "nowrap" }, record.time);
      const headers = record.headers.join(", ") + (record.header_count > record.headers.length ? ` and ${record.header_count - record.headers.length} more` : "");
      const plain = (className, content) => element("td", { class: className, role: "cell" }, content);
      return element("tr", { role: "row" }, element("th", { scope: "row", role: "rowheader", class: "nowrap" }, link), plain("when", time),
        cell(record.key, "key"), cell(record.value, "value"), plain("kind", record.kind),
        plain("number size", record.size), cell(headers, "key headers"));
    }
    const before = (one, other) => {
      const time = one.ms - other.ms || one.partition - other.partition || one.offset - other.offset;
      return newestFirst ? -time : time;
    };
    function draw() {
      frame = 0;
      if (!pending.length) return;
      const added = new Set(pending);
      shown = shown.concat(pending).sort(before).slice(0, order === "tail" ? 500 : limit);
      pending = [];
      const kept = new Set(shown);
      empty.hidden = true;
      wrap.hidden = false;
      const active = document.activeElement;
      for (const record of added) if (kept.has(record)) record.row = rowOf(record);
      rows.replaceChildren(...shown.map((record) => record.row));
      if (active && active !== document.activeElement && rows.contains(active)) active.focus({ preventScroll: true });
      localTimes(rows);
    }
    function message(title, text) {
      if (shown.length || pending.length) return;
      empty.hidden = false;
      const state = element("div", { class: "state" }, icon("search"), element("h3", {}, title));
      if (text) state.append(element("p", {}, text));
      empty.replaceChildren(state);
    }
    function finish(text) {
      cancelAnimationFrame(frame);
      draw();
      stop.hidden = true;
      bar.hidden = true;
      status.textContent = [text, status.dataset.sum].filter(Boolean).join(" ");
    }

    const close = openStream(section.dataset.search, {
      record(record) {
        pending.push(record);
        if (!frame) frame = requestAnimationFrame(draw);
      },
      progress(done) {
        status.dataset.sum = `${done.records.toLocaleString("en")} records, ${done.bytes} read in ${done.seconds} s (${done.rate}).`;
        status.textContent = status.dataset.sum;
        if (done.all > 0) bar.value = (100 * done.done) / done.all;
      },
      problem(problem) {
        problems.append(element("div", { class: "flash warning" }, icon("warning"), element("div", {}, problem.text)));
      },
      ended(end) {
        finish({ limit: "Limit reached.", end: "Searched to the end.", logout: "The session has ended.", error: "The search failed." }[end.reason]);
        message("No record found", end.reason === "end" ? "Nothing in this range matches." : "");
      },
    }, () => { finish("The connection to the console was lost."); message("Not searched", "Reload the page to search again."); });
    stop.hidden = false;
    bar.hidden = order === "tail";
    if (order === "tail") message("Waiting for new records", "They appear here as they are written.");
    stop.addEventListener("click", () => { close(); finish("Stopped."); message("Stopped", "No record was found before."); });
  }
  document.querySelectorAll("[data-search]").forEach(startSearch);

  // Fields that belong to one choice of a select: data-revealed-by="select=value".
  for (const select of document.querySelectorAll("[data-reveals]")) {
    const reveal = () => {
      for (const field of select.form.querySelectorAll("[data-revealed-by]")) {
        const [name, value] = field.dataset.revealedBy.split("=");
        if (name === select.name) field.hidden = select.value !== value;
      }
    };
    select.addEventListener("change", reveal);
    reveal();
  }

  let resize = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resize);
    resize = setTimeout(() => document.querySelectorAll("[data-chart]").forEach(drawChart), 150);
  });
  decorate(document);
})();
