"use strict";
// Theme: that of the system until the button is pressed; the choice is stored if the browser allows it.
(() => {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("bdkn-theme"); } catch { return null; } };
  const store = (theme) => { try { localStorage.setItem("bdkn-theme", theme); } catch { /* the choice lasts as long as the page */ } };
  if (stored()) root.dataset.theme = stored();
  document.getElementById("theme").addEventListener("click", () => {
    const dark = (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
    root.dataset.theme = dark ? "light" : "dark";
    store(root.dataset.theme);
  });
})();
// Tooltips: values of the dot or bar under the pointer.
(() => {
  const tip = document.getElementById("tip");
  document.addEventListener("pointerover", (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !mark;
    if (mark) tip.textContent = mark.dataset.tip;
  });
  document.addEventListener("pointermove", (event) => {
    if (tip.hidden) return;
    const box = tip.getBoundingClientRect(), room = 12;
    tip.style.left = `${Math.max(4, Math.min(event.clientX + room, innerWidth - box.width - 4))}px`;
    tip.style.top = `${event.clientY + room + box.height > innerHeight ? event.clientY - box.height - room : event.clientY + room}px`;
  });
})();
