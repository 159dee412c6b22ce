// The data sets by name: the shipped digits, synthetic data, the installed Fashion-MNIST.
#include <algorithm>
#include <cmath>

#include "models/dataset.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view specification) {
  return message_of([&] { load_data(specification); });
}

std::vector<int> count_labels(const Dataset& data) {
  std::vector<int> counts(data.classes);
  for (std::int32_t label : data.labels) ++counts.at(label);
  return counts;
}

TEST(LoadData, DigitsAreTheWholeUciSetWithAStratifiedFifthForTests) {
  const DataSplit data = load_data("digits");
  EXPECT_EQ(data.train.samples() + data.test.samples(), 1797);
  EXPECT_EQ(data.train.shape, (SampleShape{1, 8, 8}));
  EXPECT_EQ(data.train.pixels.size(), 64u * data.train.samples());
  EXPECT_EQ(data.test.pixels.size(), 64u * data.test.samples());
  EXPECT_EQ(*std::max_element(data.train.pixels.begin(), data.train.pixels.end()), 16);
  const std::vector<int> train = count_labels(data.train);
  const std::vector<int> test = count_labels(data.test);
  // Images of each digit in the test part of the UCI set.
  const std::vector<int> published{178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
  for (int digit = 0; digit < 10; ++digit) {
    EXPECT_EQ(train[digit] + test[digit], published[digit]);
    EXPECT_NEAR(test[digit], published[digit] / 5.0, 0.5);
  }
}

TEST(LoadData, NormalisedTrainingDataHasMeanZeroAndDeviationOne) {
  const Dataset train = load_data("digits").train;
  std::vector<float> sample(64);
  double sum = 0;
  double squares = 0;
  for (int n = 0; n < train.samples(); ++n) {
    train.copy_sample(n, train.shape, sample);
    for (float value : sample) {
      sum += value;
      squares += value * value;
    }
  }
  const double count = 64.0 * train.samples();
  EXPECT_NEAR(sum / count, 0, 1e-5);
  EXPECT_NEAR(squares / count, 1, 1e-5);
}

TEST(LoadData, SyntheticDataIsSeededAndItsTestPartIsOther) {
  const DataSplit a = load_data("synthetic:3x4x5,classes=7,samples=50");
  EXPECT_EQ(a.train.samples(), 50);
  EXPECT_EQ(a.test.samples(), 10);
  EXPECT_EQ(a.train.classes, 7);
  EXPECT_EQ(a.train.shape, (SampleShape{3, 4, 5}));
  EXPECT_EQ(load_data("synthetic:3x4x5,classes=7,samples=50").train.pixels, a.train.pixels);
  EXPECT_NE(load_data("synthetic:3x4x5,classes=7,samples=50,seed=1").train.pixels, a.train.pixels);
  EXPECT_FALSE(std::equal(a.test.pixels.begin(), a.test.pixels.end(), a.train.pixels.begin()));
}

TEST(LoadData, SyntheticLabelsCanBeLearnt) {
  const DataSplit data = load_data("synthetic:1x8x8,classes=5,samples=500");
  std::vector<std::vector<double>> means(5, std::vector<double>(64));
  for (int n = 0; n < 500; ++n) {
    for (int i = 0; i < 64; ++i) means[data.train.labels[n]][i] += data.train.pixels[n * 64 + i];
  }
  int right = 0;
  for (int n = 0; n < data.test.samples(); ++n) {
    std::vector<double> distances;
    for (const std::vector<double>& mean : means) {
      double distance = 0;
      for (int i = 0; i < 64; ++i) {
        distance += std::pow(mean[i] / 100 - data.test.pixels[n * 64 + i], 2);
      }
      distances.push_back(distance);
    }
    const auto nearest = std::min_element(distances.begin(), distances.end()) - distances.begin();
    right += nearest == data.test.labels[n];
  }
  EXPECT_GE(right, 95) << "of " << data.test.samples();
}

TEST(LoadData, NonsenseIsRefused) {
  EXPECT_THAT(error_of("digit"), AllOf(HasSubstr("'digit'"), HasSubstr("digits")));
  EXPECT_THAT(error_of("digits:somewhere"), HasSubstr(":somewhere"));
  EXPECT_THAT(error_of("mnist"), HasSubstr("mnist:DIR"));
  EXPECT_THAT(error_of("cifar10:"), HasSubstr("cifar10:DIR"));
  EXPECT_THAT(error_of(""), HasSubstr("unknown data set"));
  EXPECT_THAT(error_of("synthetic"), HasSubstr("synthetic:3x32x32"));
  EXPECT_THAT(error_of("synthetic:3x32"), HasSubstr("'3x32'"));
  EXPECT_THAT(error_of("synthetic:3x0x32"), HasSubstr("'3x0x32'"));
  EXPECT_THAT(error_of("synthetic:1x8x8,clases=3"), HasSubstr("classes"));
  EXPECT_THAT(error_of("synthetic:1x8x8,samples=0"), HasSubstr("'0'"));
  EXPECT_THAT(error_of("synthetic:3x4096x4096,samples=1000"), HasSubstr("2 GiB"));
}

TEST(LoadData, FashionMnistOfTheDebianPackageIsComplete) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "the Debian package dataset-fashion-mnist is not installed";
  }
  const DataSplit data = load_data("fashion-mnist");
  EXPECT_EQ(data.train.shape, (SampleShape{1, 28, 28}));
  EXPECT_EQ(count_labels(data.train), std::vector<int>(10, 6000));
  EXPECT_EQ(count_labels(data.test), std::vector<int>(10, 1000));
  EXPECT_NEAR(data.train.mean[0], 0.2860, 5e-5);
  EXPECT_NEAR(data.train.deviation[0], 0.3530, 5e-5);
}

}  // namespace
}  // namespace unlatch::models
