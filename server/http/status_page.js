const main = document.querySelector("main");
const lost = document.querySelector("#lost");
let heard = new Date();

async function refresh() {
  try {
    const answer = await fetch("status", { cache: "no-store", signal: AbortSignal.timeout(8000) });
    if (!answer.ok) throw new Error(answer.statusText);
    main.innerHTML = await answer.text();
    heard = new Date();
    lost.hidden = true;
    document.body.classList.remove("is-lost");
  } catch {
    lost.textContent = `No answer since ${heard.toLocaleTimeString()}; these are the last numbers.`;
    lost.hidden = false;
    document.body.classList.add("is-lost");
  }
  setTimeout(refresh, 2000);
}

setTimeout(refresh, 2000);
