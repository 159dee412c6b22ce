// AtomicFile: the whole file or nothing, on good disks and bad ones.
#include "traces/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "schedules/error.h"
#include "tests/traces/hand_made.h"
#include "traces/input_file.h"

namespace unlatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

void write(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file << text;
  file.commit();
}

TEST(AtomicFile, HoldsWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string text(300'000, 'x');
  write(folder / "a.txt", text + "end");
  EXPECT_EQ(read_text(folder / "a.txt"), text + "end");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, CompressesByItsNameAndTheSameBytesEveryTime) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += fmt::format("line {}\n", i * 7919);
  write(folder / "a.json.gz", text);
  write(folder / "b.json.gz", text);
  EXPECT_EQ(read_text(folder / "a.json.gz"), text);
  const auto raw = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_LT(raw(folder / "a.json.gz").size(), text.size() / 2);
  EXPECT_EQ(raw(folder / "a.json.gz"), raw(folder / "b.json.gz"));
}

TEST(AtomicFile, IsNotThereBeforeCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a.txt");
  file << "text" << std::flush;
  EXPECT_FALSE(std::filesystem::exists(folder / "a.txt"));
  file.commit();
  EXPECT_EQ(read_text(folder / "a.txt"), "text");
}

TEST(AtomicFile, LeavesTheOlderFileAndNothingElseWhenTheWriterThrows) {
  const TemporaryFolder folder;
  write(folder / "a.txt", "older");
  const auto interrupted = [&] {
    AtomicFile file(folder / "a.txt");
    file << std::string(200'000, 'y');
    throw std::logic_error("stop");
  };
  EXPECT_THROW(interrupted(), std::logic_error);
  EXPECT_EQ(read_text(folder / "a.txt"), "older");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, ReplacesAFileAndKeepsItsPermissionsAndLinks) {
  const TemporaryFolder folder;
  write(folder / "real.txt", "older");
  ASSERT_EQ(::chmod((folder / "real.txt").c_str(), 0640), 0);
  std::filesystem::create_symlink(folder / "real.txt", folder / "link.txt");
  write(folder / "link.txt", "newer");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.txt"));
  EXPECT_EQ(read_text(folder / "real.txt"), "newer");
  struct stat facts {};
  ASSERT_EQ(::stat((folder / "real.txt").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0640u);
}

TEST(AtomicFile, NamesTheFileAndTheReasonOnAFullDisk) {
  for (const std::size_t size : {5, 300'000}) {
    EXPECT_THAT([&] { write("/dev/full", std::string(size, 'x')); },
                ThrowsMessage<Error>(AllOf(HasSubstr("'/dev/full'"), HasSubstr("No space left"))));
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(AtomicFile, LeavesNothingBehindWhenAWriteFailsHalfway) {
  const TemporaryFolder folder;
  write(folder / "a.txt", "older");
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    write(folder / "a.txt", std::string(1'000'000, 'x'));
  } catch (const Error& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, AllOf(HasSubstr(folder / "a.txt"), HasSubstr("File too large")));
  EXPECT_EQ(read_text(folder / "a.txt"), "older");
  EXPECT_EQ(folder.files(), 1u);
}

TEST(AtomicFile, RefusesAtOnceWhatCannotBeWritten) {
  const TemporaryFolder folder;
  write(folder / "file", "");
  EXPECT_THAT([&] { AtomicFile(folder / "missing/a.txt"); },
              ThrowsMessage<Error>(HasSubstr("missing/a.txt': No such file or directory")));
  EXPECT_THAT([&] { AtomicFile(folder / "file/a.txt"); },
              ThrowsMessage<Error>(HasSubstr("Not a directory")));
  EXPECT_THAT([&] { AtomicFile(folder / "."); }, ThrowsMessage<Error>(HasSubstr("Is a directory")));
  EXPECT_THROW(AtomicFile(""), Error);
}

TEST(AtomicFile, RefusesAFolderWithoutPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "closed");
  std::filesystem::permissions(
      folder / "closed", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_THAT([&] { AtomicFile(folder / "closed/a.txt"); },
              ThrowsMessage<Error>(HasSubstr("Permission denied")));
}

TEST(AtomicFile, RefusesWritesAfterCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a.txt");
  file << "text";
  file.commit();
  EXPECT_THROW(file << "more", Error);
  EXPECT_THROW(file.commit(), Error);
}

TEST(ReadText, NamesTheFileAndTheReason) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { read_text(folder / "none"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("none'"), HasSubstr("No such file"))));
  EXPECT_THAT([&] { read_text(folder / "."); }, ThrowsMessage<Error>(HasSubstr("directory")));
}

TEST(ReadText, RefusesCompressedDataThatIsCutOffOrDamaged) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += fmt::format("{}\n", i * 7919 % 10'007);
  write(folder / "a.gz", text);
  const auto size = std::filesystem::file_size(folder / "a.gz");
  {
    std::fstream file(folder / "a.gz", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file.write("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8);
  }
  EXPECT_THAT([&] { read_text(folder / "a.gz"); }, ThrowsMessage<Error>(HasSubstr("damaged")));
  write(folder / "a.gz", text);
  std::filesystem::resize_file(folder / "a.gz", size / 2);
  EXPECT_THAT([&] { read_text(folder / "a.gz"); }, ThrowsMessage<Error>(HasSubstr("incomplete")));
}

}  // namespace
}  // namespace unlatch
