// Folders of IDX files: sound ones, and one clear error for every kind of damage.
#include "models/dataset.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Bytes number(std::uint32_t value) {
  return {static_cast<std::uint8_t>(value >> 24), static_cast<std::uint8_t>(value >> 16),
          static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)};
}

Bytes image_file(std::uint32_t count, std::uint32_t height, std::uint32_t width,
                 const Bytes& pixels) {
  return number(0x803) + number(count) + number(height) + number(width) + pixels;
}

Bytes label_file(std::uint32_t count, const Bytes& labels) {
  return number(0x801) + number(count) + labels;
}

/// Three training and one test image of 2x3 pixels.
class IdxFolder : public testing::Test {
 protected:
  IdxFolder() {
    folder.write("train-images-idx3-ubyte", train_images);
    folder.write("train-labels-idx1-ubyte", train_labels);
    folder.write("t10k-images-idx3-ubyte.gz", gzipped(test_images));
    folder.write("t10k-labels-idx1-ubyte.gz", gzipped(test_labels));
  }

  std::string error() const {
    return message_of([&] { load_data(folder.as_data("mnist")); });
  }
  /// The message after the training images were replaced.
  std::string error_with(const Bytes& images) const {
    folder.write("train-images-idx3-ubyte", images);
    return error();
  }

  const Bytes pixels{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 255};
  const Bytes train_images = image_file(3, 2, 3, pixels);
  const Bytes train_labels = label_file(3, {7, 0, 9});
  const Bytes test_images = image_file(1, 2, 3, {1, 1, 1, 1, 1, 1});
  const Bytes test_labels = label_file(1, {4});
  TemporaryDirectory folder;
};

TEST_F(IdxFolder, IsReadPlainAndGzipped) {
  const DataSplit data = load_data(folder.as_data("mnist"));
  EXPECT_EQ(data.train.name, "mnist");
  EXPECT_EQ(data.train.shape, (SampleShape{1, 2, 3}));
  EXPECT_EQ(data.train.pixels, pixels);
  EXPECT_THAT(data.train.labels, ElementsAre(7, 0, 9));
  EXPECT_THAT(data.test.labels, ElementsAre(4));
  EXPECT_EQ(load_data(folder.as_data("fashion-mnist")).train.pixels, pixels);
}

TEST_F(IdxFolder, MayWriteADotInItsNames) {
  std::filesystem::rename(folder.path() / "train-images-idx3-ubyte",
                          folder.path() / "train-images.idx3-ubyte");
  EXPECT_EQ(load_data(folder.as_data("mnist")).train.samples(), 3);
}

TEST_F(IdxFolder, MissingFilesAreNamed) {
  std::filesystem::remove(folder.path() / "t10k-labels-idx1-ubyte.gz");
  EXPECT_THAT(error(), AllOf(HasSubstr(folder.path().string()),
                             HasSubstr("t10k-labels-idx1-ubyte, t10k-labels-idx1-ubyte.gz")));
  EXPECT_THAT(message_of([&] { load_data(folder.as_data("fashion-mnist")); }),
              HasSubstr("dataset-fashion-mnist"));
  EXPECT_THAT(message_of([] { load_data("mnist:/nowhere/at/all"); }),
              AllOf(HasSubstr("/nowhere/at/all"), HasSubstr("no such directory")));
}

TEST_F(IdxFolder, TruncatedFilesAreRefused) {
  for (std::size_t length : {1u, 7u, 16u, 33u}) {
    EXPECT_THAT(error_with(first_bytes(train_images, length)),
                AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("truncated")));
  }
  EXPECT_THAT(error_with({}), HasSubstr("empty"));
}

TEST_F(IdxFolder, TrailingBytesAreRefused) {
  EXPECT_THAT(error_with(train_images + Bytes{0}), HasSubstr("behind the data"));
}

TEST_F(IdxFolder, TheWrongMagicNumberIsRefused) {
  EXPECT_THAT(error_with(train_labels), AllOf(HasSubstr("0x00000801"), HasSubstr("0x00000803")));
}

TEST_F(IdxFolder, AbsurdHeadersAreRefusedWithoutTakingTheMemory) {
  EXPECT_THAT(error_with(image_file(0, 2, 3, {})), HasSubstr("0 samples"));
  EXPECT_THAT(error_with(image_file(0xFFFFFFFF, 2, 3, pixels)), HasSubstr("4294967295"));
  EXPECT_THAT(error_with(image_file(3, 0, 3, pixels)), HasSubstr("0x3"));
  EXPECT_THAT(error_with(image_file(3, 2, 0xFFFFFFFF, pixels)), HasSubstr("2x4294967295"));
  // 1.6e15 bytes: possible numbers, impossible file.
  EXPECT_THAT(error_with(image_file(100'000'000, 4096, 4096, pixels)),
              AllOf(HasSubstr("truncated"), HasSubstr("only 18 are there")));
}

TEST_F(IdxFolder, CountsThatDisagreeAreRefused) {
  folder.write("train-labels-idx1-ubyte", label_file(2, {7, 0}));
  EXPECT_THAT(error(), AllOf(HasSubstr("3 images"), HasSubstr("2 labels")));
}

TEST_F(IdxFolder, LabelsOutOfRangeAreRefused) {
  folder.write("train-labels-idx1-ubyte", label_file(3, {7, 10, 9}));
  EXPECT_THAT(error(), AllOf(HasSubstr("label 10"), HasSubstr("sample 1"), HasSubstr("0..9")));
}

TEST_F(IdxFolder, TestImagesOfAnotherSizeAreRefused) {
  folder.write("t10k-images-idx3-ubyte.gz", gzipped(image_file(1, 3, 2, {1, 1, 1, 1, 1, 1})));
  EXPECT_THAT(error(), AllOf(HasSubstr("2x3"), HasSubstr("3x2")));
}

TEST_F(IdxFolder, DamagedGzipIsRefused) {
  const auto error_with_gzip = [&](const Bytes& bytes) {
    folder.write("t10k-images-idx3-ubyte.gz", bytes);
    return error();
  };
  const Bytes sound = gzipped(test_images);
  EXPECT_THAT(error_with_gzip(test_images), HasSubstr("not a gzip file"));
  EXPECT_THAT(error_with_gzip(first_bytes(sound, sound.size() - 3)), HasSubstr("truncated"));
  EXPECT_THAT(error_with_gzip(first_bytes(sound, 12)), HasSubstr("truncated"));
  Bytes wrong_sum = sound;
  wrong_sum[sound.size() - 6] ^= 1;
  EXPECT_THAT(error_with_gzip(wrong_sum), HasSubstr("damaged"));
  EXPECT_THAT(error_with_gzip(sound + Bytes{1, 2, 3}), HasSubstr("not gzip"));
}

}  // namespace
}  // namespace unlatch::models
