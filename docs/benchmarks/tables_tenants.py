"""The tables of tenants.md: what functions of tenants in processes of their own cost, and get."""

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


def table_tenants_domains(page):
    return rows_of(page, "domains")


def table_tenants_batch(page):
    return rows_of(page, "batch")


def table_tenants_fence(page):
    return rows_of(page, "fence")


def table_tenants_victim(page):
    return rows_of(page, "victim")


def table_tenants_killed(page):
    return rows_of(page, "killed")


def table_tenants_mixes(page):
    return rows_of(page, "mixes")
