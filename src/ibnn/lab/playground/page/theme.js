// Light or dark: the system's choice until the button is pressed.

export function followTheme(button, changed) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const use = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    changed();
  };
  system.addEventListener("change", () => use(system.matches ? "dark" : "light"));
  button.addEventListener("click", () => use(root.dataset.theme === "dark" ? "light" : "dark"));
  use(root.dataset.theme);
}
