// Folders of CIFAR binaries, written here with a few records each.
#include <fmt/format.h>

#include "models/dataset.h"
#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t image_bytes = 3 * 32 * 32;

Bytes record(const Bytes& labels, std::uint8_t pixel) { return labels + Bytes(image_bytes, pixel); }

void write_cifar10(const TemporaryDirectory& folder, std::string_view under = ".") {
  for (std::uint8_t i = 1; i <= 5; ++i) {
    const Bytes file = record({i}, i) + record({0}, 100);
    folder.write(fmt::format("{}/data_batch_{}.bin", under, i), file);
  }
  folder.write(fmt::format("{}/test_batch.bin", under), record({9}, 200));
}

TEST(Cifar, TenReadsItsFiveFilesInOrder) {
  const TemporaryDirectory folder;
  write_cifar10(folder);
  const DataSplit data = load_data(folder.as_data("cifar10"));
  EXPECT_EQ(data.train.shape, (SampleShape{3, 32, 32}));
  EXPECT_EQ(data.train.classes, 10);
  EXPECT_THAT(data.train.labels, ElementsAre(1, 0, 2, 0, 3, 0, 4, 0, 5, 0));
  EXPECT_EQ(data.train.pixels[2 * image_bytes], 2);
  EXPECT_THAT(data.test.labels, ElementsAre(9));
  EXPECT_EQ(data.test.mean, data.train.mean);
}

TEST(Cifar, TheFolderOfTheArchiveAndGzipAreAccepted) {
  const TemporaryDirectory folder;
  std::filesystem::create_directory(folder.path() / "cifar-10-batches-bin");
  write_cifar10(folder, "cifar-10-batches-bin");
  std::filesystem::remove(folder.path() / "cifar-10-batches-bin/test_batch.bin");
  folder.write("cifar-10-batches-bin/test_batch.bin.gz", gzipped(record({8}, 1)));
  EXPECT_THAT(load_data(folder.as_data("cifar10")).test.labels, ElementsAre(8));
}

TEST(Cifar, HundredUsesTheFineLabel) {
  const TemporaryDirectory folder;
  folder.write("train.bin", record({3, 99}, 5) + record({0, 17}, 6));
  folder.write("test.bin", record({19, 0}, 7));
  const DataSplit data = load_data(folder.as_data("cifar100"));
  EXPECT_EQ(data.train.classes, 100);
  EXPECT_THAT(data.train.labels, ElementsAre(99, 17));
  EXPECT_EQ(data.train.pixels.size(), 2 * image_bytes);
  EXPECT_EQ(data.train.pixels[image_bytes], 6);
}

TEST(Cifar, DamagedFilesAreRefused) {
  const TemporaryDirectory folder;
  write_cifar10(folder);
  const auto error_with = [&](const Bytes& bytes) {
    folder.write("data_batch_3.bin", bytes);
    return message_of([&] { load_data(folder.as_data("cifar10")); });
  };
  EXPECT_THAT(error_with(Bytes(3072, 0)),
              AllOf(HasSubstr("data_batch_3.bin"), HasSubstr("3072"), HasSubstr("3073")));
  EXPECT_THAT(error_with(record({1}, 0) + Bytes{1}), HasSubstr("3074"));
  EXPECT_THAT(error_with({}), HasSubstr("empty"));
  EXPECT_THAT(error_with(record({1}, 0) + record({10}, 0)),
              AllOf(HasSubstr("label 10"), HasSubstr("sample 1")));
}

TEST(Cifar, MissingFilesAreNamed) {
  const TemporaryDirectory folder;
  write_cifar10(folder);
  std::filesystem::remove(folder.path() / "data_batch_4.bin");
  EXPECT_THAT(message_of([&] { load_data(folder.as_data("cifar10")); }),
              AllOf(HasSubstr("data_batch_4.bin"), HasSubstr("test_batch.bin")));
  EXPECT_THAT(message_of([&] { load_data(folder.as_data("cifar100")); }), HasSubstr("train.bin"));
}

TEST(Cifar, CoarseLabelsAreCheckedToo) {
  const TemporaryDirectory folder;
  folder.write("train.bin", record({20, 0}, 0));
  folder.write("test.bin", record({0, 0}, 0));
  EXPECT_THAT(message_of([&] { load_data(folder.as_data("cifar100")); }),
              AllOf(HasSubstr("label 20"), HasSubstr("0..19")));
}

}  // namespace
}  // namespace unlatch::models
