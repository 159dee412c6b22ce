// The picture of a search: time over memory, one dot a candidate, the Pareto front joined.
#include <algorithm>
#include <cmath>
#include <map>

#include "sim/units.h"
#include "tools/search_files.h"
#include "tools/svg.h"
#include "tools/table.h"
#include "tools/text.h"
#include "traces/atomic_file.h"

namespace unlatch::tools {
namespace {

constexpr double width = 960, height = 640, left = 80, right = 190, top = 30, bottom = 60;

constexpr std::string_view style = ".front { fill: none; stroke-width: 1.5; }";

/// A logarithmic axis from a little below the least value to a little above the most.
class Axis {
 public:
  Axis(double least, double most, double from, double to) : from_(from), to_(to) {
    least_ = std::log10(std::max(least, 1e-9)) - margin;
    most_ = std::log10(std::max(most, 1e-9)) + margin;
  }
  double at(double value) const {
    return from_ + (to_ - from_) * (std::log10(std::max(value, 1e-9)) - least_) / (most_ - least_);
  }
  /// 1, 2 and 5 times the powers of ten within.
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    for (int power = static_cast<int>(std::floor(least_)); power <= most_; ++power) {
      for (const double step : {1.0, 2.0, 5.0}) {
        const double tick = step * std::pow(10.0, power);
        if (std::log10(tick) >= least_ && std::log10(tick) <= most_) ticks.push_back(tick);
      }
    }
    return ticks;
  }

 private:
  static constexpr double margin = 0.05;
  double from_, to_, least_, most_;
};

/// Finds places for names beside dots.
class Labels {
 public:
  struct Place {
    double x = 0, y = 0;  ///< where the text begins, on its base line
  };
  Place place(double x, double y, std::size_t characters) {
    const double length = character * static_cast<double>(characters);
    Place best{x + gap, y - gap};
    bool found = false;
    for (const double down : {-gap, 2 * gap, -3 * gap, 4 * gap, -5 * gap, 6 * gap}) {
      for (const double from : {x + gap, x - gap - length}) {
        const bool inside = from >= left && from + length <= width - right;
        if (found || !inside || covers_another(from, y + down, length)) continue;
        best = {from, y + down};
        found = true;
      }
    }
    taken_.push_back({best, length});
    return best;
  }

 private:
  struct Taken {
    Place at;
    double length = 0;
  };
  static constexpr double character = 6.5, line = 13, gap = 7;

  bool covers_another(double x, double y, double length) const {
    return std::ranges::any_of(taken_, [&](const Taken& other) {
      return std::abs(y - other.at.y) < line && x < other.at.x + other.length &&
             other.at.x < x + length;
    });
  }
  std::vector<Taken> taken_;
};

constexpr double mib = 1 << 20;
double memory_of(const sim::Finding& finding) {
  return static_cast<double>(finding.price.peak_bytes) / mib;
}
double time_of(const sim::Finding& finding) { return finding.price.period_ns / 1e6; }

class Picture {
 public:
  explicit Picture(const SearchResult& result)
      : result_(result),
        memory_(axis(memory_of, left, width - right)),
        time_(axis(time_of, height - bottom, top)) {
    for (const std::size_t f : result.ranked) colours_[finding(f).price.staleness];
    int number = 0;
    for (auto& [staleness, colour] : colours_) colour = svg_colour(number++);
  }

  std::string svg() const {
    std::string svg = svg_head(width, height, "Time, memory and staleness", style);
    svg += axes();
    for (const auto& [staleness, colour] : colours_) svg += front_line(staleness, colour);
    // Dots of the front lie on top.
    for (const bool on_front : {false, true}) {
      for (const std::size_t f : result_.distinct()) {
        if (finding(f).on_front == on_front) svg += dot(f);
      }
    }
    return svg + names() + legend() + "</svg>\n";
  }

 private:
  const sim::Finding& finding(std::size_t f) const { return result_.findings[f]; }

  Axis axis(double (*value)(const sim::Finding&), double from, double to) const {
    double least = value(finding(result_.ranked.front())), most = least;
    for (const std::size_t f : result_.ranked) {
      least = std::min(least, value(finding(f)));
      most = std::max(most, value(finding(f)));
    }
    return {least, most, from, to};
  }

  std::string axes() const {
    std::string svg;
    for (const double tick : memory_.ticks()) {
      svg += svg_vertical_tick(memory_.at(tick), top, height - bottom, format_number(tick, 6));
    }
    for (const double tick : time_.ticks()) {
      svg += svg_horizontal_tick(time_.at(tick), left, width - right, format_number(tick, 6));
    }
    svg += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">most memory of a rank, MiB</text>\n"
        "<text x=\"{}\" y=\"18\">time of a batch, ms</text>\n",
        (left + width - right) / 2, height - 14, left);
    return svg;
  }

  /// Through those of the front that are as stale, by memory.
  std::string front_line(int staleness, const std::string& colour) const {
    std::vector<std::pair<double, double>> points;
    for (const std::size_t f : result_.ranked) {
      if (!finding(f).on_front || finding(f).price.staleness != staleness) continue;
      points.emplace_back(memory_.at(memory_of(finding(f))), time_.at(time_of(finding(f))));
    }
    std::ranges::sort(points);
    std::string list;
    for (const auto& [x, y] : points) list += fmt::format("{:.1f},{:.1f} ", x, y);
    return points.size() < 2
               ? ""
               : fmt::format("<polyline class=\"front\" stroke=\"{}\" points=\"{}\"/>\n", colour,
                             list);
  }

  std::string name(std::size_t f) const {
    const sim::Candidate& candidate = result_.candidate(f);
    return fmt::format("{} M={}", candidate.spec.text(), candidate.shape.micro_batches);
  }

  std::string dot(std::size_t f) const {
    const bool on_front = finding(f).on_front;
    const std::string& colour = colours_.at(finding(f).price.staleness);
    const double x = memory_.at(memory_of(finding(f))), y = time_.at(time_of(finding(f)));
    std::string svg = fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\" stroke=\"{}\"><title>{}: {} ms, "
        "{}, staleness {}</title></circle>\n",
        x, y, on_front ? 5 : 3, on_front ? colour : "none", colour, escape_html(name(f)),
        format_ms(time_of(finding(f))), sim::format_size(finding(f).price.peak_bytes),
        finding(f).price.staleness);
    return svg;
  }

  /// The names of those on the front, each beside its dot and off the others where there is room.
  std::string names() const {
    std::string svg;
    Labels labels;
    for (const std::size_t f : result_.distinct()) {
      if (!finding(f).on_front) continue;
      const std::string text = name(f);
      const auto [x, y] = labels.place(memory_.at(memory_of(finding(f))),
                                       time_.at(time_of(finding(f))), text.size());
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y, escape_html(text));
    }
    return svg;
  }

  std::string legend() const {
    std::string svg;
    double y = top + 10;
    for (const auto& [staleness, colour] : colours_) {
      svg += fmt::format(
          "<circle cx=\"{0}\" cy=\"{1}\" r=\"5\" fill=\"{2}\"/><text x=\"{3}\" y=\"{4}\">staleness "
          "{5}</text>\n",
          width - right + 24, y, colour, width - right + 36, y + 4, staleness);
      y += 20;
    }
    return svg + fmt::format("<text x=\"{}\" y=\"{}\">filled: Pareto front</text>\n",
                             width - right + 18, y + 8);
  }

  const SearchResult& result_;
  Axis memory_, time_;
  std::map<int, std::string> colours_;  ///< by staleness
};

}  // namespace

void write_search_svg(const std::string& path, const SearchResult& result) {
  write_file(path, Picture(result).svg());
}

}  // namespace unlatch::tools
