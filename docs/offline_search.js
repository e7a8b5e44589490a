/* Browsers start no worker for pages opened from the file system, so the site's search runs in a
   hidden frame there. The theme would fetch a script for this from the network. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.waiting = [];
      frame.onload = () => {
        const inside = frame.contentWindow;
        // what the worker's script sends, and what it is sent
        inside.postMessage = (data) => this.deliver(data);
        inside.addEventListener = (type, listener) => { if (type === "message") this.listener = listener; };
        const script = inside.document.createElement("script");
        script.src = new URL(address, location.href);
        script.onload = () => {
          this.listener ??= (event) => inside.onmessage?.(event);
          this.waiting.splice(0).forEach((data) => this.listener(new MessageEvent("message", { data })));
          this.ready = true;
        };
        inside.document.body.append(script);
      };
      document.body.append(frame);
    }
    deliver(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }
    postMessage(data) {
      if (this.ready) this.listener(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
    terminate() {}
  };
}
