"""Plain text of a package's file: HTML and manual pages lose their marks, everything else is kept as it is."""

import gzip
import html.parser
import re

SKIPPED = {"script", "style", "head", "nav"}
BLOCKS = {"p", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "br", "dt", "dd", "table", "ul", "ol", "dl", "blockquote", "hr"}
MANUAL = re.compile(r"\.[1-8][a-z]*$")
ESCAPES = [(re.compile(p), r) for p, r in (
    (r'\\".*', ""), (r"\\f(\[[^]]*\]|\([A-Za-z]{2}|.)", ""), (r"\\s[-+]?\d+", ""), (r"\\\*?\(aq", "'"), (r"\\\*?\(dq", '"'), (r"\\\*?\[aq\]", "'"), (r"\\\((?:em|en)", "-"),
    (r"\\\(bu", "*"), (r"\\[-e]", lambda m: "-" if m[0] == r"\-" else "\\"), (r"\\[&|^%:/,]", ""), (r"\\\*?\([A-Za-z0-9'+<>=|~*-]{2}", ""), (r"\\\*?\[[^]]*\]", ""), (r"\\[ ~0]", " "))]  # fmt: skip
FONTS = re.compile(r"^\.(?:B|I|BI|BR|IB|IR|RB|RI|SM|SB|SH|SS|TP|IP|Nm|Fl|Ar|Sh|Ss|Dv|Xr|Pa|Em)\b\s*")


class Words(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self.hidden = self.verbatim = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden += tag in SKIPPED
        self.verbatim += tag == "pre"
        if tag in BLOCKS:
            self.out.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self.hidden = max(0, self.hidden - (tag in SKIPPED))
        self.verbatim = max(0, self.verbatim - (tag == "pre"))
        if tag in BLOCKS:
            self.out.append("\n")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.out.append(data if self.verbatim else re.sub(r"\s+", " ", data))


def of_html(source: str) -> str:
    parser = Words()
    parser.feed(source)
    parser.close()
    return "".join(parser.out)


def of_manual(source: str) -> str:
    """Requests and macros are dropped, their texts kept; good enough to read, not to print."""
    lines = []
    for line in source.split("\n"):
        if line.startswith((".", "'")):
            line, count = FONTS.subn("", line)
            if not count:
                line = ""
            line = line.replace('"', "")
        for pattern, replacement in ESCAPES:
            line = pattern.sub(replacement, line)
        lines.append(line)
    return "\n".join(lines)


def plain(name: str, content: bytes) -> str | None:
    """None where the file is not text in UTF-8."""
    if name.endswith(".gz"):
        name, content = name[:-3], gzip.decompress(content)
    try:
        source = content.decode()
    except UnicodeDecodeError:
        return None
    if "\0" in source:
        return None
    if name.endswith((".html", ".htm")):
        source = of_html(source)
    elif MANUAL.search(name):
        source = of_manual(source)
    source = "\n".join(line.rstrip() for line in source.replace("\r", "").expandtabs(4).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", source).strip() + "\n"
