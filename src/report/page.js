for (const table of document.querySelectorAll("table.sorts")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const value = (row, at) => {
    const text = row.cells[at].textContent;
    const number = Number(text.replaceAll(",", ""));
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => (typeof a === typeof b && typeof a === "number" ? a - b : String(a).localeCompare(String(b)));
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, at) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") !== "descending" && (head.className === "n" || head.getAttribute("aria-sort") === "ascending");
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      rows.sort((a, b) => compare(value(a, at), value(b, at)) * (down ? -1 : 1));
      body.append(...rows);
    });
  });
  if (rows.length < 8) continue;
  const search = document.createElement("input");
  search.type = "search";
  search.placeholder = "search";
  search.setAttribute("aria-label", "search this table");
  const count = document.createElement("span");
  count.className = "soft";
  count.setAttribute("aria-live", "polite");
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const name = row.cells[0].textContent.toLowerCase();
      row.hidden = !words.every((word) => name.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = words.length ? ` ${shown} of ${rows.length}` : "";
  });
  const line = document.createElement("p");
  line.append(search, count);
  table.parentElement.before(line);
}
