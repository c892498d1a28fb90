// The finished runs of the results folder: a list, and two to compare. Follows page.html, whose
// `count` it uses.
"use strict";
const cell = (row, className, ...content) => {
  const made = row.insertCell();
  made.className = className;
  made.append(...content);
  return made;
};
const picked = (group) => document.querySelector(`input[name=${group}]:checked`);
function pick(group, run, checked) {
  const radio = document.createElement("input");
  radio.type = "radio";
  radio.name = group;
  radio.value = run.id;
  radio.checked = checked;
  radio.setAttribute("aria-label", `${run.name} is ${group.toUpperCase()}`);
  radio.onchange = link;
  return radio;
}
function link() {
  const [a, b] = [picked("a"), picked("b")],
    button = document.getElementById("compare");
  button.hidden = !a || !b || a.value == b.value;
  if (!button.hidden) button.href = `/compare?${a.value}&${b.value}`;
}
function list({ folder, runs }) {
  document.getElementById("folder").textContent = !runs.length
    ? `None in ${folder} yet: a run with --out leaves a folder there.`
    : runs.length == 1
      ? `In ${folder}. With a second run there will be something to compare.`
      : `In ${folder}. Pick two: A is what B is compared with.`;
  document.querySelector("table").hidden = !runs.length;
  // The newest two, and the older one is A.
  runs.forEach((run, i) => {
    const row = document.getElementById("runs").insertRow(),
      report = document.createElement("a"),
      title = document.createElement("small");
    report.href = `/run?${run.id}`;
    report.target = "_blank";
    report.textContent = run.name;
    title.textContent = run.title;
    cell(row, "pick", pick("a", run, i == 1));
    cell(row, "pick", pick("b", run, i == 0));
    cell(row, "", report, ...(run.title == run.name ? [] : [title]));
    cell(row, "", run.started);
    cell(row, "less plain", `${run.scenario}, ${run.transport}`);
    cell(row, "number less", count(run.clients));
    cell(row, "less", run.valid ? "valid" : "invalid");
  });
  link();
}
fetch("/runs")
  .then((answer) => answer.json())
  .then(list)
  .catch(() => {
    document.getElementById("folder").textContent = "The list could not be loaded.";
  });
