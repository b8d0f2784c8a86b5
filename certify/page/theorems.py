"""The documents that claims cite, as parts of the page: whoever is sent a page has the proofs as well.

Those of docs/theory are at hand; `texts` are others by their paths, such as the README of a case.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from certify.errors import MissingExtra

_CITATION = re.compile(r"((?:docs/theory/[a-z]+|cases/[a-z0-9_]+/README)\.md)(?:#([a-z0-9-]+))?", re.ASCII)
_RELATIVE = re.compile(r"(?:([a-z]+)\.md)?#([a-z0-9-]+)", re.ASCII)
_ANCHOR = re.compile(r'<a id="([a-z0-9-]+)"></a>')
# private characters carry the anchors through the renderer, which lets no HTML pass
_MARK = re.compile("\ue000([a-z0-9-]+)\ue001")
Texts = Mapping[str, str]
_DEEPER = 1  # the title of a document is its summary, its sections stand below a section of the page


@dataclass(frozen=True)
class Document:
    """One document of the theory: its name, its title, and its text as HTML, whose anchors are `theory-NAME-ANCHOR`."""

    name: str
    title: str
    html: str


def path_of(theorem: str) -> str:
    """The path of the document that is cited; empty if it is none that a page can carry."""
    match = _CITATION.fullmatch(theorem)
    return match.group(1) if match else ""


def link_of(theorem: str, texts: Texts) -> str:
    """The fragment of the page at which a cited theorem stands; empty if no document that is at hand has it."""
    match = _CITATION.fullmatch(theorem)
    if match is None:
        return ""
    path, anchor = match.groups()
    text = _text(path, texts)
    if text is None or (anchor and anchor not in _ANCHOR.findall(text)):
        return ""
    return f"#theory-{_name(path)}" + (f"-{anchor}" if anchor else "")


def documents(theorems: Iterable[str], texts: Texts) -> list[Document]:
    """The documents of these citations, each once, in the order in which they are first cited."""
    paths = dict.fromkeys(path_of(theorem) for theorem in theorems if link_of(theorem, texts))
    names = [_name(path) for path in paths]
    return [_document(_name(path), _text(path, texts) or "", names) for path in paths]


def _name(path: str) -> str:
    """What the anchors of a document begin with: of docs/theory/NAME.md NAME, of a case's its name with `case-` before."""
    parts = path.split("/")
    return f"case-{parts[1]}" if parts[0] == "cases" else parts[-1].removesuffix(".md")


def _text(path: str, texts: Texts) -> str | None:
    if path in texts:
        return texts[path]
    file = importlib.resources.files("certify.theory").joinpath(path.removeprefix("docs/theory/"))
    return file.read_text("utf-8") if path.startswith("docs/theory/") and file.is_file() else None


def _document(name: str, text: str, present: list[str]) -> Document:
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingExtra(
            "a page needs markdown-it-py, which is not installed", "pip install 'certify[html]'"
        ) from error
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(_ANCHOR.sub("\ue000\\1\ue001", text))
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
