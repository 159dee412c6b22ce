// The 8x8 digits: comma-separated lines, divided by a list of test lines.
#include "models/digits.h"

#include <vector>

#include "models/byte_source.h"
#include "models/data_sources.h"
#include "models/specification.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

constexpr int pixels = 64;
constexpr int brightest = 16;

std::string text_of(std::string name, std::span<const std::uint8_t> file) {
  const std::vector<std::uint8_t> bytes = ByteSource(std::move(name), file).read_all();
  return {bytes.begin(), bytes.end()};
}

/// The lines of a text whose last line ends like the others.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

void append_sample(Dataset& data, std::string_view line) {
  const std::vector<std::string_view> fields = split(line, ',');
  require(fields.size() == pixels + 1, "digits: a line has {} fields instead of {}", fields.size(),
          pixels + 1);
  for (int i = 0; i <= pixels; ++i) {
    const int most = i < pixels ? brightest : data.classes - 1;
    int value = 0;
    require(parse_whole(fields[i], value) && value >= 0 && value <= most,
            "digits: '{}' is no whole number from 0 to {}", fields[i], most);
    if (i < pixels) {
      data.pixels.push_back(static_cast<std::uint8_t>(value));
    } else {
      data.labels.push_back(value);
    }
  }
}

}  // namespace

DataSplit load_digits() {
  DataSplit data;
  for (Dataset* part : {&data.train, &data.test}) {
    part->name = "digits";
    part->shape = {1, 8, 8};
    part->scale = brightest;
  }
  const std::string samples = text_of("digits.csv.gz", digits_csv_gz());
  const std::vector<std::string_view> lines = lines_of(samples);
  std::vector<bool> is_test(lines.size());
  const std::string indices = text_of("test_indices.txt", digits_test_indices());
  for (std::string_view line : lines_of(indices)) {
    int index = 0;
    require(parse_whole(line, index) && index >= 0 && index < static_cast<int>(lines.size()),
            "digits: '{}' is no index of one of {} lines", line, lines.size());
    is_test[index] = true;
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    append_sample(is_test[i] ? data.test : data.train, lines[i]);
  }
  return data;
}

}  // namespace unlatch::models
