// The files of data/digits, compiled in so that `digits` works wherever the program is installed.
#pragma once

#include <cstdint>
#include <span>

namespace unlatch::models {

/// data/digits/digits.csv.gz: 64 pixels and the label a line.
std::span<const std::uint8_t> digits_csv_gz();
/// data/digits/test_indices.txt: the lines, from 0, that are the test part.
std::span<const std::uint8_t> digits_test_indices();

}  // namespace unlatch::models
