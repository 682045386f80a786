"use strict";
const find = (id) => document.getElementById(id);

// A file that is dropped or chosen goes to this machine's own server.
const drop = find("drop");
if (drop) {
  const send = async (file) => {
    if (!file) return;
    find("dropped").textContent = `Reading ${file.name} …`;
    const headers = { "X-Name": encodeURIComponent(file.name) };
    const answer = await (await fetch(drop.dataset.to, { method: "POST", body: file, headers })).json();
    if (answer.next) location.assign(answer.next);
    else find("dropped").textContent = answer.problem;
  };
  find("file").addEventListener("change", (event) => send(event.target.files[0]));
  for (const kind of ["dragover", "dragleave", "drop"])
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
    });
}

// Values that the owner declares to be public.
for (const button of document.querySelectorAll("[data-fill]"))
  button.addEventListener("click", () => {
    find(button.dataset.fill).value = JSON.parse(button.dataset.with).join("\n");
  });

// Another question asks for other things.
const question = find("question");
if (question)
  for (const radio of question.querySelectorAll("[name=kind]"))
    radio.addEventListener("change", () => question.querySelector("[name=again]").click());

// The forecast moves along.
const privacy = find("privacy");
if (privacy) {
  let waiting = 0, asked = 0;
  const renew = async () => {
    const own = ++asked;
    const body = new URLSearchParams(new FormData(privacy));
    const text = await (await fetch(privacy.dataset.forecast, { method: "POST", body })).text();
    if (own !== asked) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    find("forecast").replaceChildren(...page.body.childNodes);
    find("heard").textContent = find("forecast").querySelector("p").textContent;
  };
  // A slider and a box say the same thing, and whichever moves is meant.
  const pair = (slide, box, measure, toBox, toSlide) => {
    const choose = () => { privacy.querySelector(`[name=measure][value=${measure}]`).checked = true; };
    const place = () => { slide.value = toSlide(box.value); };
    slide.addEventListener("input", () => { box.value = toBox(slide.value); choose(); });
    box.addEventListener("input", () => { place(); choose(); });
    place();
  };
  pair(find("slide"), find("epsilon"), "epsilon",
    (value) => Number(10 ** value).toPrecision(2) / 1, (value) => Math.log10(value) || 0);
  pair(find("slide-risk"), find("risk"), "risk", (value) => value, (value) => value);
  privacy.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(renew, 150); });
}

// How far a release is.
const share = find("share");
if (share) {
  const ask = async () => {
    const found = await (await fetch(share.dataset.from)).json();
    if (found.state !== "running") return location.reload();
    find("said").textContent = found.said;
    if (found.share === null) share.removeAttribute("value");
    else share.value = found.share;
    setTimeout(ask, 400);
  };
  setTimeout(ask, 400);
}
