"use strict";
// The report: reads the JSON in this file, builds every element by hand, so that no text is markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const runs = data.runs;
  const main = document.getElementById("main");
  const tip = document.getElementById("tip");
  const solvers = data.solvers.map((s) => s.name);
  const seriesOf = new Map(solvers.map((name, k) => [name, k]));
  const SVG = "http://www.w3.org/2000/svg";

  // -- elements ---------------------------------------------------------------------------------

  function build(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.flat(9).filter((c) => c !== null && c !== undefined && c !== false));
    return node;
  }
  const h = (tag, attributes, ...children) =>
    build(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) =>
    build(document.createElementNS(SVG, tag), attributes, children);

  // -- words and numbers ------------------------------------------------------------------------

  const known = (x) => typeof x === "number" && Number.isFinite(x);
  function significant(x, digits = 3) {
    if (!known(x)) return "–";
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 1e6 || size < 1e-4) return scientific(x, digits - 1);
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return x.toFixed(Math.min(places, 8));
  }
  function scientific(x, digits = 1) {
    if (!known(x)) return "–";
    if (x === 0) return "0";
    const [mantissa, exponent] = x.toExponential(digits).split("e");
    return `${mantissa}e${Number(exponent)}`.replace(/-/g, "−");
  }
  const seconds = (x) => significant(x);
  const tolerance = (x) => (known(x) ? scientific(x, 0) : "–");
  const mebibytes = (x) => (known(x) ? (x / 2 ** 20).toFixed(x < 10 * 2 ** 20 ? 1 : 0) : "–");
  const whole = (x) => (known(x) && x >= 0 ? String(x) : "–");
  const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
  const median = (values) => {
    const v = values.filter(known).sort((a, b) => a - b);
    if (!v.length) return NaN;
    const half = v.length >> 1;
    return v.length % 2 ? v[half] : (v[half - 1] + v[half]) / 2;
  };
  const groups = (items, key) => {
    const out = new Map();
    for (const item of items) {
      const k = key(item);
      if (!out.has(k)) out.set(k, []);
      out.get(k).push(item);
    }
    return out;
  };
  const verdict = (name) => data.verdicts[name] || { mark: "?", label: name, tone: "none", means: "" };
  function badge(run) {
    const v = verdict(run.verdict);
    return h("span", { class: `mark ${v.tone}`, title: v.means },
      h("span", { "aria-hidden": "true" }, v.mark), v.label);
  }

  // -- solvers: a colour, a marker and a dash each ----------------------------------------------

  const MARKS = [
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", "M-3.6,-3.6h7.2v7.2h-7.2z", "M0,-4.8L4.4,3.4H-4.4z",
    "M0,-5L5,0L0,5L-5,0z", "M0,4.8L4.4,-3.4H-4.4z", "M-1.5,-4.8h3v3.3h3.3v3h-3.3v3.3h-3v-3.3h-3.3v-3h3.3z",
    "M0,-5.2L1.5,-1.7L5,-1.6L2.2,0.7L3.1,4.3L0,2.2L-3.1,4.3L-2.2,0.7L-5,-1.6L-1.5,-1.7z",
    "M-4.4,-2.4L0,-5L4.4,-2.4V2.4L0,5L-4.4,2.4z",
  ];
  const series = (name) => seriesOf.get(name) || 0;
  const colour = (name) => `s${series(name) % 8}`;
  const shape = (name) => MARKS[(series(name) + Math.floor(series(name) / 8) * 3) % 8];
  const dash = (name) => `d${Math.floor(series(name) / 2) % 4}`;
  const glyph = (name) => s("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" },
    s("path", { class: "glyph", d: shape(name) }));
  const key = (name) => h("span", { class: `key ${colour(name)}` }, glyph(name), h("span", {}, name));

  // -- state ------------------------------------------------------------------------------------

  const everything = () =>
    ({ hidden: new Set(), tol: "", instance: "", kind: "", outcome: "", start: "", text: "" });
  let filter = everything();
  function matches(run) {
    if (filter.hidden.has(run.solver)) return false;
    for (const field of ["instance", "kind", "start"]) {
      if (filter[field] && run[field] !== filter[field]) return false;
    }
    if (filter.tol && String(run.tol) !== filter.tol) return false;
    if (filter.outcome && run.verdict !== filter.outcome) return false;
    return !filter.text || filter.text.toLowerCase().split(/\s+/).every((word) => run.words.includes(word));
  }
  for (const run of runs) {
    run.words = [run.suite, run.instance, run.kind, run.solver, run.outcome, run.start,
      run.native_status, run.message, verdict(run.verdict).label].join(" ").toLowerCase();
  }
  const distinct = (field) => [...new Set(runs.map((run) => run[field]))];

  // -- tables -----------------------------------------------------------------------------------

  // columns: {title, cell(row), value(row), numeric, minor, header}; unknown values sort last.
  function table({ columns, rows, caption, tall, sortBy, descending, name }) {
    const state = { column: sortBy ?? -1, down: Boolean(descending) };
    const body = h("tbody");
    const heads = columns.map((column, k) => h("th",
      { scope: "col", class: classes(column), "aria-sort": "none" },
      h("button", { type: "button", onclick: () => sort(k) }, column.title)));
    function order(a, b) {
      const value = columns[state.column].value;
      const x = value(a), y = value(b);
      if (typeof x === "string" || typeof y === "string") {
        return (state.down ? -1 : 1) * String(x).localeCompare(String(y), "en", { numeric: true });
      }
      if (!known(x) || !known(y)) return Number(!known(x)) - Number(!known(y));
      return state.down ? y - x : x - y;
    }
    function fill() {
      const shown = state.column < 0 ? rows : [...rows].sort(order);
      body.replaceChildren(...shown.map((row) => h("tr", {}, columns.map((column, k) =>
        h(k === 0 ? "th" : "td", { class: classes(column), scope: k === 0 ? "row" : null },
          column.cell(row))))));
      heads.forEach((head, k) => head.setAttribute("aria-sort",
        k !== state.column ? "none" : state.down ? "descending" : "ascending"));
    }
    function sort(k) {
      state.down = state.column === k ? !state.down : false;
      state.column = k;
      fill();
    }
    fill();
    const element = h("div",
      { class: `scroll${tall ? " tall" : ""}`, tabindex: "0", role: "region", "aria-label": name },
      h("table", {}, caption ? h("caption", {}, caption) : null,
        h("thead", {}, h("tr", {}, heads)), body));
    return { element, update(next) { rows = next; fill(); } };
  }
  const classes = (column) =>
    [column.numeric ? "num" : "", column.minor ? "minor" : "", column.wide ? "said" : ""].join(" ").trim() || null;
  const number = (title, field, format, more = {}) => ({
    title, numeric: true, value: (row) => row[field], cell: (row) => format(row[field]), ...more,
  });
  const text = (title, field, more = {}) => ({
    title, value: (row) => String(row[field]), cell: (row) => String(row[field]), ...more,
  });
  const instanceLink = (name) => h("a", { href: `#instance/${encodeURIComponent(name)}` }, name);
  const columnsOfRuns = () => [
    { title: "instance", value: (r) => r.instance, cell: (r) => instanceLink(r.instance) },
    number("n", "n", whole),
    { title: "solver", value: (r) => r.solver, cell: (r) => key(r.solver) },
    number("tol", "tol", tolerance),
    ...(distinct("start").length > 1 ? [text("start", "start")] : []),
    { title: "outcome", value: (r) => verdict(r.verdict).label, cell: badge },
    number("total s", "total", seconds),
    number("compile s", "compile", seconds, { minor: true }),
    number("setup s", "setup", seconds, { minor: true }),
    number("solve s", "solve", seconds),
    number("certify s", "certify", seconds),
    number("gap", "gap", scientific),
    number("primal residual", "primal_residual", scientific, { minor: true }),
    number("dual residual", "dual_residual", scientific, { minor: true }),
    number("iterations", "iterations", whole),
    number("peak MiB", "peak", mebibytes),
  ];

  // -- charts -----------------------------------------------------------------------------------

  const log = (lo, hi) => {
    if (!(lo > 0)) lo = 1e-12;
    if (!(hi > lo)) { hi = lo * 3; lo = lo / 3; }
    const a = Math.log10(lo), b = Math.log10(hi), pad = (b - a) * 0.05 || 0.1;
    return { of: (x) => (Math.log10(Math.max(x, 1e-300)) - a + pad) / (b - a + 2 * pad), lo: a - pad, hi: b + pad, log: true };
  };
  const linear = (lo, hi) => {
    if (!(hi > lo)) { hi = lo + 1; }
    return { of: (x) => (x - lo) / (hi - lo), lo, hi, log: false };
  };
  function ticks(scale, room) {
    if (!scale.log) {
      const rough = (scale.hi - scale.lo) / room;
      const power = 10 ** Math.floor(Math.log10(rough));
      const fair = power * [1, 2, 5, 10].find((m) => m * power >= rough);
      const step = scale.whole ? Math.max(1, fair) : fair;
      const out = [];
      for (let x = Math.ceil(scale.lo / step) * step; x <= scale.hi + step * 1e-9; x += step) out.push(Number(x.toPrecision(12)));
      return out;
    }
    const span = scale.hi - scale.lo;
    const steps = span < 1.3 ? [1, 2, 3, 5] : span < 2.2 ? [1, 3] : [1];
    const every = Math.max(1, Math.ceil(span / room));
    const out = [];
    for (let e = Math.floor(scale.lo); e <= Math.ceil(scale.hi); e += 1) {
      if (e % every) continue;
      for (const m of steps) {
        const at = Math.log10(m) + e;
        if (at >= scale.lo - 1e-9 && at <= scale.hi + 1e-9) out.push(Number((m * 10 ** e).toPrecision(3)));
      }
    }
    return out;
  }
  const tickLabel = (x) => (x !== 0 && (Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3) ? scientific(x, 0) : String(x));

  // marks: {x, y, solver, open, band, lines: [title, …]}; curves: {solver, points: [[x, y], …]}.
  function chart({ id, title, about, marks = [], curves = [], xScale, yScale, xTitle, yTitle, wide, labels, limits = [], note, square }) {
    const W = wide ? 1080 : square ? 340 : 540, H = square ? 300 : wide ? 380 : 360;
    const narrow = window.innerWidth < 640;
    const width = narrow && !square ? 400 : W, height = narrow && !square ? 330 : H;
    const banded = marks.some((m) => m.band);
    const left = yTitle ? 58 : 14, right = labels && !narrow ? (wide ? 118 : 92) : 16, top = banded ? 48 : 22, bottom = xTitle ? 46 : 14;
    const X = (x) => left + xScale.of(x) * (width - left - right);
    const Y = (y) => height - bottom - yScale.of(y) * (height - top - bottom);
    const svg = s("svg", { class: "chart", id, viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0",
      "aria-label": `${title}. ${about || ""} ${plural(marks.length, "point")}; arrow keys read them.` });
    if (xTitle) {
      for (const t of ticks(xScale, narrow ? 5 : 7)) {
        svg.append(s("line", { class: "grid", x1: X(t), x2: X(t), y1: top, y2: height - bottom }),
          s("text", { x: X(t), y: height - bottom + 17, "text-anchor": "middle" }, tickLabel(t)));
      }
      for (const t of ticks(yScale, 6)) {
        svg.append(s("line", { class: "grid", x1: left, x2: width - right, y1: Y(t), y2: Y(t) }),
          s("text", { x: left - 8, y: Y(t) + 4, "text-anchor": "end" }, tickLabel(t)));
      }
      svg.append(
        s("text", { class: "axis-title", x: width - right, y: height - 9, "text-anchor": "end" }, xTitle),
        s("text", { class: "axis-title", x: left - 46, y: 14 }, yTitle));
    }
    if (banded) {
      svg.append(s("rect", { class: "band", x: left, width: width - left - right, y: 22, height: 20, rx: 3 }),
        s("text", { x: left - 8, y: 36, "text-anchor": "end" }, "failed"));
    }
    for (const limit of limits) {
      svg.append(s("line", { class: "limit", x1: left, x2: width - right, y1: Y(limit.y), y2: Y(limit.y) }),
        s("text", { x: left + 6, y: Y(limit.y) - 4 }, limit.label));
    }
    const drawn = new Set();
    for (const curve of curves) {
      const path = curve.points.map(([x, y], k) => `${k ? "L" : "M"}${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join("");
      svg.append(s("path", { class: `curve ${colour(curve.solver)} ${dash(curve.solver)}`, d: path, "data-solver": curve.solver }));
      drawn.add(curve.solver);
    }
    if (labels && !narrow) endLabels(svg, curves, X, Y, width - right + 8, top, height - bottom);
    const points = marks.map((m) => {
      const at = { ...m, px: X(m.x) + (m.shift || 0), py: m.band ? 32 : Y(m.y) };
      at.node = s("path", { class: `dot ${colour(m.solver)}${m.open ? " open" : ""}`, d: shape(m.solver),
        transform: `translate(${at.px.toFixed(1)},${at.py.toFixed(1)})${m.small ? " scale(0.55)" : ""}` });
      return at;
    });
    svg.append(...points.map((p) => p.node));
    hoverable(svg, points, width, height);
    return h("figure", { class: wide ? "wide" : null },
      h("figcaption", {}, h("h3", {}, title), about ? h("p", {}, about) : null), svg, note ? h("p", { class: "note" }, note) : null);
  }
  function endLabels(svg, curves, X, Y, x, top, bottom) {
    const ends = curves.filter((c) => c.points.length).map((c) => {
      const [, y] = c.points[c.points.length - 1];
      return { solver: c.solver, label: c.label || c.solver, y: Y(y) + 4 };
    }).sort((a, b) => a.y - b.y);
    for (let k = 1; k < ends.length; k += 1) ends[k].y = Math.max(ends[k].y, ends[k - 1].y + 14);
    const over = ends.length ? ends[ends.length - 1].y - bottom : 0;
    if (over > 0) for (const end of ends) end.y = Math.max(top, end.y - over);
    for (const end of ends) svg.append(s("text", { class: `label ${colour(end.solver)}`, x, y: end.y }, end.label));
  }
  function hoverable(svg, points, width, height) {
    const sorted = [...points].sort((a, b) => a.px - b.px || a.py - b.py);
    let at = -1;
    const show = (point) => {
      sorted.forEach((p) => p.node.classList.toggle("on", p === point));
      at = sorted.indexOf(point);
      if (!point) { tip.hidden = true; return; }
      const box = svg.getBoundingClientRect();
      const [first, ...rest] = point.lines;
      tip.replaceChildren(h("b", {}, first), ...rest.map((line) => h("div", {}, line)));
      tip.hidden = false;
      const x = box.left + (point.px / width) * box.width, y = box.top + (point.py / height) * box.height;
      const w = tip.offsetWidth, tall = tip.offsetHeight;
      tip.style.left = `${Math.max(6, Math.min(x + 14, window.innerWidth - w - 6))}px`;
      tip.style.top = `${y - tall - 12 < 60 ? y + 16 : y - tall - 12}px`;
    };
    const nearest = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * width, y = ((event.clientY - box.top) / box.height) * height;
      let best = null, distance = 28 ** 2;
      for (const p of sorted) {
        const d = (p.px - x) ** 2 + (p.py - y) ** 2;
        if (d < distance) { best = p; distance = d; }
      }
      show(best);
    };
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", nearest);
    svg.addEventListener("pointerleave", () => show(null));
    svg.addEventListener("blur", () => show(null));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") show(null);
      if (!step || !sorted.length) return;
      event.preventDefault();
      show(sorted[at < 0 ? (step > 0 ? 0 : sorted.length - 1) : (at + step + sorted.length) % sorted.length]);
    });
  }
  const extent = (values) => {
    const v = values.filter((x) => known(x) && x > 0);
    return v.length ? [Math.min(...v), Math.max(...v)] : [1, 10];
  };
  const about = (run) => [
    `${run.solver} · ${run.instance}`,
    `${verdict(run.verdict).label} at tol ${tolerance(run.tol)}${run.start === "warm" ? ", warm start" : ""}`,
    `${seconds(run.total)} s, gap ${scientific(run.gap)}`,
  ];

  function timeAgainstSize(shown) {
    const cells = [...groups(shown.filter((r) => known(r.total) && r.n > 0), (r) => [r.solver, r.instance, r.tol, r.start].join("\u0000")).values()];
    const marks = cells.map((rows) => {
      const won = rows.filter((r) => r.success);
      const run = (won.length ? won : rows)[0];
      const time = median((won.length ? won : rows).map((r) => r.total));
      return { x: run.n, y: time, solver: run.solver, open: !won.length, band: !won.length,
        lines: [...about({ ...run, total: time }), `n = ${run.n}, ${plural(run.n_rows, "row")}`] };
    });
    const proven = marks.filter((m) => !m.band);
    const names = solvers.filter((name) => marks.some((m) => m.solver === name));
    // Side by side where they would cover each other.
    for (const m of marks) m.shift = (names.indexOf(m.solver) - (names.length - 1) / 2) * Math.min(7, (window.innerWidth < 640 ? 24 : 44) / names.length);
    return chart({ id: "chart-time", title: "Time against size", wide: true,
      about: "Seconds from problem to certificate, against the number of points. Median over repeats.",
      marks, xScale: log(...extent(marks.map((m) => m.x))), yScale: log(...extent(proven.map((m) => m.y))),
      xTitle: "points n", yTitle: "seconds" });
  }
  function performanceProfile(shown) {
    const tasks = groups(shown, (r) => [r.instance, r.tol, r.start].join("\u0000"));
    const names = solvers.filter((name) => shown.some((r) => r.solver === name));
    const ratios = new Map(names.map((name) => [name, []]));
    let largest = 1, solved = 0;
    for (const rows of tasks.values()) {
      const time = new Map(names.map((name) => [name,
        median(rows.filter((r) => r.solver === name && r.success).map((r) => r.total))]));
      const best = Math.min(...[...time.values()].filter(known));
      if (!known(best)) continue;
      solved += 1;
      for (const [name, t] of time) {
        if (!known(t)) continue;
        ratios.get(name).push(t / best);
        largest = Math.max(largest, t / best);
      }
    }
    const end = Math.max(10, largest * 1.15);
    const curves = [], marks = [];
    for (const [name, values] of ratios) {
      values.sort((a, b) => a - b);
      const points = [[1, 0]];
      values.forEach((ratio, k) => {
        points.push([ratio, k / solved], [ratio, (k + 1) / solved]);
        marks.push({ x: ratio, y: (k + 1) / solved, solver: name, small: true,
          lines: [name, `certified on ${k + 1} of ${solved} within ${significant(ratio, 2)} × the fastest`] });
      });
      points.push([end, values.length / Math.max(solved, 1)]);
      curves.push({ solver: name, points });
    }
    const xScale = { ...log(1, end) };
    return chart({ id: "chart-profile", title: "Performance profile", labels: true,
      about: "The share of tasks that a solver certified within a factor of the fastest one, of those that any solved.",
      marks, curves, xScale, yScale: linear(0, 1.03), xTitle: "times the fastest", yTitle: "share of tasks" });
  }
  function gapAgainstTime(shown) {
    const plotted = shown.filter((r) => known(r.gap) && known(r.total));
    const floor = 1e-12;
    const marks = plotted.map((r) => ({ x: r.total, y: Math.max(r.gap, floor), solver: r.solver, open: !r.success, lines: about(r) }));
    const lost = shown.filter((r) => r.verdict !== "refused").length - plotted.length;
    const tols = data.tols.filter((t) => shown.some((r) => r.tol === t));
    return chart({ id: "chart-gap", title: "Exactness against time",
      about: "The certified relative gap. Filled: certified. Hollow: not.",
      marks, xScale: log(...extent(marks.map((m) => m.x))),
      yScale: log(...extent([...marks.map((m) => m.y), ...tols])), xTitle: "seconds", yTitle: "certified gap",
      limits: tols.map((t) => ({ y: t, label: `tol ${tolerance(t)}` })),
      note: lost > 0 ? `${plural(lost, "run")} left no answer to measure.` : null });
  }

  // -- sections ---------------------------------------------------------------------------------

  function head() {
    const certified = runs.filter((r) => r.success).length;
    const lied = runs.filter((r) => r.verdict === "lied").length;
    const late = runs.filter((r) => r.verdict === "timeout" || r.verdict === "time_limit").length;
    const denied = ["lied", "timeout", "contradicted"];
    const lost = runs.filter((r) => verdict(r.verdict).tone === "bad" && !denied.includes(r.verdict)).length;
    const contradicted = runs.filter((r) => r.verdict === "contradicted").length;
    const tried = runs.filter((r) => r.verdict !== "refused").length;
    const fact = (title, value, more) => h("div", {}, h("dt", {}, title), h("dd", {}, value, h("small", {}, more)));
    return h("section", { id: "overview" },
      h("h1", {}, data.title),
      h("p", { class: "lede" }, ...data.lede.map((part, k) => (k % 2 ? h("strong", {}, part) : part))),
      h("dl", { class: "facts" },
        fact("Certified", `${certified} of ${tried}`, tried < runs.length
          ? `runs proven; ${runs.length - tried} more were not attempted` : "runs whose answer was proven"),
        fact("Not as claimed", String(lied), "the solver said done, the certificate did not"),
        contradicted ? fact("Contradicted", String(contradicted), "excluded by a bound that another solver has proven") : null,
        fact("Out of time", String(late), "stopped at the limit, by themselves or from outside"),
        fact("Crashed or ran out", String(lost), "of memory, or of luck"),
        fact("Tasks", plural(data.instances.length, "instance"), `${plural(solvers.length, "solver")}, ${plural(data.tols.length, "tolerance")}`)));
  }
  function summaries() {
    const rows = data.summary;
    const best = new Map(data.tols.map((t) => [t, Math.min(...rows.filter((r) => r.tol === t && known(r.mean)).map((r) => r.mean))]));
    const widest = Math.max(...rows.map((r) => (known(r.mean) ? r.mean : 0)), 1e-9);
    const columns = (t) => [
      { title: "solver", value: (r) => r.solver, cell: (r) => key(r.solver) },
      { title: "certified", value: (r) => r.certified / Math.max(r.runs, 1), cell: (r) => {
        const fill = h("i");
        fill.style.width = `${(100 * r.certified) / Math.max(r.runs, 1)}%`;
        return [h("span", { class: "meter", "aria-hidden": "true" }, fill), `${r.certified} of ${r.runs}`];
      } },
      { title: "geometric mean s", numeric: true, value: (r) => r.mean, cell: (r) => {
        const bar = h("span", { class: `bar ${colour(r.solver)}`, "aria-hidden": "true" });
        bar.style.width = `${known(r.mean) ? Math.max(0.1, 5 * (Math.log10(1 + 99 * r.mean / widest) / 2)) : 0}rem`;
        return [known(r.mean) ? bar : null, h("span", { class: r.mean === best.get(t) ? "best" : null }, seconds(r.mean))];
      } },
      number("× fastest", "relative", (x) => significant(x, 2)),
      number("not as claimed", "lied", whole),
      number("out of time", "timeouts", whole),
      number("otherwise failed", "failed", whole),
      number("not attempted", "refused", whole),
      number("peak MiB", "peak", mebibytes),
    ];
    return h("section", { id: "summary" },
      h("h2", {}, "Summary"),
      h("p", { class: "soft" }, data.mean_words),
      h("div", { class: "tables" }, data.tols.map((t) => table({
        columns: columns(t), rows: rows.filter((r) => r.tol === t), name: `Summary at tolerance ${tolerance(t)}`,
        caption: [`To a tolerance of ${tolerance(t)}`],
      }).element)));
  }
  function matrix(shown, tol) {
    const rows = [...groups(shown.filter((r) => r.tol === tol), (r) => r.instance).values()];
    const names = solvers.filter((name) => shown.some((r) => r.solver === name && r.tol === tol));
    const pick = (row, name) => {
      const of = row.filter((r) => r.solver === name && r.start === "cold");
      const mine = of.length ? of : row.filter((r) => r.solver === name);
      const won = mine.filter((r) => r.success);
      return won.length ? { ...won[0], total: median(won.map((r) => r.total)) } : mine[0];
    };
    const columns = [
      { title: "instance", value: (row) => row[0].instance, cell: (row) => instanceLink(row[0].instance) },
      { title: "n", numeric: true, value: (row) => row[0].n, cell: (row) => whole(row[0].n) },
      ...names.map((name) => ({ title: name, numeric: true,
        value: (row) => { const run = pick(row, name); return run && run.success ? run.total : NaN; },
        cell: (row) => {
          const run = pick(row, name);
          if (!run) return "";
          if (run.verdict === "refused") return h("span", { class: "soft", title: verdict("refused").label }, "–");
          if (!run.success) return badge(run);
          const best = Math.min(...names.map((other) => pick(row, other)).filter((r) => r && r.success).map((r) => r.total));
          return h("span", { class: run.total === best ? "best" : null }, seconds(run.total));
        } })),
    ];
    return table({ columns, rows, name: `Seconds by instance and solver at tolerance ${tolerance(tol)}`,
      caption: [`Seconds, tolerance ${tolerance(tol)}`, h("small", {}, "the fastest in bold; failures by name; – not attempted")] }).element;
  }

  function filters(onchange) {
    const choose = (label, field, options, name = (x) => x) => {
      const select = h("select", { id: `filter-${field}`, onchange: (e) => { filter[field] = e.target.value; onchange(); } },
        h("option", { value: "" }, "all"),
        options.map((o) => h("option", { value: String(o), selected: filter[field] === String(o) }, name(o))));
      return h("label", {}, label, select);
    };
    const chips = solvers.map((name) => h("button", {
      type: "button", class: `chip ${colour(name)}`, "aria-pressed": String(!filter.hidden.has(name)), "data-solver": name,
      onclick: (event) => {
        const on = filter.hidden.has(name);
        filter.hidden[on ? "delete" : "add"](name);
        event.currentTarget.setAttribute("aria-pressed", String(on));
        onchange();
      } }, glyph(name), h("span", {}, name)));
    const starts = distinct("start");
    return h("form", { class: "filters", id: "filters", role: "search", "aria-label": "Filter charts and tables", onsubmit: (e) => e.preventDefault() },
      h("fieldset", {}, h("legend", {}, "Solvers"), chips),
      choose("Tolerance", "tol", data.tols, tolerance),
      choose("Kind", "kind", distinct("kind")),
      choose("Instance", "instance", data.instances.map((i) => i.name)),
      choose("Outcome", "outcome", [...new Set(runs.map((r) => r.verdict))], (v) => verdict(v).label),
      starts.length > 1 ? choose("Start", "start", starts) : null,
      h("label", { class: "grow" }, "Text",
        h("input", { type: "search", id: "filter-text", value: filter.text, placeholder: "name, message, status …",
          oninput: (e) => { filter.text = e.target.value.trim(); onchange(); } })),
      h("button", { type: "button", class: "quiet", id: "reset", onclick: () => { filter = everything(); overview(); document.getElementById("charts").scrollIntoView(); } }, "Reset"));
  }
  function download(rows) {
    const fields = data.fields;
    const quote = (value) => {
      const words = value === null || value === undefined ? "" : String(value);
      return /[",\n\r]/.test(words) ? `"${words.replace(/"/g, '""')}"` : words;
    };
    const lines = [fields.join(","), ...rows.map((row) => fields.map((f) => quote(row[f])).join(","))];
    const link = h("a", { href: URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" })), download: "runs.csv" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  let redraw = () => {};
  function overview() {
    const charts = h("div", { class: "charts" });
    const matrices = h("div", { class: "tables" });
    const count = h("p", { class: "count", id: "count", "aria-live": "polite" });
    const all = table({ columns: columnsOfRuns(), rows: runs, tall: true, name: "All runs" });
    all.element.id = "runs-table";
    let shown = runs;
    redraw = () => {
      shown = runs.filter(matches);
      const nothing = h("p", { class: "soft" }, "No run passes the filters.");
      charts.replaceChildren(...(shown.length
        ? [timeAgainstSize(shown), performanceProfile(shown), gapAgainstTime(shown)] : [nothing]));
      matrices.replaceChildren(...data.tols.filter((t) => shown.some((r) => r.tol === t)).map((t) => matrix(shown, t)));
      all.update(shown);
      count.textContent = shown.length === runs.length ? `All ${plural(runs.length, "run")}.` : `${shown.length} of ${plural(runs.length, "run")}.`;
    };
    const used = new Set(runs.map((r) => r.verdict));
    main.replaceChildren(
      head(), summaries(),
      h("section", { id: "charts" }, h("h2", {}, "Charts"),
        h("p", { class: "soft" }, "The filters act on everything below. A solver keeps its colour, marker and dash throughout; point at a mark, or focus a chart and use the arrow keys, for its values."),
        filters(() => redraw()), charts),
      h("section", { id: "matrix" }, h("h2", {}, "Who solved what"), matrices,
        h("ul", { class: "legend" }, [...used].map((v) => h("li", {}, badge({ verdict: v }), ` ${verdict(v).means}`)))),
      h("section", { id: "runs" }, h("h2", {}, "Every run"),
        h("div", { class: "crumbs" }, count,
          h("button", { type: "button", class: "quiet", id: "download", onclick: () => download(shown) }, "Save these as CSV")),
        all.element),
      h("section", { id: "instances" }, h("h2", {}, "Instances"), h("ul", { class: "cards" }, data.instances.map(card))),
      rerun());
    redraw();
  }
  function card(instance) {
    const mine = runs.filter((r) => r.instance === instance.name);
    const won = mine.filter((r) => r.success);
    const fastest = won.reduce((a, b) => (a && a.total <= b.total ? a : b), null);
    return h("li", {}, h("a", { href: `#instance/${encodeURIComponent(instance.name)}` },
      h("h3", {}, instance.name),
      h("p", {}, instance.description),
      h("div", { class: "ticks soft" }, `n = ${instance.n} · ${won.length} of ${mine.length} certified`,
        fastest ? ` · ${fastest.solver} ${seconds(fastest.total)} s` : null)));
  }
  function rerun() {
    const command = h("pre", { id: "command" }, data.command);
    const copy = h("button", { type: "button", class: "quiet", onclick: async () => {
      try { await navigator.clipboard.writeText(data.command); copy.textContent = "Copied"; }
      catch { const range = document.createRange(); range.selectNodeContents(command); const at = getSelection(); at.removeAllRanges(); at.addRange(range); }
    } }, "Copy");
    return h("section", { id: "rerun" },
      h("h2", {}, "Measured on, and how to do it again"),
      h("p", {}, "Every run had a process of its own. A time counts only if the certificate, recomputed from the returned numbers, proved the answer to the tolerance."),
      h("div", { class: "command" }, command, copy),
      h("p"),
      h("dl", { class: "plainlist" }, data.environment.map(([k, v]) => [h("dt", {}, k), h("dd", {}, v)])),
      h("h3", { id: "versions" }, "Solvers"),
      h("dl", { class: "plainlist" }, data.solvers.map((x) => [h("dt", {}, key(x.name)), h("dd", {}, x.version || "–")])));
  }

  // -- one instance -----------------------------------------------------------------------------

  function historyCharts(mine) {
    const with_history = mine.filter((r) => r.history.length > 1);
    const measures = [...new Set(with_history.flatMap((r) => r.history.flatMap((row) => Object.keys(row))))]
      .filter((name) => name !== "iteration" && with_history.some((r) => new Set(r.history.map((row) => row[name]).filter(known)).size > 1));
    if (!measures.length) return null;
    const preferred = ["gap", "relative_gap", "objective", "mu"].find((name) => measures.includes(name)) || measures[0];
    const several = new Set(with_history.map((r) => r.tol)).size > 1;
    const box = h("div", { class: "charts" });
    const draw = (measure) => {
      const curves = [], marks = [];
      for (const r of with_history) {
        const points = r.history.map((row, k) => [known(row.iteration) ? row.iteration : k + 1, row[measure]]).filter(([, y]) => known(y));
        if (points.length < 2) continue;
        curves.push({ solver: r.solver, points, label: several ? `${r.solver} ${tolerance(r.tol)}` : r.solver });
        for (const [x, y] of points) marks.push({ x, y, solver: r.solver, small: true, lines: [`${r.solver}, tol ${tolerance(r.tol)}`, `iteration ${x}: ${significant(y, 4)}`] });
      }
      const values = marks.map((m) => m.y);
      const positive = values.every((y) => y > 0) && Math.max(...values) > 30 * Math.min(...values);
      const lo = Math.min(...values), hi = Math.max(...values);
      box.replaceChildren(chart({ id: "chart-history", title: `History: ${measure.replaceAll("_", " ")}`, wide: true, labels: true,
        about: "What each engine recorded on its way; other solvers keep no record.", marks, curves,
        xScale: { ...linear(0, Math.max(...marks.map((m) => m.x), 1)), whole: true }, yScale: positive ? log(lo, hi) : linear(lo, hi > lo ? hi : lo + 1), xTitle: "iteration", yTitle: measure.replaceAll("_", " ") }));
    };
    draw(preferred);
    return h("section", { id: "history" }, h("h2", {}, "On the way"),
      h("form", { class: "filters", onsubmit: (e) => e.preventDefault() }, h("label", {}, "Measure",
        h("select", { id: "measure", onchange: (e) => draw(e.target.value) }, measures.map((m) => h("option", { value: m, selected: m === preferred }, m.replaceAll("_", " ")))))),
      box);
  }
  // The best rotation or reflection of points onto others, both centred: in the plane a closed form.
  function aligned(points, onto) {
    const centre = (p) => p.map(([x, y]) => [x - p.reduce((a, q) => a + q[0], 0) / p.length, y - p.reduce((a, q) => a + q[1], 0) / p.length]);
    const from = centre(points), to = centre(onto);
    if (from.length !== to.length) return from;
    const turned = [1, -1].map((sign) => {
      let c = 0, d = 0;
      from.forEach(([x, y], k) => {
        c += x * to[k][0] + sign * y * to[k][1];
        d += x * to[k][1] - sign * y * to[k][0];
      });
      return { sign, size: Math.hypot(c, d) || 1, c, d };
    });
    const { sign, size, c, d } = turned[0].size >= turned[1].size ? turned[0] : turned[1];
    return from.map(([x, y]) => [(c * x - d * sign * y) / size, (d * x + c * sign * y) / size]);
  }
  function embedding(run, first, rank) {
    const points = aligned(run.coordinates, first.coordinates);
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
    const wide = Math.max(...xs) - Math.min(...xs), high = Math.max(...ys) - Math.min(...ys);
    const span = Math.max(wide, high, 1e-12);
    const mx = (Math.max(...xs) + Math.min(...xs)) / 2, my = (Math.max(...ys) + Math.min(...ys)) / 2;
    const svg = s("svg", { class: "chart", viewBox: "-106 -80 212 160", role: "img",
      "aria-label": `The ${points.length} points in the plane, as ${run.solver} placed them` });
    const unit = Math.min(200 / Math.max(wide, 1e-12 * span, 1e-300), 148 / Math.max(high, 1e-12 * span, 1e-300));
    points.forEach(([x, y], k) => {
      const dot = s("circle", { cx: (unit * (x - mx)).toFixed(2), cy: (-unit * (y - my)).toFixed(2), r: points.length > 400 ? 1.3 : points.length < 60 ? 3.2 : 2 });
      dot.style.fill = `color-mix(in oklab, var(--c5) ${Math.round(100 * (1 - rank[k]))}%, var(--c0))`;
      svg.append(dot);
    });
    return h("figure", {}, svg, h("figcaption", {}, key(run.solver), h("p", {}, `tol ${tolerance(run.tol)}, ${verdict(run.verdict).label}`)));
  }
  function embeddings(mine) {
    const drawn = [...groups(mine.filter((r) => r.coordinates && r.coordinates.length), (r) => r.solver).values()]
      .map((rows) => rows.reduce((a, b) => (b.success && (!a.success || b.tol < a.tol) ? b : a)));
    if (!drawn.length) return null;
    const gap = (r) => (r.success && known(r.gap) ? r.gap : Infinity);
    const first = drawn.reduce((a, b) => (gap(b) < gap(a) ? b : a));
    const rank = [];
    first.coordinates.map((p, k) => [p[0], k]).sort((a, b) => a[0] - b[0])
      .forEach(([, k], place) => { rank[k] = place / Math.max(1, first.coordinates.length - 1); });
    return h("section", { id: "embeddings" }, h("h2", {}, "Embeddings"),
      h("p", { class: "soft" }, `The first two dimensions of each answer, turned onto that of ${first.solver}, the most exact one. A point keeps its colour: its place along the first axis there.`),
      h("div", { class: "embeddings" }, drawn.map((run) => embedding(run, first, run.coordinates.length === rank.length ? rank : run.coordinates.map((_, k) => k / run.coordinates.length)))));
  }
  function instancePage(name) {
    const at = data.instances.findIndex((i) => i.name === name);
    if (at < 0) { location.hash = "#overview"; return; }
    const instance = data.instances[at];
    const mine = runs.filter((r) => r.instance === name);
    const next = data.instances[(at + 1) % data.instances.length];
    const columns = [
      { title: "solver", value: (r) => r.solver, cell: (r) => key(r.solver) },
      number("tol", "tol", tolerance),
      ...(distinct("start").length > 1 ? [text("start", "start")] : []),
      { title: "outcome", value: (r) => verdict(r.verdict).label, cell: badge },
      number("total s", "total", seconds),
      number("objective", "objective", (x) => significant(x, 8)),
      number("safe bound", "bound", (x) => significant(x, 8)),
      number("gap", "gap", scientific),
      number("off reference", "reference_error", scientific),
      number("primal residual", "primal_residual", scientific),
      number("dual residual", "dual_residual", scientific),
      number("iterations", "iterations", whole),
      number("peak MiB", "peak", mebibytes, { minor: true }),
      { title: "its own words", wide: true, value: (r) => r.native_status, cell: ownWords },
    ];
    const stacked = mine.filter((r) => known(r.total));
    main.replaceChildren(
      h("p", { class: "crumbs" }, h("a", { href: "#instances" }, "← All instances"),
        data.instances.length > 1 ? h("a", { href: `#instance/${encodeURIComponent(next.name)}` }, `${next.name} →`) : null),
      h("section", { id: "instance" }, h("h1", {}, instance.name), h("p", { class: "lede" }, instance.description),
        h("dl", { class: "plainlist" },
          [["kind", instance.kind], ["size", `${instance.n} points, ${plural(instance.n_rows, "row")}`],
            ["source", instance.source], ["reference optimum", known(instance.reference) ? significant(instance.reference, 10) : "none"],
            ["fingerprint", instance.fingerprint]].map(([k, v]) => [h("dt", {}, k), h("dd", {}, v || "–")]))),
      h("section", {}, h("h2", {}, "Answers"), table({ columns, rows: mine, sortBy: 4 - Number(distinct("start").length < 2), name: `Runs on ${name}` }).element),
      stacked.length ? h("section", {}, h("h2", {}, "Where the time went"), times(stacked)) : null,
      historyCharts(mine),
      embeddings(mine),
      rerun());
  }
  const ownWords = (r) => (r.message
    ? h("details", {}, h("summary", {}, r.native_status || "what happened"), h("p", {}, r.message))
    : r.native_status || "–");
  function times(mine) {
    const parts = ["compile", "setup", "solve", "certify"];
    return table({ name: "Seconds by part", sortBy: 6, rows: mine, columns: [
      { title: "solver", value: (r) => r.solver, cell: (r) => key(r.solver) },
      number("tol", "tol", tolerance),
      ...parts.map((part) => ({ ...number(`${part} s`, part, seconds) })),
      number("total s", "total", seconds),
      { title: "share of solve", numeric: true, value: (r) => r.solve / r.total, cell: (r) => (known(r.solve / r.total) ? `${Math.round((100 * r.solve) / r.total)} %` : "–") },
    ] }).element;
  }

  // -- moving about -----------------------------------------------------------------------------

  function route() {
    tip.hidden = true;
    const [place, name] = location.hash.slice(1).split("/");
    if (place === "instance" && name) {
      redraw = () => {};
      instancePage(decodeURIComponent(name));
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
      return;
    }
    if (!document.getElementById("charts") || document.getElementById("instance")) overview();
    const target = place && document.getElementById(place);
    if (target) target.scrollIntoView();
  }
  const themes = ["", "light", "dark"], words = ["as the system", "light", "dark"];
  const button = document.getElementById("theme");
  let theme = 0;
  try { theme = Math.max(0, themes.indexOf(localStorage.getItem("sdpkit-theme") || "")); } catch { /* files may have no storage */ }
  function paint() {
    if (themes[theme]) document.documentElement.dataset.theme = themes[theme];
    else delete document.documentElement.dataset.theme;
    button.textContent = ["◐", "☀", "☾"][theme];
    button.setAttribute("aria-label", `Colour theme: ${words[theme]}`);
    button.title = `Colour theme: ${words[theme]}`;
  }
  button.addEventListener("click", () => {
    theme = (theme + 1) % 3;
    paint();
    try { localStorage.setItem("sdpkit-theme", themes[theme]); } catch { /* as above */ }
  });
  let wasNarrow = window.innerWidth < 640;
  window.addEventListener("resize", () => {
    tip.hidden = true;
    const narrow = window.innerWidth < 640;
    if (narrow !== wasNarrow) { wasNarrow = narrow; redraw(); }
  });
  window.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
  window.addEventListener("hashchange", route);
  paint();
  route();
})();
