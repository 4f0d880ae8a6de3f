#!/usr/bin/env python3
"""Links between the documents lead somewhere, headings included, and some link leads to every record and plot of a
benchmark. Files of the tree that are named in `backticks` are there. usage: links.py ROOT"""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1]).resolve()


def anchors(document):
    """The names by which a page's headings are linked to."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
    titles = re.findall(r"^#+ +(.+?) *$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.replace("`", "").lower()).replace(" ", "-") for title in titles}


def named_files(text):
    """What is named in `backticks` as a file or folder of the tree, from its top; of `{a,b}.hpp` and `a/*.cpp` both
    count. Names with <parts> or … that stand for others are left out."""
    for code in re.findall(r"`([^`\n]+)`", text):
        for word in re.findall(
            r"(?<![\w./-])(?:\./)?((?:tests|src|docs|scripts|examples|fuzz|cmake)/[\w./{},*<>$…-]+)", code
        ):
            word = word.rstrip(".,")
            if re.search(r"[<>$…]", word):
                continue
            options, braces = [word], re.compile(r"\{([^{}]*)\}")
            while any(map(braces.search, options)):
                options = [braces.sub(part, one, count=1) for one in options
                           for part in braces.search(one)[1].split(",")]
            yield from options


listed = subprocess.run(
    ["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True
)
documents = [root / name for name in listed.stdout.split()] if listed.returncode == 0 else sorted(root.glob("**/*.md"))
mistakes, count, named, linked = [], 0, 0, set()
for document in documents:
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        count += 1
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        linked.add(file)
        if not file.exists():
            mistakes.append(f"{document.relative_to(root)}: {target} leads nowhere")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            mistakes.append(f"{document.relative_to(root)}: {path or 'this page'} has no heading for #{anchor}")
    for name in named_files(document.read_text()):
        named += 1
        if not any(root.glob(name.rstrip("/"))):
            mistakes.append(f"{document.relative_to(root)}: there is no {name}")
for file in sorted((root / "docs" / "benchmarks").glob("**/*")):
    if file.suffix in (".json", ".svg") and file not in linked:
        mistakes.append(f"{file.relative_to(root)}: no document links to it")
if not count:
    mistakes.append("no links found at all")
print("\n".join(mistakes) or f"{count} links in {len(documents)} documents lead somewhere, and {named} names of files")
sys.exit(bool(mistakes))
