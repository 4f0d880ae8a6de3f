"""The tables of tenants.md: what functions of tenants in processes of their own cost, and get."""

import functools

from records import lines_of

UNITS = {"packets/s": "Mpkt/s"}
def value_of(figure):
    value, unit = figure["value"], UNITS.get(figure["unit"], figure["unit"])
    if unit == "Mpkt/s":
        value /= 1e6
    digits = 0 if value == int(value) or value >= 1000 else 1 if value >= 100 else 2
    return f"{value:,.{digits}f} {unit}"



def rows_of(page, part):
    rows = []
    for figure in page.load("tenants")["figures"]:
        if figure["part"] != part:
            continue
        frame = f", {figure['frame']} B" if "frame" in figure else ""
        function = f"{figure['function']}, " if "function" in figure else ""
        rows.append([function + figure["name"] + frame, value_of(figure)])
    return lines_of(["what", "measured"], rows, 1)


for own in ("domains", "batch", "fence", "victim", "killed", "mixes"):
    globals()[f"table_tenants_{own}"] = functools.partial(rows_of, part=own)
