// ByteSource on plain bytes, gzip of several members, and files that cannot be read.
#include "models/byte_source.h"

#include "tests/models/support.h"

namespace unlatch::models {
namespace {

using testing::HasSubstr;

TEST(ByteSource, ReadsPlainBytesInParts) {
  const Bytes bytes{1, 2, 3, 4, 5};
  ByteSource source("memory", bytes);
  EXPECT_EQ(source.read(2, "a part"), (Bytes{1, 2}));
  EXPECT_EQ(source.read_all(), (Bytes{3, 4, 5}));
  EXPECT_NO_THROW(source.require_end());
}

TEST(ByteSource, ReadsGzipMembersAsOneStream) {
  Bytes large(3'000'000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::uint8_t>(i * i >> 7);
  const Bytes file = gzipped(large) + gzipped({7, 8});
  ByteSource source("memory", file);
  EXPECT_EQ(source.read(large.size(), "a part"), large);
  EXPECT_EQ(source.read(2, "the rest"), (Bytes{7, 8}));
  EXPECT_NO_THROW(source.require_end());
}

TEST(ByteSource, SaysWhatIsMissing) {
  const Bytes bytes{1, 2, 3};
  ByteSource source("memory", bytes);
  EXPECT_THAT(
      message_of([&] { source.read(5, "the head"); }),
      AllOf(HasSubstr("memory"), HasSubstr("the head"), HasSubstr("5 bytes"), HasSubstr("only 3")));
}

TEST(ByteSource, KeepsAFileAliveWhenMoved) {
  const TemporaryDirectory folder;
  const auto path = folder.write("file.gz", gzipped({1, 2, 3}));
  ByteSource source = ByteSource::open(path);
  ByteSource moved = std::move(source);
  EXPECT_EQ(moved.read_all(), (Bytes{1, 2, 3}));
}

TEST(ByteSource, FilesThatCannotBeReadAreNamed) {
  const TemporaryDirectory folder;
  EXPECT_THAT(message_of([&] { ByteSource::open(folder.path()); }), HasSubstr("directory"));
  for (const char* device : {"/dev/zero", "/dev/null"}) {
    EXPECT_THAT(message_of([&] { ByteSource::open(device); }),
                AllOf(HasSubstr(device), HasSubstr("it is a device")));
  }
  EXPECT_THAT(message_of([&] { ByteSource::open(folder.path() / "none"); }),
              AllOf(HasSubstr("none"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace unlatch::models
