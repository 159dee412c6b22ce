// Text as windows of byte tokens.
#include <numeric>

#include "models/dataset.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

constexpr SampleShape four_tokens{4, 1, 1, true};

class Text : public ::testing::Test {
 protected:
  std::string written(const std::string& name, const std::string& text) const {
    return "text:" + folder_.write(name, Bytes(text.begin(), text.end())).string();
  }
  std::string folder() const { return folder_.as_data("text"); }

 private:
  TemporaryDirectory folder_;
};

std::vector<float> sample(const Dataset& data, int n) {
  std::vector<float> values(static_cast<std::size_t>(data.shape.elements()));
  data.copy_sample(n, data.shape, values);
  return values;
}

TEST_F(Text, WindowsLieSideBySideAndLabelsAreTheNextBytes) {
  std::string text(100, ' ');
  std::iota(text.begin(), text.end(), '\x1e');
  DataSplit data = load_data(written("text", text));
  EXPECT_EQ(data.train.samples(), 89) << "a window of one token until it is cut";
  cut_windows(data, four_tokens);
  EXPECT_EQ(data.train.classes, 256);
  EXPECT_EQ(data.train.samples(), 22) << "89 pairs of a byte and the next one";
  EXPECT_EQ(sample(data.train, 0), (std::vector<float>{30, 31, 32, 33}));
  EXPECT_EQ(sample(data.train, 21), (std::vector<float>{114, 115, 116, 117}));
  EXPECT_EQ(data.train.labels[0], 31);
  EXPECT_EQ(data.train.labels[21 * 4 + 3], 118);
  EXPECT_EQ(data.test.samples(), 2) << "the last ten bytes";
  EXPECT_EQ(sample(data.test, 0), (std::vector<float>{120, 121, 122, 123}));
  EXPECT_EQ(data.test.labels[0], 121);
}

TEST_F(Text, ADirectoryIsItsFilesInTheOrderOfTheirNames) {
  written("b", std::string(30, 'b'));
  written("a", std::string(30, 'a'));
  const DataSplit data = load_data(folder());
  EXPECT_EQ(data.train.pixels.size(), 54u);
  EXPECT_EQ(data.train.pixels[29], 'a');
  EXPECT_EQ(data.train.pixels[30], 'b');
  EXPECT_EQ(data.test.pixels.size(), 6u);
}

TEST_F(Text, BytesAbove127StayWhatTheyAre) {
  const DataSplit data = load_data(written("text", std::string(40, '\xfe')));
  EXPECT_EQ(sample(data.train, 3), std::vector<float>{254});
  EXPECT_EQ(data.train.labels[3], 254);
}

TEST_F(Text, RefusesWhatIsTooShortOrGoesToAnotherModel) {
  EXPECT_THAT(message_of([&] { load_data(written("short", "too short")); }), HasSubstr("9 bytes"));
  EXPECT_THAT(message_of([&] { load_data("text:"); }), HasSubstr("text:FILE"));
  EXPECT_THAT(message_of([&] { load_data("text:/nowhere"); }), HasSubstr("/nowhere"));
  DataSplit data = load_data(written("text", std::string(40, 'x')));
  EXPECT_THAT(message_of([&] { cut_windows(data, four_tokens); }),
              HasSubstr("test part's 4 bytes"));
  EXPECT_THAT(message_of([&] { require_fits(data.train, {1, 28, 28}); }), HasSubstr("transformer"));
  const DataSplit digits = load_data("digits");
  EXPECT_THAT(message_of([&] { require_fits(digits.train, four_tokens); }), HasSubstr("text:FILE"));
}

}  // namespace
}  // namespace unlatch::models
