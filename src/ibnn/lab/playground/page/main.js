// The page: settings, comparison and view tied together, and the loop that trains and draws.

import { Comparison } from "./comparison.js";
import { Controls } from "./controls.js";
import { Drawing } from "./data/drawing.js";
import { Link } from "./link.js";
import { listen } from "./pointer.js";
import { fromLink } from "./settings.js";
import { followTheme } from "./theme.js";
import { View } from "./view.js";

const STEPS_PER_FRAME = 4;
const TRAINING_BUDGET = 5; // milliseconds a frame, as the next three
const DRAWING_BUDGET = 3; // one network a frame, in turn
const CHANGED_BUDGET = 6; // per network, while a person drags something
const SETTLED_BUDGET = 60; // per network, once nothing moves any more
const SETTLED_AFTER = 150;
const REST_AT = 2000; // steps after which training pauses by itself, once

const element = (id) => document.getElementById(id);
const NEEDS_RESTART = ["data", "points", "units", "layers", "activation", "seed"];

const settings = fromLink(location.hash);
const drawing = new Drawing(settings.drawn);
const comparison = new Comparison(settings, drawing);
const view = new View(comparison, settings);
const controls = new Controls(change);
const link = new Link(open);
const frameTimes = []; // script milliseconds of the last frames

let playing = false;
let rest = REST_AT;
let frame = 0;
let scheduled = false;
let settleTimer = 0;

function change(name, value) {
  if (settings[name] === value) return;
  settings[name] = value;
  if (NEEDS_RESTART.includes(name)) restart();
  else if (name === "lam") comparison.setLam(value);
  else if (name !== "x" && name !== "y") comparison.adjust(settings);
  // what was learnt stays when learning ends
  if (name === "learnLam" && !value) settings.lam = comparison.implicit.lam;
  controls.show(settings, comparison.implicit.lam);
  link.update(settings);
  redraw();
}

function open(hash) {
  Object.assign(settings, fromLink(hash));
  drawing.read(settings.drawn);
  restart();
}

function restart() {
  comparison.restart(settings);
  rest = REST_AT;
  view.rebuild(chooseLayer);
  controls.show(settings, settings.lam);
  redraw();
}

function chooseLayer(i) {
  view.layer = i;
  redraw();
}

function play(on) {
  playing = on;
  if (on && comparison.steps >= rest) rest = Infinity;
  element("play").textContent = on ? "Pause" : "Play";
  redraw();
}

function step() {
  play(false);
  comparison.step();
  redraw();
}

function train(began) {
  for (let i = 0; i < STEPS_PER_FRAME; i++) {
    if (!comparison.step()) return play(false);
    if (comparison.steps === rest) return play(false);
    if (performance.now() - began > TRAINING_BUDGET) return;
  }
}

/** Draws at the next frame, and once more, finer, when nothing has moved for a while. */
function redraw() {
  if (!scheduled) requestAnimationFrame(onFrame);
  scheduled = true;
}

function onFrame() {
  const began = performance.now();
  scheduled = false;
  frame++;
  clearTimeout(settleTimer);
  if (settings.learnLam) controls.showLam(comparison.implicit.lam, settings.slope);
  if (playing) {
    train(began);
    view.drawNetwork(frame % 2, DRAWING_BUDGET);
    if (frame % 4 === 0) view.drawLoss();
    else if (frame % 4 === 2) view.drawSolve();
    if (frame % 8 === 1) view.drawNumbers();
    redraw();
  } else {
    drawAll(CHANGED_BUDGET);
    settleTimer = setTimeout(drawAll, SETTLED_AFTER, SETTLED_BUDGET);
  }
  if (playing) keepTime(performance.now() - began);
}

function drawAll(budget) {
  view.drawNetwork(0, budget);
  view.drawNetwork(1, budget);
  view.drawNumbers();
  view.drawLoss();
  view.drawSolve();
}

function keepTime(milliseconds) {
  frameTimes.push(milliseconds);
  if (frameTimes.length > 240) frameTimes.shift();
}

function pointsChanged() {
  settings.drawn = drawing.toString();
  comparison.takePoints();
  link.update(settings);
  redraw();
}

for (const plane of view.planes)
  listen(plane, {
    isDrawing: () => settings.data === "draw",
    chosen: () => settings,
    choose: (x, y) => {
      change("x", Number(x.toFixed(3)));
      change("y", Number(y.toFixed(3)));
    },
    draw: (x, y) => {
      if (controls.brush === null) drawing.erase(x, y);
      else drawing.add(x, y, controls.brush, 2);
      pointsChanged();
    },
    add: (label) => {
      drawing.add(settings.x, settings.y, label);
      pointsChanged();
    },
  });

const actions = {
  play: () => play(!playing),
  step,
  reset: restart,
  again: () => change("seed", settings.seed + 1),
  clear: () => {
    drawing.clear();
    pointsChanged();
  },
};
for (const [id, action] of Object.entries(actions)) element(id).addEventListener("click", action);

const keys = { " ": "play", s: "step", r: "reset", n: "again" };
addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, select, button") || event.ctrlKey || event.metaKey;
  const action = keys[event.key.toLowerCase()];
  if (busy || event.altKey || !action) return;
  event.preventDefault();
  actions[action]();
});

element("share").addEventListener("click", async () => {
  element("share").textContent = await link.copy();
  setTimeout(() => (element("share").textContent = "Copy link"), 1500);
});
followTheme(element("theme"), () => {
  view.recolor();
  redraw();
});
new ResizeObserver(redraw).observe(document.body);

controls.show(settings, settings.lam);
view.rebuild(chooseLayer);
redraw();
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) play(true);

// for the console, and for the tests
window.playground = { settings, comparison, drawing, frameTimes };
