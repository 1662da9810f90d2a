/* Figures that move: buttons and a slider for flipbooks, and edges that tell their tension.
   Frames are computed when the site is built; without this script they follow one another. */
"use strict";
(() => {
  const still = window.matchMedia("(prefers-reduced-motion: reduce)");

  function element(tag, attributes, text) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  }

  function controls(name, count) {
    const bar = element("div", { class: "moving-bar", role: "group", "aria-label": name });
    const back = element("button", { type: "button", "aria-label": "previous frame" }, "◀");
    const next = element("button", { type: "button", "aria-label": "next frame" }, "▶");
    const slider = element("input", { type: "range", min: 0, max: count - 1, step: 1, "aria-label": name });
    const shown = element("output", { class: "moving-value", "aria-live": "off" });
    return { bar, back, next, slider, shown };
  }

  function flipbook(box) {
    const frames = [...box.querySelectorAll("svg image")];
    const labels = JSON.parse(box.dataset.labels || "[]");
    const text = box.querySelector("svg title").textContent;
    const milliseconds = (1000 * Number(box.dataset.seconds || 8)) / frames.length;
    const { bar, back, next, slider, shown } = controls(`Frames. ${text}`, frames.length);
    const play = element("button", { type: "button", class: "moving-play" });
    let timer = null;

    function show(k) {
      k = (k + frames.length) % frames.length;
      frames.forEach((frame, i) => { frame.style.visibility = i === k ? "visible" : "hidden"; });
      const value = labels[k] || `${k + 1} of ${frames.length}`;
      slider.value = k;
      slider.setAttribute("aria-valuetext", value);
      shown.textContent = value;
    }
    function run(on) {
      clearInterval(timer);
      timer = on ? setInterval(() => show(Number(slider.value) + 1), milliseconds) : null;
      play.textContent = on ? "pause" : "play";
      play.setAttribute("aria-pressed", String(on));
    }
    function step(by) { run(false); show(Number(slider.value) + by); }

    frames.forEach((frame) => { frame.style.animation = "none"; });
    play.addEventListener("click", () => run(timer === null));
    back.addEventListener("click", () => step(-1));
    next.addEventListener("click", () => step(1));
    slider.addEventListener("input", () => { run(false); show(Number(slider.value)); });
    bar.addEventListener("keydown", (event) => {
      if (event.key === " " && event.target === slider) { event.preventDefault(); run(timer === null); }
    });
    bar.append(play, back, slider, next, shown);
    box.append(bar);
    show(Number(box.dataset.still || 0));
    run(labels.length === 0 && !still.matches && box.dataset.paused === undefined);
    window.addEventListener("beforeprint", () => { run(false); show(Number(box.dataset.still || 0)); });
  }

  function edgeMap(box) {
    const lines = [...box.querySelectorAll("line")];
    lines.sort((a, b) => Math.abs(b.dataset.tension) - Math.abs(a.dataset.tension));
    const name = "Edges by strength of tension";
    const { bar, back, next, slider, shown } = controls(name, lines.length);
    shown.setAttribute("aria-live", "polite");
    let chosen = null;

    function nearest(event) {
      const matrix = lines[0].getScreenCTM().inverse();
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
      const away = lines.map((line) => {
        const [x1, y1, x2, y2] = ["x1", "y1", "x2", "y2"].map((name) => Number(line.getAttribute(name)));
        const [dx, dy] = [x2 - x1, y2 - y1];
        const along = ((at.x - x1) * dx + (at.y - y1) * dy) / (dx * dx + dy * dy || 1);
        const t = Math.min(Math.max(along, 0), 1);
        return Math.hypot(at.x - x1 - t * dx, at.y - y1 - t * dy);
      });
      return away.indexOf(Math.min(...away));
    }
    function choose(k) {
      k = Math.min(Math.max(k, 0), lines.length - 1);
      if (chosen) chosen.classList.remove("chosen");
      chosen = lines[k];
      chosen.classList.add("chosen");
      slider.value = k;
      shown.textContent = chosen.querySelector("title").textContent;
      slider.setAttribute("aria-valuetext", shown.textContent);
    }
    box.querySelector("svg").addEventListener("click", (event) => choose(nearest(event)));
    back.setAttribute("aria-label", "stronger edge");
    next.setAttribute("aria-label", "weaker edge");
    back.addEventListener("click", () => choose(Number(slider.value) - 1));
    next.addEventListener("click", () => choose(Number(slider.value) + 1));
    slider.addEventListener("input", () => choose(Number(slider.value)));
    slider.value = 0;
    bar.append(back, slider, next);
    box.append(bar, shown);
    shown.textContent = "Click an edge, or use the slider, to read its tension.";
  }

  document.querySelectorAll(".flipbook").forEach(flipbook);
  document.querySelectorAll(".edge-map").forEach(edgeMap);
})();
