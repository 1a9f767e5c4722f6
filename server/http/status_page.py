"""The page that tells a person how a server does: one HTML file, for a phone as for a wide screen.

It draws itself anew every two seconds, and says so when the server answers no more.
"""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from foretell.server.http.port import Page
from foretell.server.http.recent import ModelActivity, total

_FOLDER = Path(__file__).parent
_STYLE = (_FOLDER / "status_page.css").read_text()
_SCRIPT = (_FOLDER / "status_page.js").read_text()


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; "
        "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
_DASH = "–"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What the page tells.

    Attributes:
        address: Where gRPC listens.
        is_serving: Whether new calls are taken.
        uptime_s: Since the start.
        models: What each version did lately.
    """

    address: str
    is_serving: bool
    uptime_s: float
    models: Sequence[ModelActivity]


def write_page(status: ServerStatus) -> Page:
    """The whole page."""
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="data:,">'
        f"<title>foretell {html.escape(status.address)}</title><style>{_STYLE}</style>"
        '<noscript><meta http-equiv="refresh" content="5"></noscript></head>'
        f'<body><p id="lost" role="alert" hidden></p><main>{_main(status)}</main>'
        "<footer>Rates and times are of the last minute; queue and compute are means, by "
        "request and by batch. Curves are requests a second in the last five minutes. "
        '<a href="metrics">Metrics</a> <a href="status.json">JSON</a></footer>'
        f"<script>{_SCRIPT}</script></body></html>\n"
    )
    return Page(text.encode(), "text/html; charset=utf-8", headers=_HEADERS)


def write_fragment(status: ServerStatus) -> Page:
    """What of the page changes."""
    return Page(_main(status).encode(), "text/html; charset=utf-8", headers=_HEADERS)


def write_json(status: ServerStatus) -> Page:
    """The same for programs; times are in seconds."""
    return Page(json.dumps(asdict(status)).encode(), "application/json")


def _main(status: ServerStatus) -> str:
    requests, failures, in_work = total(status.models)
    word, kind = ("serving", "good") if status.is_serving else ("not serving", "bad")
    head = (
        f'<header><h1>foretell</h1> <span class="badge {kind}">{word}</span>'
        f'<p class="where">{html.escape(status.address)} · up {_span(status.uptime_s)}</p></header>'
        '<dl class="sums">'
        + _number("requests/s", _rate(requests))
        + _number("failed/s", _rate(failures), is_bad=failures > 0)
        + _number("in work", f"{in_work:,}")
        + "</dl>"
    )
    if not status.models:
        return head + '<p class="empty">No models yet.</p>'
    return head + "".join(_card(model) for model in status.models)


def _card(model: ModelActivity) -> str:
    state = model.state
    kinds = {"ready": "good", "failed": "bad", "": "plain"}
    badge = kinds.get(state.state, "busy")
    version = f" <small>version {state.version}</small>" if state.state else ""
    title = html.escape(state.name) if state.state else "models that aren't loaded"
    parts = [
        f'<section><h2>{title}{version} <span class="badge {badge}">{state.state}</span></h2>',
        f'<p class="where">{html.escape(state.provider)}</p>' if state.provider else "",
        f'<p class="reason">{html.escape(state.reason)}</p>' if state.reason else "",
    ]
    if model.p50_s is not None or model.in_work or model.failures_per_s:
        parts += [_curve(model.history), "<dl>", *_numbers(model), "</dl>"]
    elif state.state in ("ready", "unloading"):
        parts += [_curve(model.history), '<p class="where">No requests in the last minute.</p>']
    return "".join([*parts, "</section>"])


def _numbers(model: ModelActivity) -> list[str]:
    numbers = [
        _number("requests/s", _rate(model.requests_per_s)),
        _number("failed/s", _rate(model.failures_per_s), is_bad=model.failures_per_s > 0),
        _number("in work", f"{model.in_work:,}"),
        _number("p50", _time(model.p50_s)),
        _number("p95", _time(model.p95_s)),
        _number("p99", _time(model.p99_s)),
        _number("waiting", f"{model.waiting:,}"),
        _number("queue", _time(model.queue_s)),
        _number("compute", _time(model.compute_s)),
        _number("per batch", _plain(model.requests_per_batch)),
        _number("padding", _share(model.padding)),
    ]
    if model.tokens_per_s:
        numbers.append(_number("tokens/s", _rate(model.tokens_per_s)))
    return numbers


def _number(name: str, value: str, *, is_bad: bool = False) -> str:
    mark = ' class="bad"' if is_bad else ""
    return f"<div><dt>{name}</dt><dd{mark}>{value}</dd></div>"


def _curve(history: Sequence[float], steps: int = 60) -> str:
    """Requests a second as a curve; what is known stands at its right end."""
    top = max(history, default=0.0)
    if not top:
        return ""
    first = steps - len(history)
    points = [(first + at, 24 - 22 * value / top) for at, value in enumerate(history)]
    line = " ".join(f"{x},{y:.1f}" for x, y in points)
    area = f"{points[0][0]},24 {line} {points[-1][0]},24"
    return (
        f'<svg viewBox="0 0 {steps - 1} 24" preserveAspectRatio="none" role="img" '
        f'aria-label="requests a second, at most {_rate(top)}">'
        f'<polygon points="{area}"/><polyline points="{line}"/></svg>'
        f'<p class="top">at most {_rate(top)}/s</p>'
    )


def _rate(value: float) -> str:
    if 0 < value < 0.1:
        return "<0.1".replace("<", "&lt;")
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _plain(value: float | None) -> str:
    return _DASH if value is None else f"{value:.1f}"


def _share(value: float | None) -> str:
    return _DASH if value is None else f"{100 * value:.0f} %"


def _time(value: float | None) -> str:
    if value is None:
        return _DASH
    if value >= 1:
        return f"{value:.2f} s"
    return f"{1000 * value:.0f} ms" if value >= 0.01 else f"{1000 * value:.1f} ms"


def _span(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
