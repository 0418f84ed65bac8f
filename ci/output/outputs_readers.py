# SPDX-License-Identifier: Apache-2.0
"""Readers of each output that know nothing of its writer: what another tool would make of it."""
import csv
import html
import io
import json
import re
import struct
import subprocess

import jsonschema

csv.field_size_limit(1 << 30)

# Names that have broken a form somewhere.
HOSTILE = ["plain", "it's \"quoted\"", "<script>alert(1)</script>", "]]> <!-- --> &amp; &#0;", "=HYPERLINK(\"x\")",
           "+1", "-2+3", "@SUM(A1)", "\tTab", "'apostrophe", "a\x00b\x01\x1b[31mred\x7f",
           "line\nbreak\r\nand ::error::more",
           "::warning title=x::y", "%0A%25,:", "| pipe `tick` *star* [link](http://x) ![i](y)", "{0} {{1}} \\",
           "\u202eright to left\u2066", "\u2028separator\u0085", b"\xff\xfe bad \xc3( \xed\xa0\x80".decode("latin-1"),
           "\U0001f600 emoji \ufffe", "@team #123 https://example.com", "", " ", "]]>" * 5, "𝔘𝔫𝔦", "x" * 3000]

OWN_SCHEMA = {
    "type": "object",
    "required": ["schema", "tool_version", "exit_code", "exit_codes", "headline", "counts", "runs", "verdicts",
                 "failures", "buckets", "judgement", "findings", "series", "plan", "gates", "faults", "coverage_gaps"],
    "additionalProperties": False,
    "properties": {
        "schema": {"const": "lockstep-export/1"}, "tool_version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "exit_code": {"type": ["integer", "null"]}, "exit_codes": {"type": "array", "items": {"type": "integer"}},
        "headline": {"type": "string", "minLength": 1},
        "counts": {"type": "object", "additionalProperties": {
            "anyOf": [{"type": "integer", "minimum": 0},
                      {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}]}},
        "judgement": {"type": ["object", "null"]},
        **{key: {"type": "array", "items": {"type": "object"}} for key in
           ("runs", "verdicts", "failures", "buckets", "findings", "series", "plan", "gates", "faults",
            "coverage_gaps")}}}


def strict_json(text):
    """No NaN, no key twice, valid UTF-8."""
    def refuse(constant):
        raise ValueError(constant + " is no JSON")

    def once(pairs):
        assert len(dict(pairs)) == len(pairs), f"a key is there twice: {[k for k, _ in pairs]}"
        return dict(pairs)
    return json.loads(text.decode("utf-8", "strict"), parse_constant=refuse, object_pairs_hook=once)


def validate(document, schema):
    jsonschema.Draft202012Validator(schema).validate(document)


def sarif_validator(path):
    with open(path, encoding="utf-8") as file:
        return jsonschema.Draft4Validator(json.load(file))


def xmllint_accepts(text, schema, folder):
    path = folder + "/document.xml"
    with open(path, "wb") as file:
        file.write(text)
    done = subprocess.run(["xmllint", "--noout", "--nonet", "--huge", "--schema", schema, path], capture_output=True)
    return done.returncode == 0


def xmllint(text, schema, folder):
    assert xmllint_accepts(text, schema, folder), "JUnit is not valid: " + folder + "/document.xml"


def flat(counts):
    """The counts of the JSON as the other outputs list them."""
    prefix = {"verdicts": "verdict.", "states": "bucket.", "findings": "finding.", "series": "series."}
    out = {}
    for key, value in counts.items():
        out.update({prefix[key] + name: n for name, n in value.items()} if isinstance(value, dict) else {key: value})
    return out


def only(counts, prefix):
    return {key: n for key, n in counts.items() if key.startswith(prefix)}


def tally(prefix, names):
    out = {}
    for name in names:
        out[prefix + name] = out.get(prefix + name, 0) + 1
    return out


def valid_text(raw):
    """What our JSON makes of the bytes of a name: each byte that belongs to no character is U+FFFD."""
    return re.sub("[\udc80-\udcff]", "\ufffd", raw.decode("utf-8", "surrogateescape"))


def as_json(row):
    out = []
    for value in row:
        if isinstance(value, bytes):
            value = valid_text(value)
        if isinstance(value, int) and abs(value) > 2**53:
            value = str(value)
        if isinstance(value, float) and abs(value) == float("inf"):
            value = "Infinity" if value > 0 else "-Infinity"
        out.append(value)
    return out


def plain(line, columns):
    """The values of a row of ours; the bits beside a number are those of the number."""
    for name, value in line.items():
        if isinstance(value, float):
            assert line[name + "_bits"] == "0x" + struct.pack(">d", value).hex(), f"bits of {name}"
    assert [key for key in line if key in columns] == columns, "keys in the order of the columns"
    return [line[name] for name in columns]


def csv_rows(text):
    """Python's reader, strict, line ends kept."""
    return list(csv.reader(io.StringIO(text.decode("utf-8", "strict"), newline=""), strict=True, lineterminator="\r\n"))


def numbers_of(line, row):
    """The fields of a line, those that stand for a double as one: there is more than one shortest text."""
    return [float(field) if isinstance(value, float) else field for field, value in zip(line, row, strict=True)]


def as_csv(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return value
    if isinstance(value, int):
        return str(value)
    text = (valid_text(value) if isinstance(value, bytes) else value).replace("\x00", "\ufffd")
    return "'" + text if text[:1] and text[0] in "=+-@\t\r'" else text


def workflow_commands(text):
    """As GitHub's runner reads a log: a line that begins with :: is a command; every line here must be one."""
    commands = []
    for line in text.split("\n")[:-1]:
        found = re.fullmatch(r"::(error|warning|notice) title=([^:,\r]*)::([^\r]*)", line)
        assert found, f"no workflow command: {line[:200]!r}"
        assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202e]", line), "control characters"
        level, title, message = found.groups()
        for code, c in (("%2C", ","), ("%3A", ":"), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
            title, message = title.replace(code, c), message.replace(code, c)
        commands.append((level, title, message))
    return commands


def markdown_tables(text):
    """Tables by title. A cell holds nothing that Markdown or HTML would read, but our own <code>."""
    tables, title, columns = {}, None, 0
    for line in text.split("\n"):
        if line.startswith("### "):
            title = line[4:]
            tables[title] = {"rows": [], "missing": 0, "head": None}
        elif line.startswith("|") and title:
            assert line.endswith(" |"), f"half a row: {line[:200]!r}"
            cells = [cell.strip() for cell in line[1:-2].split("|")]
            for cell in cells:
                bare = re.sub(r"&#\d+;", "", cell.removeprefix("<code>").removesuffix("</code>"))
                markup = re.search(r"[<>&`*_\[\]\\!#@:\x00-\x1f\x7f]", bare)
                assert cell == "---" or not markup, f"markup in {cell[:200]!r}"
            table = tables[title]
            if table["head"] is None:
                table["head"], columns = cells, len(cells)
            elif set(cells) != {"---"}:
                assert len(cells) == columns, f"{len(cells)} cells instead of {columns}"
                table["rows"].append([html.unescape(re.sub(r"</?code>", "", cell)) for cell in cells])
        elif title and re.match(r"\d+ of \d+ rows are not shown", line):
            missing, rows = (int(n) for n in re.findall(r"\d+", line)[:2])
            assert missing + len(tables[title]["rows"]) == rows, "the note of a cut is wrong"
            tables[title]["missing"] = missing
    return tables
