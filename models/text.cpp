// Text as byte tokens: a file, or the files of a directory in the order of their names.
#include <algorithm>
#include <iterator>
#include <limits>
#include <system_error>

#include "models/byte_source.h"
#include "models/data_sources.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  require(!error, "{}: cannot be read: {}", path.string(), error.message());
  require(!files.empty(), "{}: holds no file to take text from", path.string());
  std::ranges::sort(files);
  return files;
}

std::vector<std::uint8_t> read_text(const fs::path& path) {
  std::vector<std::uint8_t> all;
  for (const fs::path& file : files_of(path)) {
    const std::vector<std::uint8_t> more = ByteSource::open(file).read_all();
    all.insert(all.end(), more.begin(), more.end());
    require(all.size() <= std::numeric_limits<std::int32_t>::max(),
            "{}: holds more than 2 GiB of text; give less", path.string());
  }
  return all;
}

/// Windows of one token until a model says how long they are.
Dataset part(std::vector<std::uint8_t> bytes) {
  Dataset data;
  data.name = "text";
  data.shape = {1, 1, 1, true};
  data.classes = 256;
  data.labels.assign(bytes.begin() + 1, bytes.end());
  data.pixels = std::move(bytes);
  return data;
}

void cut(Dataset& data, const SampleShape& window, const char* which) {
  const std::size_t tokens = data.labels.size();
  require(tokens >= static_cast<std::size_t>(window.rows()),
          "data text: {} {} bytes hold no window of {} tokens and the byte after it; give more "
          "text or a smaller sequence=",
          which, tokens + 1, window.rows());
  data.shape = window;
}

}  // namespace

DataSplit load_text(const fs::path& path) {
  std::vector<std::uint8_t> bytes = read_text(path);
  const std::size_t of_test = bytes.size() / 10;
  require(of_test >= 2, "{}: {} bytes are too few to train and to test with; give 20 or more",
          path.string(), bytes.size());
  const auto border = bytes.end() - static_cast<std::ptrdiff_t>(of_test);
  std::vector<std::uint8_t> test(border, bytes.end());
  bytes.erase(border, bytes.end());
  return {.train = part(std::move(bytes)), .test = part(std::move(test))};
}

void cut_windows(DataSplit& data, const SampleShape& input) {
  if (!data.train.shape.is_sequence || !input.is_sequence) return;
  cut(data.train, input, "the training part's");
  cut(data.test, input, "the test part's");
}

}  // namespace unlatch::models
