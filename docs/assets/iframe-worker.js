// Browsers refuse workers on pages that are opened from files. The search runs in a hidden frame
// there instead: it gets the two functions of a worker that it calls.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      const inside = frame.contentWindow
      const load = (source) =>
        new Promise((done) => {
          const script = inside.document.createElement("script")
          script.src = source
          script.onload = done
          inside.document.body.append(script)
        })
      inside.importScripts = (...sources) =>
        sources.reduce((before, source) => before.then(() => load(source)), Promise.resolve())
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.postMessage = (data) =>
        ready.then(() => inside.dispatchEvent(new MessageEvent("message", { data })))
      const ready = load(address)
    }
  }
}
