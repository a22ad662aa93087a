"""The HTML page: the report as one file that needs nothing else, for a reader."""

from __future__ import annotations

from typing import Final

from conformance.problems import UsageProblem
from conformance.report import Run, build

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ r.platform.qualname }}: {{ r.verdict }}</title>
<style>
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
code, td.id, dd { font-family: ui-monospace, monospace; font-size: .92em; overflow-wrap: anywhere; }
dd { margin: 0 0 .4rem 0; white-space: pre-wrap; } dt { font-weight: 600; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
.fail, .error, .xpass { color: #c62828; } .pass { color: #2e7d32; }
.skipped, .not-run, .xfail, .unsupported { color: #8a6d00; }
section { border-left: 4px solid #c62828; padding-left: 1rem; margin: 1rem 0; }
</style>
</head>
<body>
<h1><code>{{ r.platform.qualname }}</code>: {{ r.verdict }}</h1>
<p>{{ r.because }}</p>
<table>
<tr><th>distribution</th><td>{{ r.platform.distribution or "unknown" }} {{ r.platform.version or "" }}</td></tr>
<tr><th>device</th><td>{{ r.platform.device or "unknown" }}</td></tr>
<tr><th>engine</th><td>{{ r.engine.name or "unknown" }} {{ r.engine.version or "" }}</td></tr>
<tr><th>kit, contract</th><td>{{ r.kit }}, {{ r.contract }}</td></tr>
<tr><th>machine</th><td>{{ r.environment.system }} {{ r.environment.machine }},
Python {{ r.environment.python }}{% for name, version in r.environment.packages.items() %},
{{ name }} {{ version }}{% endfor %}</td></tr>
{% if r.environment.stubs %}<tr><th>stand-ins for</th><td>{{ r.environment.stubs | join(", ") }}</td></tr>
{% endif %}<tr><th>counts</th><td>{% for name, number in r.counts.items() if number %}<span class="{{ name }}">
{{ number }} {{ name }}</span> {% endfor %}</td></tr>
</table>
{% for c in r.checks if c.findings %}
<section id="{{ c.id }}">
<h2 class="{{ c.outcome }}">{{ c.outcome }}: {{ c.id }} ({{ c.severity }}, {{ c.level }})</h2>
<p>{{ c.why }}</p>
{% for f in c.findings %}<dl>
<dt>contract</dt><dd>{{ f.contract_says }}</dd>
<dt>platform</dt><dd>{{ f.platform_did }}</dd>
<dt>member</dt><dd>{{ f.member }}</dd>
<dt>where</dt><dd>{{ f.location }}</dd>
<dt>fix</dt><dd>{{ f.hint }}</dd>
</dl>{% endfor %}
</section>
{% endfor %}
<h2>All checks</h2>
<table>
<tr><th>check</th><th>severity</th><th>level</th><th>outcome</th><th>reason</th></tr>
{% for c in r.checks %}<tr><td class="id">{{ c.id }}</td><td>{{ c.severity }}</td><td>{{ c.level }}</td>
<td class="{{ c.outcome }}">{{ c.outcome }}</td><td>{{ c.reason or c.platform_did or "" }}</td></tr>
{% endfor %}</table>
</body>
</html>
"""


def require_jinja() -> None:
    """Refuse an HTML page where its library is not installed.

    Raises:
        UsageProblem: it is not.
    """
    try:
        import jinja2  # noqa: F401  # pyright: ignore[reportUnusedImport]  only whether it is there
    except ImportError:
        raise UsageProblem(
            "--conformance-html needs jinja2, which is not installed: pip install 'platform-abc[conformance]'"
        ) from None


def text(run: Run) -> str:
    """The page as it stands in its file."""
    import jinja2

    return jinja2.Environment(autoescape=True).from_string(_PAGE).render(r=build(run))
