// The address of the page carries its settings: written after a change, read when it changes.

import { toLink } from "./settings.js";

const PATIENCE = 200; // milliseconds without a change: some browsers refuse frequent updates

export class Link {
  constructor(opened) {
    this._timer = 0;
    this._settings = null;
    addEventListener("hashchange", () => opened(location.hash));
  }

  update(settings) {
    this._settings = settings;
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this._write(), PATIENCE);
  }

  _write() {
    clearTimeout(this._timer);
    if (this._settings) history.replaceState(null, "", `#${toLink(this._settings)}`);
  }

  /** Puts the address on the clipboard, or shows it where there is none; says what happened. */
  async copy() {
    this._write();
    try {
      await navigator.clipboard.writeText(location.href);
      return "Copied";
    } catch {
      prompt("Copy this link:", location.href);
      return "Copy link";
    }
  }
}
