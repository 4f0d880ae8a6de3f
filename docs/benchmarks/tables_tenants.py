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


def figures_of(page, record, part):
    return [figure for figure in page.load(record)["figures"] if figure["part"] == part]


def name_of(figure):
    frame = f", {figure['frame']} B" if "frame" in figure else ""
    function = f"{figure['function']}, " if "function" in figure else ""
    return function + figure["name"] + frame


def columns_of(page, part, records):
    """The figures of a part, a column for each record: those of the same names, in the same order."""
    columns = [figures_of(page, record, part) for record in records]
    names = [[name_of(figure) for figure in column] for column in columns]
    if any(own != names[0] for own in names):
        raise ValueError(f"{', '.join(records)} have other figures of '{part}' than each other")
    rows = [[name, *(value_of(column[i]) for column in columns)] for i, name in enumerate(names[0])]
    return lines_of(["what", *records.values()], rows, 1)


BOTH = {"": "without", "-call-thread": "`--call-thread`"}
for own, record, ways in (("domains", "tenants", BOTH), ("batch", "tenants", [""]), ("killed", "tenants", [""]),
                          ("victim", "tenants", BOTH), ("fence", "tenants-mixes", BOTH),
                          ("mixes", "tenants-mixes", BOTH)):
    globals()[f"table_tenants_{own}"] = functools.partial(
        columns_of, part=own, records={record + way: BOTH[way] for way in ways})
