// LineLog: whole lines that a reader sees at once, and that a failure leaves.
#include "traces/line_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "schedules/error.h"
#include "tests/traces/hand_made.h"
#include "traces/input_file.h"

namespace unlatch {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

TEST(LineLog, ShowsEveryLineAsSoonAsItIsAdded) {
  const TemporaryFolder folder;
  LineLog log(folder / "a");
  EXPECT_EQ(folder.files(), 0u);
  log.add("one");
  EXPECT_EQ(read_text(folder / "a"), "one\n");
  log.add("two");
  EXPECT_EQ(read_text(folder / "a"), "one\ntwo\n");
  log.close();
  EXPECT_EQ(read_text(folder / "a"), "one\ntwo\n");
}

TEST(LineLog, KeepsAnOlderFileUntilThereIsALine) {
  const TemporaryFolder folder;
  std::ofstream(folder / "a") << "older and longer\n";
  { LineLog log(folder / "a"); }
  EXPECT_EQ(read_text(folder / "a"), "older and longer\n");
  LineLog log(folder / "a");
  log.add("one");
  EXPECT_EQ(read_text(folder / "a"), "one\n");
}

TEST(LineLog, LeavesWholeLinesWhenTheDiskIsFull) {
  const TemporaryFolder folder;
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{10, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message;
  try {
    LineLog log(folder / "a");
    for (int i = 0; i < 4; ++i) log.add("four");
  } catch (const Error& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_EQ(read_text(folder / "a"), "four\nfour\n");
}

TEST(LineLog, RefusesAtOnceWhatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_THAT([&] { LineLog(folder / "missing/a"); },
              ThrowsMessage<Error>(HasSubstr("missing/a': No such file or directory")));
  EXPECT_THAT([&] { LineLog(folder / "."); }, ThrowsMessage<Error>(HasSubstr("Is a directory")));
  EXPECT_THAT([&] { LineLog(folder / "a.gz"); }, ThrowsMessage<Error>(HasSubstr("leave out .gz")));
  EXPECT_THROW(LineLog(""), Error);
}

}  // namespace
}  // namespace unlatch
