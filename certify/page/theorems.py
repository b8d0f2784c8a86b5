"""The documents that claims cite, as parts of the page: whoever is sent a page has the proofs as well."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from certify.errors import MissingExtra

_CITATION = re.compile(r"docs/theory/([a-z]+)\.md(?:#([a-z0-9-]+))?", re.ASCII)
_RELATIVE = re.compile(r"(?:([a-z]+)\.md)?#([a-z0-9-]+)", re.ASCII)
_ANCHOR = re.compile(r'<a id="([a-z0-9-]+)"></a>')
# private characters carry the anchors through the renderer, which lets no HTML pass
_MARK = re.compile("\ue000([a-z0-9-]+)\ue001")
_DEEPER = 1  # the title of a document is its summary, its sections stand below a section of the page


@dataclass(frozen=True)
class Document:
    """One document of the theory: its name, its title, and its text as HTML, whose anchors are `theory-NAME-ANCHOR`."""

    name: str
    title: str
    html: str


def link_of(theorem: str) -> str:
    """The fragment of the page at which a cited theorem stands; empty if no document of this package has it."""
    match = _CITATION.fullmatch(theorem)
    if match is None:
        return ""
    name, anchor = match.groups()
    text = _text(name)
    if text is None or (anchor and anchor not in _ANCHOR.findall(text)):
        return ""
    return f"#theory-{name}" + (f"-{anchor}" if anchor else "")


def documents(theorems: Iterable[str]) -> list[Document]:
    """The documents of these citations, each once, in the order in which they are first cited."""
    matches = (_CITATION.fullmatch(theorem) for theorem in theorems if link_of(theorem))
    names = list(dict.fromkeys(match.group(1) for match in matches if match))
    return [_document(name, names) for name in names]


def _text(name: str) -> str | None:
    file = importlib.resources.files("certify.theory").joinpath(f"{name}.md")
    return file.read_text("utf-8") if file.is_file() else None


def _document(name: str, present: list[str]) -> Document:
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtra(
            "a page needs markdown-it-py, which is not installed", "pip install 'certify[html]'"
        ) from error
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(_ANCHOR.sub("\ue000\\1\ue001", _text(name) or ""))
    title = _MARK.sub("", tokens[1].content).strip()
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{int(token.tag[1]) + _DEEPER}"
        if token.type == "table_open":
            token.attrSet("class", "theory-table")
        if token.type == "th_open":
            token.attrSet("scope", "col")
        if token.children:
            token.children = _within(token.children, name, present)
    html = reader.renderer.render(tokens[3:], reader.options, {})
    return Document(name, title, _MARK.sub(rf'<a id="theory-{name}-\1"></a>', html))


def _within(tokens: list[Any], name: str, present: list[str]) -> list[Any]:
    """Inline tokens in which a link leads to a place on the page, or is plain text."""
    kept, dropped = [], False
    for token in tokens:
        if token.type == "link_open":
            match = _RELATIVE.fullmatch(token.attrs["href"])
            target = (match.group(1) or name) if match else ""
            dropped = target not in present
            if match and not dropped:
                token.attrSet("href", f"#theory-{target}-{match.group(2)}")
        if not (dropped and token.type in ("link_open", "link_close")):
            kept.append(token)
        if token.type == "link_close":
            dropped = False
    return kept
