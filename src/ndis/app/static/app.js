"use strict";
const find = (id) => document.getElementById(id);

// A file that is dropped or chosen goes to this machine's own server.
const drop = find("drop");
if (drop) {
  const send = async (file) => {
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
  const slide = find("slide"), epsilon = find("epsilon");
  let waiting = 0, asked = 0;
  const renew = async () => {
    const own = ++asked;
    const body = new URLSearchParams(new FormData(privacy));
    const text = await (await fetch(privacy.dataset.forecast, { method: "POST", body })).text();
    if (own !== asked) return;
    const page = new DOMParser().parseFromString(text, "text/html");
    find("forecast").replaceChildren(...page.body.childNodes);
  };
  const place = () => { slide.value = Math.log10(epsilon.value) || 0; };
  slide.addEventListener("input", () => {
    epsilon.value = Number(10 ** slide.value).toPrecision(2) / 1;
    privacy.querySelector("[name=measure][value=epsilon]").checked = true;
  });
  epsilon.addEventListener("input", place);
  privacy.querySelector("[name=risk]").addEventListener("input", () => {
    privacy.querySelector("[name=measure][value=risk]").checked = true;
  });
  privacy.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(renew, 150); });
  place();
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
