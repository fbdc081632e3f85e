"""Faults in how a page looks: clipped and overlapping text, missing names, faint colours."""

from __future__ import annotations

from headless import Tab

TEXTS = """
    (() => {
      const said = [], text = each => each.textContent;
      for (const svg of document.querySelectorAll(".panel > svg")) {
        const own = svg.getBoundingClientRect(), where = svg.closest("figure").id;
        const texts = [...svg.querySelectorAll("text")]
          .map(each => [each, each.getBoundingClientRect()]);
        for (const [each, box] of texts) {
          if (box.left < own.left - 1 || box.right > own.right + 1 ||
              box.top < own.top - 1 || box.bottom > own.bottom + 1)
            said.push(`${where}: ${text(each)} is cut off`);
          for (const [other, its] of texts) {
            if (each === other) break;
            const wide = Math.min(box.right, its.right) - Math.max(box.left, its.left);
            const high = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
            // Boxes have room above and below letters.
            if (wide > 1 && high > 0.3 * Math.min(box.height, its.height))
              said.push(`${where}: ${text(other)} and ${text(each)} overlap`);
          }
        }
      }
      return said;
    })()
"""
CLIPPED = """
    [...document.querySelectorAll("body *")].filter(each => {
      if (!each.offsetParent || each.closest("svg, .scroll, select, pre, input")) return false;
      const own = each.getBoundingClientRect(), parent = each.parentElement.getBoundingClientRect();
      const isOut = each.closest(".matrix") && own.right > parent.right + 1;
      return isOut || own.right > innerWidth + 1;
    }).map(each => each.outerHTML.slice(0, 100))
"""
UNNAMED = """
    [...document.querySelectorAll("svg, img, input, select, button, .scroll, a")].filter(each => {
      if (each.closest("[aria-hidden=true], [hidden]")) return false;
      const label = each.getAttribute("aria-label") || each.alt || each.textContent.trim() ||
        (each.labels && each.labels.length && each.labels[0].textContent.trim());
      return !label || (each.tagName === "svg" && label.length < 20);
    }).map(each => each.outerHTML.slice(0, 100))
"""
FAINT = """
    (() => {
      const luminance = colour => {
        const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(part => part / 255)
          .map(part => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const back = luminance(getComputedStyle(document.body).backgroundColor);
      const contrast = colour => {
        const own = luminance(colour);
        return (Math.max(own, back) + 0.05) / (Math.min(own, back) + 0.05);
      };
      const some = '.panel text:not([style*="--back"]), p, td, figcaption';
      const texts = [...document.querySelectorAll(some)]
        .map(each => [each, getComputedStyle(each)])
        .map(([each, style]) => [
          each.textContent.slice(0, 30), contrast(each.closest("svg") ? style.fill : style.color),
        ]);
      return texts.filter(([, found]) => found < 4.4);
    })()
"""
TEXT_SIZE = "parseFloat(getComputedStyle(document.querySelector('p')).fontSize)"


def faults(tab: Tab, width: int) -> list[object]:
    """What is wrong with the page that ``tab`` shows at ``width``."""
    found: list[object] = []
    for script in (CLIPPED, TEXTS, UNNAMED, FAINT):
        found += tab.evaluate(script)
    wide = tab.evaluate("[innerWidth, document.documentElement.scrollWidth]")
    if wide[0] != width or wide[1] > width:
        found.append(f"at {width}, the window and the page are {wide} wide")
    if (size := tab.evaluate(TEXT_SIZE)) < 14:
        found.append(f"text of {size} px")
    return found + tab.complaints
