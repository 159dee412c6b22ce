// CIFAR-10 and CIFAR-100, binary version: records of labels and 3x32x32 bytes, no header.
// Format: https://www.cs.toronto.edu/~kriz/cifar.html
#include <algorithm>
#include <system_error>

#include "models/byte_source.h"
#include "models/data_sources.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

constexpr SampleShape image{3, 32, 32};

/// The label bytes in front of each image; the last is the one that counts.
struct Format {
  std::string name;
  std::vector<int> label_limits;  ///< exclusive
};

Dataset empty_part(const Format& format) {
  Dataset data;
  data.name = format.name;
  data.shape = image;
  data.classes = format.label_limits.back();
  return data;
}

void append_file(const Format& format, const std::filesystem::path& path, Dataset& data) {
  ByteSource file = ByteSource::open(path);
  const std::vector<std::uint8_t> bytes = file.read_all();
  const std::size_t labels = format.label_limits.size();
  const std::size_t record = labels + image.elements();
  require(!bytes.empty() && bytes.size() % record == 0,
          "{}: {} bytes are not a whole number of {} records ({} bytes each); the file is "
          "truncated or of another kind",
          file.name(), bytes.size(), format.name, record);
  for (std::size_t begin = 0; begin < bytes.size(); begin += record) {
    for (std::size_t i = 0; i < labels; ++i) {
      const int label = bytes[begin + i];
      require(label < format.label_limits[i], "{}: label {} of sample {} is out of range 0..{}",
              file.name(), label, begin / record, format.label_limits[i] - 1);
    }
    data.labels.push_back(bytes[begin + labels - 1]);
    const auto pixels = bytes.begin() + static_cast<std::ptrdiff_t>(begin + labels);
    data.pixels.insert(data.pixels.end(), pixels, pixels + image.elements());
  }
}

/// The published archives unpack into a folder of their own.
std::filesystem::path unpacked(const std::filesystem::path& directory, const char* folder) {
  std::error_code error;
  const std::filesystem::path inner = directory / folder;
  return std::filesystem::is_directory(inner, error) ? inner : directory;
}

}  // namespace

DataSplit load_cifar10(const std::filesystem::path& directory) {
  const Format format{"cifar10", {10}};
  const std::filesystem::path folder = unpacked(directory, "cifar-10-batches-bin");
  const std::string_view hint =
      "cifar10 needs data_batch_1.bin to data_batch_5.bin and "
      "test_batch.bin";
  DataSplit data{.train = empty_part(format), .test = empty_part(format)};
  for (int i = 1; i <= 5; ++i) {
    const std::string name = fmt::format("data_batch_{}.bin", i);
    append_file(format, find_data_file(folder, {name}, hint), data.train);
  }
  append_file(format, find_data_file(folder, {"test_batch.bin"}, hint), data.test);
  return data;
}

DataSplit load_cifar100(const std::filesystem::path& directory) {
  const Format format{"cifar100", {20, 100}};  // coarse label, then the fine one
  const std::filesystem::path folder = unpacked(directory, "cifar-100-binary");
  const std::string_view hint = "cifar100 needs train.bin and test.bin";
  DataSplit data{.train = empty_part(format), .test = empty_part(format)};
  append_file(format, find_data_file(folder, {"train.bin"}, hint), data.train);
  append_file(format, find_data_file(folder, {"test.bin"}, hint), data.test);
  return data;
}

}  // namespace unlatch::models
