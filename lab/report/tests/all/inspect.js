// Put into a copy of a page by the test `browser`: tells the frame around the page, as JSON,
// what a reader would see go wrong.
const problems = [];
addEventListener("error", (event) => problems.push(`error: ${event.message}`));
addEventListener("securitypolicyviolation", (event) =>
  problems.push(`forbidden: ${event.violatedDirective} ${event.blockedURI}`));

// Text that lies over other text of its plot, or beyond the plot.
function inspectPlot(plot) {
  const page = plot.getBoundingClientRect();
  if (page.width === 0) return;
  const texts = [...plot.querySelectorAll("text")].map((text) => {
    const { left, right, top, bottom } = text.getBoundingClientRect();
    return { name: text.textContent, left, right, top, bottom };
  });
  texts.forEach((a, i) => {
    if (a.left < page.left - 1 || a.right > page.right + 1 || a.bottom > page.bottom + 1)
      problems.push(`outside its plot: ${a.name}`);
    for (const b of texts.slice(0, i)) {
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Boxes of lines include room for accents, which may overlap a little.
      if (width > 1 && height > 4) problems.push(`overlap: ${a.name} and ${b.name}`);
    }
  });
}

addEventListener("load", () => {
  const root = document.documentElement;
  document.querySelectorAll("svg").forEach(inspectPlot);
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  ids.filter((id, i) => ids.indexOf(id) < i).forEach((id) => problems.push(`twice: #${id}`));
  for (const link of document.querySelectorAll("a[href^='#']"))
    if (!document.getElementById(link.hash.slice(1))) problems.push(`leads nowhere: ${link.hash}`);
  const found = JSON.stringify({
    problems,
    width: innerWidth,
    needed: Math.max(root.scrollWidth, document.body.scrollWidth),
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    background: getComputedStyle(document.body).backgroundColor,
    experiments: [...document.querySelectorAll("[data-experiment]")].map(
      (section) => section.dataset.experiment),
    plots: document.querySelectorAll("svg[role=img]").length,
  });
  parent.postMessage(found, "*");
});
