(() => {
  "use strict"
  const root = document.documentElement
  const dark = matchMedia("(prefers-color-scheme: dark)")
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark"
  const say = (text) => {
    const line = document.getElementById("said")
    line.textContent = text
    clearTimeout(say.timer)
    say.timer = setTimeout(() => { line.textContent = "" }, 4000)
  }

  // Charts take their colours from the style sheet when they are painted.
  let views = []
  const repaint = () => {
    root.dataset.charts = isDark() ? "dark" : "light"
    for (const view of views) view.invalidate_render ? view.invalidate_render() : view.model.change.emit()
  }
  const draw = async () => {
    const data = document.getElementById("charts")
    if (!data || typeof Bokeh === "undefined") return
    Bokeh.set_log_level("warn")
    const roots = {}
    for (const place of document.querySelectorAll(".chart[data-root]")) roots[place.dataset.root] = place
    const items = [{docid: "charts", roots, root_ids: Object.keys(roots)}]
    root.dataset.charts = isDark() ? "dark" : "light"
    const found = await Bokeh.embed.embed_items(JSON.parse(data.textContent), items)
    views = found.flatMap((manager) => [...manager]).filter((view) => view.model.id in roots)
    root.dataset.drawn = String(views.length)
  }

  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark"
    try { localStorage.setItem("tracelab-theme", root.dataset.theme) } catch { /* storage is off for this page */ }
    repaint()
  })
  dark.addEventListener("change", repaint)

  const copyLink = async (anchor) => {
    location.hash = anchor
    try {
      await navigator.clipboard.writeText(location.href)
      say("Link copied.")
    } catch {
      say("The link is in the address bar.")
    }
  }
  const saveCsv = async (button) => {
    const bytes = Uint8Array.from(atob(button.dataset.csv), (c) => c.charCodeAt(0))
    const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))
    const blob = new Blob([await new Response(text).arrayBuffer()], {type: "text/csv;charset=utf-8"})
    const link = document.createElement("a")
    link.href = URL.createObjectURL(blob)
    link.download = button.dataset.name
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 10000)
    say(`Saved ${link.download}.`)
  }
  // A matrix holds its cells twice: per direction, and with both directions added.
  const showLayer = (button) => {
    const figure = button.closest("figure")
    const layer = button.dataset.layer
    const view = views.find((v) => v.model.id === figure.querySelector(".chart").dataset.root)
    if (!view) return
    for (const renderer of view.model.renderers) if (renderer.name === "directed" || renderer.name === "both") renderer.visible = renderer.name === layer
    for (const b of figure.querySelectorAll("button[data-layer]")) b.setAttribute("aria-pressed", String(b === button))
    for (const legend of figure.querySelectorAll(".legend[data-layer]")) legend.hidden = legend.dataset.layer !== layer
  }
  const showPart = (button) => {
    const shown = button.getAttribute("aria-pressed") !== "true"
    const view = views.find((v) => v.model.id === button.closest("figure").querySelector(".chart").dataset.root)
    if (!view) return
    for (const part of [...view.model.center, ...view.model.renderers]) if (part.name === button.dataset.part) part.visible = shown
    button.setAttribute("aria-pressed", String(shown))
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button")
    if (button?.dataset.layer) showLayer(button)
    if (button?.dataset.part) showPart(button)
    if (button?.dataset.anchor) copyLink(button.dataset.anchor)
    if (button?.dataset.csv) saveCsv(button).catch((error) => say(`The CSV could not be made: ${error.message}`))
  })

  // A link into a closed table opens it; on paper all tables are open.
  const openAround = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)))
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true
  }
  addEventListener("hashchange", openAround)
  openAround()
  let undo = []
  addEventListener("beforeprint", () => {
    for (const d of document.querySelectorAll("details:not([open])")) {
      d.open = true
      undo.push(() => { d.open = false })
    }
    // A canvas keeps the width and the colours of the screen: paper gets a picture that fits, in the light theme.
    const theme = root.dataset.theme
    root.dataset.theme = "light"
    undo.push(() => { theme ? root.dataset.theme = theme : delete root.dataset.theme })
    for (const view of views) {
      const picture = document.createElement("img")
      picture.className = "paper"
      picture.alt = ""
      picture.src = view.export("png", true).canvas.toDataURL()
      const chart = document.querySelector(`.chart[data-root="${view.model.id}"]`)
      picture.style.maxWidth = chart.style.maxWidth
      chart.after(picture)
      undo.push(() => picture.remove())
    }
  })
  addEventListener("afterprint", () => {
    for (const back of undo.reverse()) back()
    undo = []
    repaint()
  })
  draw()
})()
