"""The manual pages say what the program says: every command has a page, every option that `--help` prints stands in
the page of its command and no other does, every key of docs/configuration.md stands in millrace.yaml(5), the shell
completion knows all options, and groff has nothing to say. usage: man_pages.py ROOT MILLRACE"""
import pathlib
import re
import shutil
import subprocess
import sys

root, millrace = pathlib.Path(sys.argv[1]), sys.argv[2]
pages = root / "docs/man"
mistakes = []


def help_of(*command):
    return subprocess.run([millrace, *command, "--help"], check=True, capture_output=True, text=True).stdout


def options_in(text):
    """The options that a help text lists: a line `  -d,--device …`."""
    lines = re.findall(r"^  (-[\w,-]+)", text, re.MULTILINE)
    return {option for line in lines for option in line.split(",")}


def choices_in(text):
    return {word for words in re.findall(r":\{([^}]*)\}", text) for word in words.split(",")}


def subcommands_in(text):
    _, _, rest = text.partition("Subcommands:\n")
    return re.findall(r"^  (\w[\w-]*)", rest.partition("\n\n")[0], re.MULTILINE)


def page_text(path):
    """A page without roff: text, with the options as one types them."""
    if not path.exists():
        mistakes.append(f"{path.relative_to(root)} is missing")
        return ""
    text = path.read_text()
    text = re.sub(r"^\.\\\".*$", "", text, flags=re.MULTILINE).replace("\\-", "-")
    text = re.sub(r"\\f[A-Z]", "", text)
    return re.sub(r"^\.[A-Z]+ ?", "", text, flags=re.MULTILINE).replace('"', " ")


def words_in(text):
    return set(re.findall(r"[\w@-]+(?:\.[\w-]+)*", text))


def options_of_page(text):
    """Those in the OPTIONS section."""
    section = re.search(r"^OPTIONS$(.*?)^(?=[A-Z][A-Z ]+$)", text, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", section.group(1))) if section else set()


main_help = help_of()
commands = subcommands_in(main_help)
if not commands:
    mistakes.append("millrace --help lists no commands")
completion = (root / "scripts/completion/millrace.bash").read_text()
main_page = page_text(pages / "millrace.1")
for command in [None, *commands]:
    name = "millrace" if command is None else f"millrace-{command}"
    text = main_help if command is None else help_of(command)
    for sub in subcommands_in(text) if command else []:
        text += help_of(command, sub)
        if sub not in words_in(page_text(pages / f"{name}.1")):
            mistakes.append(f"{name}.1 says nothing of '{command} {sub}'")
    page = page_text(pages / f"{name}.1")
    if not page:
        continue
    listed, told = options_in(text), options_of_page(page)
    if not listed:
        mistakes.append(f"{name}: --help lists no options; has its form changed?")
    mistakes += [f"{name}.1 does not have {option}" for option in sorted(listed - told)]
    mistakes += [f"{name}.1 has {option}, which its --help does not know" for option in sorted(told - listed)]
    mistakes += [f"{name}.1 does not have the value '{word}'" for word in sorted(choices_in(text) - words_in(page))]
    mistakes += [
        f"millrace.bash does not have {option}"
        for option in sorted(listed)
        if option.startswith("--") and option not in words_in(completion)
    ]
    if command and f"millrace-{command}" not in words_in(main_page):
        mistakes.append(f"millrace.1 does not name millrace-{command}(1)")

format_words = words_in(page_text(pages / "millrace.yaml.5"))
keys = set()
for line in (root / "docs/configuration.md").read_text().splitlines():
    if match := re.match(r"\| `([\w-]+)[:`]", line):
        keys.add(match.group(1))
if len(keys) < 20:
    mistakes.append(f"docs/configuration.md has only {len(keys)} keys in its tables; has its form changed?")
mistakes += [f"millrace.yaml.5 does not have '{key}'" for key in sorted(keys - format_words)]

groff = shutil.which("groff")
for page in sorted(pages.glob("*.[1-8]")):
    if groff:
        said = subprocess.run([groff, "-man", "-Tutf8", "-ww", "-z", str(page)], capture_output=True, text=True)
        if said.returncode or said.stderr:
            mistakes.append(f"groff on {page.name}: {said.stderr.strip()}")

print("\n".join(mistakes) if mistakes else f"{len(commands) + 2} manual pages agree with the program"
      + ("" if groff else "; groff was not there to render them"))
sys.exit(bool(mistakes))
