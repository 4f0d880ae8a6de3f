#!/usr/bin/env python3
"""Every text of the tree is as .editorconfig declares: charset, ends of lines, the last newline, blanks at ends of
lines, indentation and columns. Longer than its columns may be a row of a table in a document, and in scripts and
CMake's files a line that a string or a here-document makes long, which nobody can break. Of C++ columns and indentation
are clang-format's (tree_format), which leaves strings alone, too.
usage: editorconfig.py ROOT"""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
STRING = 40  # characters of a string that may make a line of a script long


def pattern_of(glob):
    """The regular expression of a glob of .editorconfig; without a slash it is for the file's name in any folder."""
    parts = {"**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}
    text = re.sub(r"\*\*|[*?{},]|[^*?{},]+", lambda m: parts.get(m[0], re.escape(m[0])), glob)
    return re.compile(text if "/" in glob else f"(?:.*/)?{text}")


def sections():
    found = []
    for line in (root / ".editorconfig").read_text().splitlines():
        if head := re.fullmatch(r"\[(.*)\]", line.strip()):
            found.append((pattern_of(head[1]), {}))
        elif found and "=" in line:
            key, value = (word.strip() for word in line.split("=", 1))
            found[-1][1][key] = value
    return found


def long_by_strings(lines):
    """The numbers of a script's lines that strings or here-documents make long."""
    numbers, end, quote = set(), None, None
    for number, line in enumerate(lines, 1):
        if end is not None:
            numbers.add(number)
            end = None if line.strip() == end else end
            continue
        if quote is None and line.lstrip().startswith("#"):
            continue
        inside, longest, at = quote is not None, 0, 0
        for place, character in enumerate(line):
            if quote is None and character in "'\"" and line[place - 1 : place] != "\\":
                quote, at = character, place
            elif character == quote and line[place - 1 : place] != "\\":
                longest, quote = max(longest, place - at), None
        if inside or quote is not None or longest > STRING:
            numbers.add(number)
        if here := re.search(r"<<-?\s*(['\"]?)(\w+)\1", line):
            end = here[2]
    return numbers


def mistakes_of(name, data, rules):
    if rules.get("charset") == "utf-8":
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            yield 0, f"is no UTF-8: {error.reason}"
            return
    else:
        text = data.decode("latin-1")
    if rules.get("end_of_line") == "lf" and "\r" in text:
        yield 0, "has carriage returns"
    if rules.get("insert_final_newline") == "true" and text and not text.endswith("\n"):
        yield 0, "does not end with a newline"
    lines = text.split("\n")
    columns = rules.get("max_line_length", "off")
    script = name.endswith((".sh", ".bash")) or re.match(r"#!.*\bbash", lines[0])
    let_be = long_by_strings(lines) if script or name.endswith((".cmake", "CMakeLists.txt", ".in")) else set()
    formatted = name.endswith((".cpp", ".hpp"))
    for number, line in enumerate(lines, 1):
        if rules.get("trim_trailing_whitespace") == "true" and line != line.rstrip():
            yield number, "blanks at the end"
        if columns != "off" and not formatted and len(line) > int(columns) and number not in let_be:
            if not (name.endswith(".md") and line.lstrip().startswith("|")):
                yield number, f"{len(line)} characters, and {columns} are the most"
        style = rules.get("indent_style")
        if style == "space" and line.startswith("\t") and not script and not formatted:
            yield number, "a tab at the beginning"
        if style == "tab" and re.match(r" +\t", line):
            yield number, "blanks before a tab"


listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                        check=True)
declared, found, count = sections(), [], 0
for name in filter(None, listed.stdout.split("\n")):
    path = root / name
    if not path.is_file() or path.is_symlink() or b"\0" in (data := path.read_bytes()):
        continue
    rules = {}
    for pattern, own in declared:
        if pattern.fullmatch(name):
            rules.update(own)
    count += 1
    for number, what in mistakes_of(name, data, rules):
        found.append(f"{name}:{number}: {what}" if number else f"{name}: {what}")
if count < 1000:
    found.append(f"editorconfig.py: {root} has {count} texts: is that the tree?")
print("\n".join(found) or f"{count} texts are as .editorconfig declares")
sys.exit(bool(found))
