// Before anything is drawn: the theme that was chosen last time, so that the page does not flash.
try {
  const chosen = localStorage.getItem("tracelab-theme")
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen
} catch { /* storage is off for this page */ }
