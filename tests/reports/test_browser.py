"""The page in a real browser: it draws, it is quick, it asks nobody for anything, and no name in it runs.

Skipped where there is no Chromium, unless TRACELAB_REQUIRE_BROWSER=1.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.result import HOSTILE, empty_result, example_result
from tracelab_reports.html import REPORTER

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CANVAS = "[...document.querySelectorAll('.chart')].map(c => { let n = 0; const w = [c]; while (w.length) { const e = w.pop(); n += e.tagName === 'CANVAS'; "
CANVAS += "w.push(...e.children, ...(e.shadowRoot ? e.shadowRoot.children : [])) } return n })"


@dataclass
class Visit:
    """A loaded page and all that it did."""

    page: Page
    url: str
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if BROWSER is None:
        if os.environ.get("TRACELAB_REQUIRE_BROWSER") == "1":
            pytest.fail("TRACELAB_REQUIRE_BROWSER is set and there is no Chromium")
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=BROWSER, args=OPTIONS, downloads_path=tmp_path_factory.mktemp("downloads"))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    results = {"plain": example_result(8, 12, per_host=4), "hostile": example_result(8, 6, hostile=True, per_host=4), "quiet": empty_result()}
    out = {}
    for name, result in results.items():
        out[name] = folder / f"{name}.html"
        out[name].write_text(REPORTER.render(result), encoding="utf-8")
    return out


def visit(browser: Browser, file: Path, *, width: int = 1280, dark: bool = False) -> Visit:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", accept_downloads=True)
    page = context.new_page()
    seen = Visit(page, file.as_uri())

    def refuse(dialog: Dialog) -> None:
        seen.dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("request", lambda r: seen.requests.append(r.url))
    page.on("pageerror", lambda e: seen.errors.append(str(e)))
    page.on("console", lambda m: seen.errors.append(m.text) if m.type in {"error", "warning"} else None)
    page.on("dialog", refuse)
    page.goto(seen.url)
    if page.query_selector("#charts"):
        page.wait_for_function("document.documentElement.dataset.drawn", timeout=30_000)
    return seen


def close(seen: Visit) -> None:
    seen.page.context.close()


def test_all_pictures_are_drawn_without_a_complaint_or_a_request(browser: Browser, files: dict[str, Path]) -> None:
    seen = visit(browser, files["plain"])
    assert seen.page.evaluate("document.documentElement.dataset.drawn") == "14"
    assert all(n > 0 for n in seen.page.evaluate(CANVAS))
    seen.page.wait_for_load_state("networkidle")
    assert seen.requests == [seen.url]
    assert seen.errors == []
    close(seen)


def test_hostile_names_are_shown_and_never_run(browser: Browser, files: dict[str, Path]) -> None:
    seen = visit(browser, files["hostile"])
    for chart in seen.page.query_selector_all(".chart"):
        chart.hover()
    seen.page.hover("#chart-collective-classes", position={"x": 300, "y": 20})
    seen.page.wait_for_timeout(200)
    assert seen.dialogs == []
    assert seen.errors == []
    assert seen.requests == [seen.url]
    assert f"node{HOSTILE}-0" in seen.page.inner_text("h1")
    assert f"Kernels{HOSTILE}" in seen.page.inner_text("nav")
    assert "<img src=x onerror=alert(2)>" in seen.page.inner_text("#main")
    assert seen.page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    close(seen)


def test_the_policy_stops_what_the_page_does_not_bring(browser: Browser, files: dict[str, Path]) -> None:
    seen = visit(browser, files["quiet"])
    tried = """async () => {
        const stopped = []
        document.addEventListener('securitypolicyviolation', (e) => stopped.push(e.effectiveDirective))
        const script = document.createElement('script'); script.textContent = 'window.ran = 1'; document.body.append(script)
        const image = document.createElement('img'); image.src = 'https://tracelab.invalid/x.png'; document.body.append(image)
        await fetch('https://tracelab.invalid/').catch(() => {})
        while (stopped.length < 3) await new Promise((go) => setTimeout(go, 20))
        return stopped.sort()
    }"""
    assert seen.page.evaluate(tried) == ["connect-src", "img-src", "script-src-elem"]
    assert seen.page.evaluate("window.ran") is None
    close(seen)


def test_tables_can_be_saved_as_csv(browser: Browser, files: dict[str, Path]) -> None:
    seen = visit(browser, files["plain"])
    seen.page.click("#section-breakdown summary >> nth=2")
    with seen.page.expect_download() as download:
        seen.page.locator("#section-breakdown details").nth(2).locator("button.csv").click()
    assert download.value.suggested_filename == "section-breakdown-1.csv"
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("rank,step,wall_ns,")
    assert len(lines) == 1 + 8 * 12
    assert seen.requests[1:] == [r for r in seen.requests if r.startswith("blob:")]
    close(seen)


def test_links_of_findings_can_be_copied_and_open_what_is_closed(browser: Browser, files: dict[str, Path]) -> None:
    seen = visit(browser, files["plain"])
    anchor = seen.page.get_attribute("article >> nth=1", "id")
    seen.page.click("article >> nth=1 >> button.copy")
    assert seen.page.evaluate("location.hash") == f"#{anchor}"
    assert "ink" in seen.page.inner_text("#said")
    close(seen)


def test_pictures_follow_the_theme(browser: Browser, files: dict[str, Path]) -> None:
    seen = visit(browser, files["plain"], dark=True)
    chart = seen.page.locator("#chart-step-times")
    seen.page.wait_for_timeout(150)
    before = chart.screenshot()
    seen.page.click("#theme")
    seen.page.wait_for_function("document.documentElement.dataset.charts === 'light'")
    seen.page.wait_for_timeout(150)
    assert chart.screenshot() != before
    seen.page.click("#theme")
    seen.page.mouse.move(0, 0)
    seen.page.wait_for_timeout(150)
    assert chart.screenshot() == before
    close(seen)


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_is_wider_than_its_window(browser: Browser, files: dict[str, Path], width: int) -> None:
    for name in ("hostile", "quiet"):
        seen = visit(browser, files[name], width=width)
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width
        close(seen)


def test_matrices_are_square_at_any_width_and_stay_below_their_greatest(browser: Browser, files: dict[str, Path]) -> None:
    """Cells are square where the frame is: its sides are those of the axes that the drawing itself reports."""
    frame = """() => [...Bokeh.index.roots].filter((v) => v.model.aspect_ratio === 1).map((v) => {
        const {width, height} = v.frame.bbox
        return [width, height, v.bbox.width, v.model.max_width]
    })"""
    for width in (390, 1440):
        seen = visit(browser, files["plain"], width=width)
        seen.page.wait_for_timeout(300)
        matrices = seen.page.evaluate(frame)
        assert len(matrices) == 3
        for across, down, outer, most in matrices:
            assert across > 60
            assert abs(across - down) <= 0.03 * across + 1
            assert outer <= min(most, width)
        close(seen)


def test_a_button_adds_both_directions(browser: Browser, files: dict[str, Path]) -> None:
    seen = visit(browser, files["plain"])
    figure = seen.page.locator("#traffic-pairs")
    before = figure.locator(".chart").screenshot()
    figure.get_by_role("button", name="Both directions added").click()
    assert [b.get_attribute("aria-pressed") for b in figure.locator("button").all()] == ["false", "true"]
    assert [legend.is_visible() for legend in figure.locator(".legend").all()] == [False, True]
    seen.page.mouse.move(0, 0)
    seen.page.wait_for_timeout(200)
    assert figure.locator(".chart").screenshot() != before
    figure.get_by_role("button", name="Each direction").click()
    seen.page.mouse.move(0, 0)
    seen.page.wait_for_timeout(200)
    assert figure.locator(".chart").screenshot() == before
    assert seen.errors == []
    close(seen)


def test_the_pointer_asks_a_cell_of_a_matrix(browser: Browser, files: dict[str, Path]) -> None:
    """Rank 3 sends to rank 4, the first of the second host: a name that would run if it could."""
    tip = """async () => {
        const shown = () => [...document.querySelectorAll('.bk-Tooltip')].map((t) => (t.shadowRoot ?? t).textContent).join('')
        for (let i = 0; i < 100 && !shown().includes('sender'); i += 1) await new Promise((go) => setTimeout(go, 20))
        return shown()
    }"""
    seen = visit(browser, files["hostile"])
    seen.page.locator("#chart-traffic-pairs").scroll_into_view_if_needed()
    at = seen.page.evaluate("""() => {
        const view = [...Bokeh.index.roots].find((v) => v.model.id === document.querySelector('#chart-traffic-pairs').dataset.root)
        const box = view.el.getBoundingClientRect()
        const scale = (s, v) => s.compute(v)
        return {x: box.x + scale(view.frame.x_scale, 4), y: box.y + scale(view.frame.y_scale, 3)}
    }""")
    seen.page.mouse.move(at["x"], at["y"], steps=3)
    text = seen.page.evaluate(tip)
    assert "rank 3, node</script>" in text
    assert "{{7*7}}-0 GPU 3" in text
    assert "{{7*7}}-1 GPU 0" in text
    assert "NET/IB mlx5_1" in text
    assert "a line of a log" in text
    assert seen.page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    assert (seen.dialogs, seen.errors) == ([], [])
    close(seen)


def test_on_paper_all_tables_are_open_and_pictures_fit(browser: Browser, files: dict[str, Path]) -> None:
    seen = visit(browser, files["plain"], dark=True)
    closed = seen.page.locator("details:not([open])").count()
    assert closed > 5
    seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator("details:not([open])").count() == 0
    assert seen.page.locator("img.paper").count() == 14
    seen.page.emulate_media(media="print")
    assert seen.page.evaluate("[...document.querySelectorAll('.chart')].every(c => getComputedStyle(c).display === 'none')")
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert seen.page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(27, 32, 39)"
    seen.page.set_viewport_size({"width": 718, "height": 1_000})  # A4 without the margins of a browser
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 718
    seen.page.emulate_media(media="screen")
    seen.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert seen.page.locator("details:not([open])").count() == closed
    assert seen.page.locator("img.paper").count() == 0
    assert seen.page.evaluate("document.documentElement.dataset.theme") is None
    assert seen.errors == []
    close(seen)


def test_the_keyboard_reaches_the_skip_link_first(browser: Browser, files: dict[str, Path]) -> None:
    seen = visit(browser, files["plain"])
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.className") == "skip"
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.id") == "theme"
    close(seen)


def test_small_text_has_contrast_in_both_themes(browser: Browser, files: dict[str, Path]) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1 for text, computed from the colours that the browser uses."""
    measure = """() => {
        const parse = (c) => c.match(/[\\d.]+/g).map(Number)
        const light = (c) => parse(c).slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        const lum = (c) => { const [r, g, b] = light(c); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
        const ground = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (parse(c)[3] !== 0) return c } }
        const bad = []
        for (const e of document.querySelectorAll('body *')) {
            if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.closest('.unseen, .chart, script')) continue
            const [a, b] = [lum(getComputedStyle(e).color), lum(ground(e))].sort((x, y) => y - x)
            if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(e.className + ' ' + e.tagName + ' ' + e.textContent.slice(0, 40))
        }
        return bad
    }"""
    for dark in (False, True):
        seen = visit(browser, files["plain"], dark=dark)
        assert seen.page.evaluate(measure) == []
        close(seen)
