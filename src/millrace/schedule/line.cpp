#include "millrace/schedule/line.hpp"

namespace millrace::schedule {

Line fit_line(const Points& points) {
    double weight = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const auto& [at, value] : points) {
        const double w = 1 / (value * value);
        weight += w;
        x += w * at;
        y += w * value;
        xx += w * at * at;
        xy += w * at * value;
    }
    const double spread = weight * xx - x * x;
    Line line;
    line.slope = spread > 0 ? (weight * xy - x * y) / spread : 0;
    line.start = weight > 0 ? (y - line.slope * x) / weight : 0;
    // Nothing takes less than no time: then the line goes through the origin. Nor does more take less: then it is
    // level.
    if (line.start < 0 && xx > 0) return {0, xy / xx};
    if (line.slope < 0) return {y / weight, 0};
    return line;
}

double r_squared(const Points& points, const Line& line) {
    double weight = 0, sum = 0, off = 0, all = 0;
    for (const auto& [at, value] : points) {
        const double w = 1 / (value * value);
        weight += w;
        sum += w * value;
        off += w * (value - line.at(at)) * (value - line.at(at));
    }
    for (const auto& [at, value] : points) {
        const double apart = value - sum / weight;
        all += apart * apart / (value * value);
    }
    constexpr double kNothing = 1e-18;
    if (all <= kNothing) return off <= kNothing ? 1 : 0;
    return 1 - off / all;
}

}  // namespace millrace::schedule
