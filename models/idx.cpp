// MNIST's IDX files: big-endian header (magic, counts), then bytes.
// Format: http://yann.lecun.com/exdb/mnist/
#include <algorithm>

#include "models/byte_source.h"
#include "models/data_sources.h"
#include "schedules/error.h"

namespace unlatch::models {

namespace {

constexpr std::uint32_t image_magic = 0x00000803;  // unsigned bytes, three dimensions
constexpr std::uint32_t label_magic = 0x00000801;  // unsigned bytes, one dimension
constexpr std::uint32_t most_samples = 100'000'000;
constexpr std::uint32_t longest_side = 4096;

std::uint32_t read_number(ByteSource& file, const char* what) {
  const std::vector<std::uint8_t> b = file.read(4, what);
  return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

void require_magic(ByteSource& file, std::uint32_t wanted, const char* kind) {
  const std::uint32_t magic = read_number(file, "the magic number");
  require(magic == wanted,
          "{}: is not an IDX file of {}: its magic number is {:#010x} instead of "
          "{:#010x}",
          file.name(), kind, magic, wanted);
}

std::uint32_t read_count(ByteSource& file) {
  const std::uint32_t count = read_number(file, "the number of samples");
  require(count >= 1 && count <= most_samples,
          "{}: its header announces {} samples; 1 to {} are possible", file.name(), count,
          most_samples);
  return count;
}

void read_images(const std::filesystem::path& path, Dataset& data) {
  ByteSource file = ByteSource::open(path);
  require_magic(file, image_magic, "images");
  const std::uint64_t count = read_count(file);
  const std::uint32_t height = read_number(file, "the image height");
  const std::uint32_t width = read_number(file, "the image width");
  require(height >= 1 && width >= 1 && height <= longest_side && width <= longest_side,
          "{}: its header announces images of {}x{} pixels; sides of 1 to {} are possible",
          file.name(), height, width, longest_side);
  data.shape = {1, static_cast<int>(height), static_cast<int>(width)};
  data.pixels = file.read(count * height * width, "the images");
  file.require_end();
}

void read_labels(const std::filesystem::path& path, Dataset& data) {
  ByteSource file = ByteSource::open(path);
  require_magic(file, label_magic, "labels");
  const std::vector<std::uint8_t> labels = file.read(read_count(file), "the labels");
  file.require_end();
  const auto bad = std::find_if(labels.begin(), labels.end(),
                                [&](std::uint8_t label) { return label >= data.classes; });
  require(bad == labels.end(), "{}: label {} of sample {} is out of range 0..{}", file.name(),
          bad == labels.end() ? 0 : *bad, bad - labels.begin(), data.classes - 1);
  data.labels.assign(labels.begin(), labels.end());
}

Dataset read_part(const std::string& name, const std::filesystem::path& directory,
                  const std::string& prefix, std::string_view hint) {
  // Some copies write a dot where the published names have a dash.
  const auto find = [&](std::string_view kind, int dimensions) {
    return find_data_file(directory,
                          {fmt::format("{}-{}-idx{}-ubyte", prefix, kind, dimensions),
                           fmt::format("{}-{}.idx{}-ubyte", prefix, kind, dimensions)},
                          hint);
  };
  Dataset data;
  data.name = name;
  const std::filesystem::path images = find("images", 3);
  const std::filesystem::path labels = find("labels", 1);
  read_images(images, data);
  read_labels(labels, data);
  const std::int64_t count = static_cast<std::int64_t>(data.pixels.size()) / data.shape.elements();
  require(count == data.samples(), "{}: holds {} images, but {} holds {} labels", images.string(),
          count, labels.string(), data.samples());
  return data;
}

}  // namespace

DataSplit load_idx(std::string name, const std::filesystem::path& directory,
                   std::string_view hint) {
  DataSplit data{.train = read_part(name, directory, "train", hint),
                 .test = read_part(name, directory, "t10k", hint)};
  require(data.train.shape == data.test.shape,
          "{}: the training images have {}x{} pixels and the test images {}x{}; they must agree",
          directory.string(), data.train.shape.height, data.train.shape.width,
          data.test.shape.height, data.test.shape.width);
  return data;
}

}  // namespace unlatch::models
