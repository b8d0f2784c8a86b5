"use strict";
(() => {
  const table = document.getElementById("claim-table");
  const bodies = [...table.tBodies];
  const headers = [...table.tHead.rows[0].cells];
  const shown = document.getElementById("shown");
  const form = document.getElementById("filter");
  const text = document.getElementById("filter-text");
  const choices = ["kind", "format", "verdict"].map((name) => ({ name, select: document.getElementById(`filter-${name}`) }));
  const compare = new Intl.Collator("en", { numeric: true }).compare;
  const words = bodies.map((body) => body.textContent.toLowerCase());
  let sorted = "";

  const key = (body, column) => {
    const cell = body.rows[0].cells[column];
    if (headers[column].dataset.sort === "text") return cell.textContent.trim();
    return cell.dataset.key === "" ? null : Number(cell.dataset.key);
  };

  const order = (a, b, up) => {
    // what has no number stays last, whichever way the others go
    if (a === null || b === null) return (a === null) - (b === null);
    return (typeof a === "string" ? compare(a, b) : a - b) * up;
  };

  const say = () => {
    const count = bodies.filter((body) => !body.hidden).length;
    shown.textContent = `${count} of ${bodies.length} claims${sorted}`;
  };

  const sort = (column) => {
    const ascending = headers[column].getAttribute("aria-sort") !== "ascending";
    headers.forEach((header) => header.removeAttribute("aria-sort"));
    headers[column].setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const keyed = bodies.map((body) => [key(body, column), body]);
    keyed.sort((a, b) => order(a[0], b[0], ascending ? 1 : -1));
    table.append(...keyed.map((entry) => entry[1]));
    sorted = `, by ${headers[column].textContent.trim()}, ${ascending ? "ascending" : "descending"}`;
    say();
  };

  const filter = () => {
    const wanted = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    bodies.forEach((body, k) => {
      const chosen = choices.every(({ name, select }) => !select.value || body.dataset[name] === select.value);
      body.hidden = !(chosen && wanted.every((word) => words[k].includes(word)));
    });
    say();
  };

  headers.forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sort(column));
    header.append(button);
  });
  choices.forEach(({ name, select }) => {
    new Set(bodies.map((body) => body.dataset[name]).filter(Boolean)).forEach((value) => select.add(new Option(value, value)));
    select.addEventListener("change", filter);
  });
  text.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = shown.hidden = false;
  say();

  // a proof may stand in a document that is folded
  const unfold = () => {
    const target = document.getElementById(location.hash.slice(1));
    const folded = target && target.closest("details:not([open])");
    if (!folded) return;
    folded.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  unfold();
})();
