"""docs/openapi.json names the routes that docs/http.md names and that the proxy has."""

import json
import re
from pathlib import Path

from proxy.surface.answer import ENDPOINTS

DOCS = Path(__file__).parent.parent.parent / "docs"
_ROUTE = re.compile(r"`(?:(GET|POST|DELETE) )?(/[^`\s]*)`")


def described() -> set[tuple[str, str]]:
    paths = json.loads((DOCS / "openapi.json").read_text())["paths"]
    found = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    return {(method, path) for method, path in found if not path.startswith("/sessions/")}


def documented() -> set[tuple[str, str]]:
    """`POST /a`, `/b` in the first column of the table of routes: both are POST."""
    table = (DOCS / "http.md").read_text().partition("## Routes")[2].partition("\n## ")[0]
    found = set()
    for line in table.splitlines():
        method = ""
        for named, path in _ROUTE.findall(line.split(" | ")[0]):
            method = named or method
            found.add((method, path))
    return found - {("", "/sessions/{trajectory")}


def test_the_description_has_the_documented_routes_and_no_other() -> None:
    assert described() == documented()


def test_every_route_of_the_data_plane_is_described() -> None:
    assert {("POST", path) for path in ENDPOINTS} <= described()


def test_every_reference_leads_to_a_schema_and_every_schema_is_used() -> None:
    text = (DOCS / "openapi.json").read_text()
    used = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert used == json.loads(text)["components"]["schemas"].keys()
