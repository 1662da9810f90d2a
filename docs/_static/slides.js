/* One slide at a time: arrows, space, Home and End move, n shows the notes. Printing shows all slides. */
"use strict";
(() => {
  const slides = [...document.querySelectorAll(".slide")];
  const place = document.getElementById("place");
  const notes = document.getElementById("notes");
  let current = 0;

  // What is too wide for its slide is drawn smaller, and so is a slide that is too high for the window.
  function fit(slide) {
    slide.style.setProperty("--scale", 1);
    for (const part of slide.querySelectorAll("pre, div.math, table")) {
      const wide = part.matches(".math") ? part.querySelector("mjx-container") || part : part;
      for (let size = 1; size > 0.45; size -= 0.05) {
        part.style.setProperty("--size", size);
        if (wide.scrollWidth <= wide.clientWidth + 1) break;
      }
    }
    if (window.innerWidth < 800) return; // on a phone one scrolls
    const parts = [...slide.children].filter((part) => !part.classList.contains("notes"));
    const room = window.innerHeight - parseFloat(getComputedStyle(slide).paddingBottom);
    const end = () => Math.max(...parts.map((part) => part.getBoundingClientRect().bottom)) + window.scrollY;
    for (let scale = 0.95; scale > 0.5 && end() > room; scale -= 0.05) slide.style.setProperty("--scale", scale);
  }
  function show(k, focus) {
    current = Math.min(Math.max(k, 0), slides.length - 1);
    slides.forEach((slide, i) => slide.classList.toggle("shown", i === current));
    const heading = slides[current].querySelector("h1, h2").textContent;
    slides[current].setAttribute("aria-label", `${current + 1} of ${slides.length}: ${heading}`);
    place.textContent = `${current + 1} of ${slides.length}`;
    history.replaceState(null, "", `#${current + 1}`);
    window.scrollTo(0, 0);
    fit(slides[current]);
    if (focus) slides[current].focus({ preventScroll: true });
  }
  function toggleNotes() {
    const on = document.body.classList.toggle("with-notes");
    notes.setAttribute("aria-pressed", String(on));
  }
  const moves = {
    ArrowRight: () => current + 1, ArrowDown: () => current + 1, PageDown: () => current + 1, " ": () => current + 1,
    ArrowLeft: () => current - 1, ArrowUp: () => current - 1, PageUp: () => current - 1,
    Home: () => 0, End: () => slides.length - 1,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, button, a")) return;
    if (event.key === "n") toggleNotes();
    else if (event.key in moves) { event.preventDefault(); show(moves[event.key](), true); }
  });
  document.getElementById("back").addEventListener("click", () => show(current - 1));
  document.getElementById("next").addEventListener("click", () => show(current + 1));
  notes.addEventListener("click", toggleNotes);
  window.addEventListener("resize", () => fit(slides[current]));
  window.addEventListener("load", () => fit(slides[current]));
  window.addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1));
  // Formulas are set while all slides are visible: hidden ones have no size.
  const set = window.MathJax && MathJax.startup ? MathJax.startup.promise : Promise.resolve();
  set.then(() => {
    document.body.classList.add("one");
    show((Number(location.hash.slice(1)) || 1) - 1);
  });
})();
