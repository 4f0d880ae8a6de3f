// A straight line through measured points.
#pragma once

#include <utility>
#include <vector>

namespace millrace::schedule {

struct Line {
    double start = 0, slope = 0;
    double at(double x) const { return start + slope * x; }
};

using Points = std::vector<std::pair<double, double>>;

/// The line through points (x, y), x and y > 0, that has the least sum of squared relative errors: its value at 0 and
/// its slope, neither below 0.
Line fit_line(const Points& points);

/// What share of the differences between the points' values the line explains, with the fit's weights: 1 for points
/// that lie on it; at or below 0 for a line that says no more than their mean.
double r_squared(const Points& points, const Line& line);

}  // namespace millrace::schedule
