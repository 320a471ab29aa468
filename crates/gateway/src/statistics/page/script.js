"use strict";
// Brings the numbers of this page up to date from the JSON behind it, and keeps the last ones for
// the lines of rates. Without it the page is whole, and loads itself anew.
(() => {
  const root = document.documentElement, body = document.body;
  root.classList.add("js");
  const every = Math.max(1, Number(body.dataset.refresh) || 3) * 1000;
  const length = 60; // points of a line
  const lines = new Map(); // of an element: its last points
  const status = document.querySelector(".live");
  let paused = false, seen = null;

  const group = n => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const scale = (n, step, units) => {
    let at = 0;
    while (n >= step && at < units.length - 1) { n /= step; at += 1; }
    return (at && n < 99.95 ? n.toFixed(1) : Math.round(n)) + units[at];
  };
  const since = s => s < 60 ? s + "s" : s < 3600 ? Math.floor(s / 60) + "m " + s % 60 + "s"
    : s < 86400 ? Math.floor(s / 3600) + "h " + Math.floor(s / 60) % 60 + "m"
    : Math.floor(s / 86400) + "d " + Math.floor(s / 3600) % 24 + "h";
  const show = {
    n: v => scale(v, 1000, ["", "k", "M", "G", "T"]),
    b: v => scale(v, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]),
    ms: v => v + " ms",
    s: v => v < 0 ? "never" : since(v),
    f: v => typeof v === "number" ? group(v) : v,
  };

  const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };

  const state = text => {
    const word = text.split(" ")[0];
    if (/^UP \d/.test(text)) return "falling";
    if (/^DOWN \d/.test(text)) return "rising";
    return { UP: "up", OPEN: "up", DOWN: "down", STOP: "down", MAINT: "maint", DRAIN: "drain",
      NOLB: "nolb", PAUSED: "maint", WAITING: "maint", FULL: "falling" }[word] || "none";
  };

  const line = (svg, value) => {
    const points = lines.get(svg) || [];
    points.push(value);
    if (points.length > length) points.shift();
    lines.set(svg, points);
    const top = Math.max(1, ...points), from = length - points.length;
    const places = points.map((v, at) => from + at + "," + (15 - 13 * v / top).toFixed(1));
    svg.querySelector("polyline").setAttribute("points", places.join(" "));
    svg.querySelector("polygon").setAttribute("points",
      from + ",16 " + places.join(" ") + " " + (length - 1) + ",16");
  };

  const fill = (row, data) => {
    for (const cell of row.querySelectorAll("[data-c]")) {
      const value = data[cell.dataset.c];
      if (value !== undefined) put(cell, show[cell.dataset.k](value));
    }
    for (const sum of row.querySelectorAll("[data-sum]")) {
      const value = sum.dataset.sum.split(" ").reduce((all, c) => all + (data[c] || 0), 0);
      put(sum, show.n(value));
      sum.className = value ? (sum.dataset.hot ? "hot" : "") : "quiet";
    }
    const pill = row.querySelector(".pill");
    if (pill) { put(pill, data.status.toLowerCase()); pill.dataset.s = state(data.status); }
    const meter = row.querySelector("svg.meter");
    if (meter && data.slim) {
      const part = Math.min(100, 100 * data.scur / data.slim);
      meter.firstElementChild.setAttribute("width", part);
      meter.dataset.full = part >= 90 ? "yes" : "no";
    }
    const mix = row.querySelector("svg.mix");
    if (mix) {
      const counts = ["1xx", "2xx", "3xx", "4xx", "5xx"].map(c => data["hrsp_" + c] || 0);
      const all = counts.reduce((a, b) => a + b, 0) || 1;
      let x = 0;
      [...mix.children].forEach((rect, at) => {
        const width = 100 * counts[at] / all;
        rect.setAttribute("x", x);
        rect.setAttribute("width", width);
        x += width;
      });
    }
    const check = row.querySelector("[data-check]");
    if (check && data.check_status !== undefined) {
      put(check, data.check_status + (data.check_code ? "/" + data.check_code : ""));
    }
    const spark = row.querySelector(".spark");
    if (spark) line(spark, data.req_rate === undefined ? data.rate : data.req_rate);
  };

  const tiles = rows => {
    const fronts = rows.filter(r => r.type === 0), servers = rows.filter(r => r.type === 2);
    const all = column => fronts.reduce((sum, r) => sum + (r[column] || 0), 0);
    const up = servers.filter(r => /^(UP|no check)/.test(r.status)).length;
    const now = Date.now(), sent = all("bout");
    const rate = seen ? Math.max(0, (sent - seen.sent) * 1000 / Math.max(1, now - seen.at)) : 0;
    seen = { sent, at: now };
    const values = { scur: all("scur"), rate: all("rate"), req_rate: all("req_rate"), out: rate };
    for (const tile of document.querySelectorAll("[data-tile]")) {
      const name = tile.dataset.tile;
      if (name === "servers") { put(tile.querySelector("b"), String(up)); continue; }
      put(tile.querySelector("b"), name === "out" ? show.b(Math.round(rate)) : show.n(values[name]));
      line(tile.querySelector(".spark"), values[name]);
    }
  };

  const update = lists => {
    const rows = lists.map(list => {
      const row = {};
      for (const item of list) row[item.field.name] = item.value.value;
      row.key = list[0].objType[0] + "." + list[0].proxyId + "." + list[0].id;
      return row;
    });
    for (const data of rows) {
      const row = document.querySelector('[data-row="' + data.key + '"]');
      if (row) fill(row, data);
    }
    tiles(rows);
  };

  const tell = (kind, text) => { status.dataset.live = kind; put(status, text); };

  const turn = async () => {
    if (!paused && !document.hidden) {
      try {
        const answer = await fetch(body.dataset.json, { cache: "no-store" });
        if (!answer.ok) throw new Error(String(answer.status));
        update(await answer.json());
        tell("on", "live, every " + every / 1000 + " s");
      } catch (error) {
        tell("lost", "no answer, trying again");
      }
    }
    setTimeout(turn, every);
  };

  document.querySelector("#pause").addEventListener("click", event => {
    paused = !paused;
    event.target.setAttribute("aria-pressed", String(paused));
    put(event.target, paused ? "Go on" : "Pause");
    if (paused) tell("paused", "paused");
  });

  const search = document.querySelector("input[type=search]");
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const section of document.querySelectorAll("section.proxy")) {
      const name = section.dataset.name.toLowerCase();
      let any = false;
      for (const row of section.querySelectorAll("tbody tr")) {
        const text = name + " " + row.dataset.name.toLowerCase() + " "
          + (row.querySelector(".pill") || row).textContent;
        row.hidden = !words.every(word => text.includes(word));
        any = any || !row.hidden;
      }
      section.hidden = !any;
    }
  };
  search.addEventListener("input", filter);
  search.form.addEventListener("submit", event => event.preventDefault());
  filter();

  for (const all of document.querySelectorAll(".pick-all")) {
    all.addEventListener("change", () => {
      for (const box of all.closest("table").querySelectorAll("td.pick input")) {
        box.checked = all.checked && !box.closest("tr").hidden;
      }
    });
  }

  for (const form of document.querySelectorAll("form.change")) {
    form.addEventListener("submit", event => {
      const chosen = form.querySelectorAll("td.pick input:checked").length;
      const action = form.elements.action.selectedOptions[0].textContent;
      const question = action + ": " + chosen + (chosen === 1 ? " server?" : " servers?");
      if (!chosen || !form.elements.action.value || !confirm(question)) event.preventDefault();
    });
  }

  turn();
})();
