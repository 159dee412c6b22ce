// load_data: which data set a specification means, and the normalisation all of them share.
#include <algorithm>
#include <cmath>
#include <system_error>

#include "models/data_sources.h"
#include "models/specification.h"
#include "schedules/error.h"
#include "schedules/suggest.h"

namespace unlatch::models {

namespace {

constexpr std::string_view fashion_directory = "/usr/share/datasets/fashion-mnist";
constexpr std::string_view fashion_hint =
    "install the Debian package dataset-fashion-mnist, or give the directory as fashion-mnist:DIR";

struct Moments {
  double mean, variance;
};

/// Of one channel. The sums of pixels are whole numbers.
template <class Sum, class T>
Moments moments(const std::vector<T>& values, const Dataset& data, int channel) {
  const std::int64_t plane = std::int64_t{data.shape.height} * data.shape.width;
  Sum sum = 0, squares = 0;
  for (int n = 0; n < data.samples(); ++n) {
    const T* value = values.data() + (std::int64_t{n} * data.shape.channels + channel) * plane;
    for (std::int64_t i = 0; i < plane; ++i) {
      sum += value[i];
      squares += Sum{value[i]} * value[i];
    }
  }
  const double count = static_cast<double>(plane) * data.samples();
  const double mean = static_cast<double>(sum) / count;
  return {mean, static_cast<double>(squares) / count - mean * mean};
}

/// Mean and deviation of each channel of the training part, for both parts; the same values on
/// every machine.
void normalise(DataSplit& data) {
  Dataset& train = data.train;
  for (int c = 0; c < train.shape.channels; ++c) {
    const auto [mean, variance] = train.floats.empty()
                                      ? moments<std::uint64_t>(train.pixels, train, c)
                                      : moments<double>(train.floats, train, c);
    train.mean.push_back(static_cast<float>(mean / train.scale));
    // A channel that never changes carries nothing; dividing by 1 leaves it at 0.
    const double deviation = variance > 0 ? std::sqrt(variance) / train.scale : 1;
    train.deviation.push_back(static_cast<float>(deviation));
  }
  data.test.mean = train.mean;
  data.test.deviation = train.deviation;
}

std::string required_directory(std::string_view name, std::string_view directory) {
  require(!directory.empty(), "data {}: give the directory that holds its files, as in {}:DIR",
          name, name);
  return std::string(directory);
}

DataSplit load(std::string_view specification) {
  const std::string_view name = specification.substr(0, specification.find(':'));
  const bool has_rest = name.size() < specification.size();
  // A directory may hold commas and equals signs, so it is not taken apart.
  const std::string_view rest = has_rest ? specification.substr(name.size() + 1) : "";
  if (name == "digits") {
    require(!has_rest,
            "data digits: takes nothing behind its name, not ':{}'; it ships with the "
            "program",
            rest);
    return load_digits();
  }
  if (name == "fashion-mnist") {
    const std::string directory =
        has_rest ? required_directory(name, rest) : std::string(fashion_directory);
    return load_idx("fashion-mnist", directory, fashion_hint);
  }
  if (name == "mnist") return load_idx("mnist", required_directory(name, rest), "");
  if (name == "cifar10") return load_cifar10(required_directory(name, rest));
  if (name == "cifar100") return load_cifar100(required_directory(name, rest));
  if (name == "numpy") return load_numpy(required_directory(name, rest));
  if (name == "text") {
    require(!rest.empty(), "data text: give the file or directory, as in text:FILE");
    return load_text(std::string(rest));
  }
  if (name == "synthetic") return make_synthetic(specification);
  const std::vector<std::string_view> known{"digits",   "fashion-mnist", "mnist",     "cifar10",
                                            "cifar100", "numpy",         "synthetic", "text"};
  fail("unknown data set '{}'.{} Known: {}", name, suggest(name, known), fmt::join(known, ", "));
}

}  // namespace

std::filesystem::path find_data_file(const std::filesystem::path& directory,
                                     std::initializer_list<std::string_view> names,
                                     std::string_view hint) {
  std::error_code error;
  const std::string_view separator = hint.empty() ? "" : "; ";
  require(std::filesystem::is_directory(directory, error), "{}: there is no such directory{}{}",
          directory.string(), separator, hint);
  std::vector<std::string> tried;
  for (std::string_view name : names) {
    for (std::string_view ending : {"", ".gz"}) {
      tried.push_back(fmt::format("{}{}", name, ending));
      const std::filesystem::path path = directory / tried.back();
      if (std::filesystem::exists(path, error)) return path;
    }
  }
  fail("{}: holds none of {}{}{}", directory.string(), fmt::join(tried, ", "), separator, hint);
}

DataSplit load_data(std::string_view specification) {
  DataSplit data = load(specification);
  if (!data.train.shape.is_sequence) normalise(data);
  return data;
}

}  // namespace unlatch::models
