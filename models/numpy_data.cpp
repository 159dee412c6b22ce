// A directory of NumPy arrays as a data set: images [samples, channels, height, width] or [samples,
// height, width] and labels [samples].
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <system_error>

#include "models/data_sources.h"
#include "models/numpy_file.h"
#include "schedules/error.h"

namespace unlatch::models {
namespace {

constexpr std::string_view hint =
    "numpy needs images.npy and labels.npy, or train_images.npy, train_labels.npy, test_images.npy "
    "and test_labels.npy";

constexpr NumpyUse of_images{"images are uint8 or float32", "float32"};
constexpr NumpyUse of_labels{"labels are whole numbers", "int64"};

SampleShape shape_of(const NumpyArray& images) {
  const std::vector<std::int64_t>& sides = images.shape;
  require(
      sides.size() == 3 || sides.size() == 4,
      "{}: has the shape {}; images are samples x channels x height x width, or samples x height "
      "x width",
      images.name, fmt::join(sides, "x"));
  constexpr int longest = 4096;
  for (std::size_t i = 1; i < sides.size(); ++i) {
    require(sides[i] <= longest, "{}: has the shape {}; channels, height and width are at most {}",
            images.name, fmt::join(sides, "x"), longest);
  }
  const auto side = [&](std::size_t from_end) {
    return static_cast<int>(sides[sides.size() - from_end]);
  };
  return {sides.size() == 4 ? side(3) : 1, side(2), side(1)};
}

void set_images(Dataset& data, NumpyArray images) {
  data.shape = shape_of(images);
  if (images.type == "|u1") {
    data.pixels = std::move(images.bytes);
    return;
  }
  require_type(images, images.type == "<f4", of_images);
  data.scale = 1;
  data.floats.resize(images.bytes.size() / sizeof(float));
  std::memcpy(data.floats.data(), images.bytes.data(), images.bytes.size());
  const auto bad = std::ranges::find_if(data.floats, [](float x) { return !std::isfinite(x); });
  require(bad == data.floats.end(), "{}: a number of sample {} is {}", images.name,
          (bad - data.floats.begin()) / data.shape.elements(), bad == data.floats.end() ? 0 : *bad);
}

void set_labels(Dataset& data, const NumpyArray& labels) {
  constexpr std::int64_t most_classes = 1'000'000;
  require(labels.shape.size() == 1, "{}: has the shape {}; labels are a list, one a sample",
          labels.name, fmt::join(labels.shape, "x"));
  require_type(labels, labels.type != "<f4", of_labels);
  for (const std::int64_t label : whole_numbers(labels)) {
    require(label >= 0 && label < most_classes, "{}: label {} of sample {} is out of range 0..{}",
            labels.name, label, data.labels.size(), most_classes - 1);
    data.labels.push_back(static_cast<std::int32_t>(label));
  }
}

Dataset read_part(const std::filesystem::path& directory, std::string_view prefix) {
  const auto find = [&](std::string_view kind) {
    return find_data_file(directory, {fmt::format("{}{}.npy", prefix, kind)}, hint);
  };
  Dataset data;
  data.name = "numpy";
  NumpyArray images = read_numpy(find("images"), of_images);
  const NumpyArray labels = read_numpy(find("labels"), of_labels);
  const std::int64_t count = images.shape.empty() ? 0 : images.shape.front();
  const std::string name = images.name;
  set_images(data, std::move(images));
  set_labels(data, labels);
  require(count == data.samples(), "{}: holds {} images, but {} holds {} labels", name, count,
          labels.name, data.samples());
  return data;
}

constexpr int one_in = 5;  ///< samples of a class is for the test

/// Whatever the order of the classes is.
std::vector<bool> test_samples(const std::vector<std::int32_t>& labels) {
  std::map<std::int32_t, int> seen;
  std::vector<bool> is_test;
  for (const std::int32_t label : labels) is_test.push_back(++seen[label] % one_in == 0);
  return is_test;
}

template <class T>
void share_out(const std::vector<bool>& is_test, const std::vector<T>& all, DataSplit& split,
               std::vector<T> Dataset::*part) {
  const std::size_t of_sample = all.size() / is_test.size();
  for (std::size_t i = 0; i < all.size(); ++i) {
    ((is_test[i / of_sample] ? split.test : split.train).*part).push_back(all[i]);
  }
}

DataSplit divided(const Dataset& all) {
  const std::vector<bool> is_test = test_samples(all.labels);
  require(std::ranges::find(is_test, true) != is_test.end(),
          "data numpy: no class has {} samples, of which one would be set aside for the test; give "
          "more, or train_images.npy and test_images.npy",
          one_in);
  DataSplit split;
  for (Dataset* part : {&split.train, &split.test}) {
    part->name = all.name;
    part->shape = all.shape;
    part->scale = all.scale;
  }
  share_out(is_test, all.pixels, split, &Dataset::pixels);
  share_out(is_test, all.floats, split, &Dataset::floats);
  share_out(is_test, all.labels, split, &Dataset::labels);
  return split;
}

void set_classes(DataSplit& data) {
  const auto highest = [](const Dataset& part) { return *std::ranges::max_element(part.labels); };
  const int classes = std::max({1, highest(data.train), highest(data.test)}) + 1;
  data.train.classes = data.test.classes = classes;
}

}  // namespace

DataSplit load_numpy(const std::filesystem::path& directory) {
  std::error_code error;
  const auto has = [&](const char* name) {
    return std::filesystem::exists(directory / name, error) ||
           std::filesystem::exists(directory / fmt::format("{}.gz", name), error);
  };
  const bool parts = has("train_images.npy");
  require(!parts || !has("images.npy"),
          "{}: holds both images.npy and train_images.npy; which are meant?", directory.string());
  DataSplit data = parts || !has("images.npy") ? DataSplit{.train = read_part(directory, "train_"),
                                                           .test = read_part(directory, "test_")}
                                               : divided(read_part(directory, ""));
  require(
      data.train.shape == data.test.shape && data.train.floats.empty() == data.test.floats.empty(),
      "{}: training and test images are of different shapes or types", directory.string());
  set_classes(data);
  return data;
}

}  // namespace unlatch::models
