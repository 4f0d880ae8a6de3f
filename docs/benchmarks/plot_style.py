"""How all plots look: colours and markers by their place, and in which order things come."""

COLORS = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb"]
MARKERS = "os^Dv<>p"


def order(values):
    """Distinct values, in the order in which they come."""
    return list(dict.fromkeys(values))


def size_of(traffic):
    return int(traffic) if traffic.isdigit() else None
