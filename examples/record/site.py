"""Writes the small web site that the recording's nginx serves: site.py FOLDER."""
import pathlib
import random
import sys

folder = pathlib.Path(sys.argv[1])
rng = random.Random(20)
words = ("the mill stands where the river falls and the race carries the water past the wheel to the pond below "
         "stones grain flour sluice gate weir current channel paddle shaft gear bell barrow sack").split()


def prose(count):
    return " ".join(rng.choice(words) for _ in range(count))


for number in range(12):
    body = "".join(f"<h2>{prose(4)}</h2><p>{prose(rng.randint(40, 160))}</p>\n" for _ in range(3))
    links = "".join(f'<a href="/page{n}.html">{prose(2)}</a> ' for n in range(12))
    (folder / f"page{number}.html").write_text(f"<!doctype html><title>{prose(3)}</title>{links}{body}")
(folder / "index.html").write_text("<!doctype html><title>Mill</title><a href=/page0.html>start</a> " + prose(300))
(folder / "style.css").write_text("body { font: 16px serif; margin: 2em }\n" * 20)
(folder / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + rng.randbytes(6000))
(folder / "archive.bin").write_bytes(rng.randbytes(90_000))
# Markers of our own where real traffic would carry malware.
(folder / "sample.bin").write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + rng.randbytes(500))
(folder / "setup.bin").write_bytes(
    b"MZ\x90\x00" + bytes(56) + b"\x80\x00\x00\x00" + b"This program cannot be run in DOS mode." + rng.randbytes(400)
)
(folder / "invoice.bin").write_bytes(b"MILLRACE-TEST-MARKER:8c1e5f07:NOT-A-VIRUS\n" + prose(60).encode())
(folder / "shell.html").write_text("uid=0(root) gid=0(root) groups=0(root)\n")
(folder / "listing.html").write_text("<title>Index of /backup</title><h1>Index of /backup</h1>" + prose(30))
(folder / "error.html").write_text("You have an error in your SQL syntax; check the manual near ''' at line 1\n")
(folder / "macro.html").write_text("<script>eval(unescape('%61%6c%65%72%74'))</script>" + prose(20))
