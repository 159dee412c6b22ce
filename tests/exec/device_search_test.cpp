#include "exec/device_search.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "schedules/error.h"

namespace unlatch::exec {
namespace {

using std::filesystem::path;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const path first = UNLATCH_SEARCH_FIRST, second = UNLATCH_SEARCH_SECOND,
           third = UNLATCH_SEARCH_THIRD;

/// A machine's file system in a folder of its own.
class DeviceSearch : public testing::Test {
 protected:
  DeviceSearch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "unlatch-search-XXXXXX");
    root_ = mkdtemp(pattern.data());
  }
  ~DeviceSearch() override { std::filesystem::remove_all(root_); }

  path folder(const path& name) const {
    std::filesystem::create_directories(root_ / name);
    return root_ / name;
  }
  path copy(const path& library, const path& to) const {
    std::filesystem::copy_file(library, folder(to) / library.filename());
    return root_ / to / library.filename();
  }
  void text(const path& name) const { std::ofstream(root_ / name) << "no library"; }

  path root_;
};

/// What first() of a library counts; the library and what came with it are gone after.
int count_from(const path& library, const std::vector<path>& folders) {
  void* handle = load_with(library, folders);
  const int count = reinterpret_cast<int (*)()>(dlsym(handle, "first"))();
  dlclose(handle);
  return count;
}

std::string refusal(const path& library, const std::vector<path>& folders) {
  try {
    dlclose(load_with(library, folders));
    return "loaded";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_F(DeviceSearch, LooksInListedFoldersThenInstalledThenInWheels) {
  const path listed = folder("listed/with space");
  const path wheel = folder("usr/local/lib/python3.9/dist-packages/nvidia/nccl/lib");
  const path newer = folder("usr/local/lib/python3.11/dist-packages/nvidia/nccl/lib");
  const path debian = folder("usr/lib/python3/dist-packages/nvidia/cudnn/lib");
  const path user = folder("home/.local/lib/python3.11/site-packages/nvidia/cudnn/lib");
  const path environment = folder("venv/lib/python3.12/site-packages/nvidia/cu13/lib");
  const path old = folder("usr/local/cuda-9.2/lib64"), cuda = folder("usr/local/cuda-12.9/lib64");
  const path chosen = folder("usr/local/cuda/lib64");
  const path original = folder("conda/lib/python3.12/site-packages/nvidia/nvjitlink/lib");
  folder("empty/lib/python3.12/site-packages/nvidia/cu13/lib");  // no python3 beside it
  folder("venv/bin");
  folder("conda/bin");
  text("conda/bin/python3");
  std::filesystem::create_symlink(root_ / "conda/bin/python3", root_ / "venv/bin/python3");

  const auto folders = device_folders(
      {.listed = fmt::format(":{}:/no/such/folder:{}", listed.string(), listed.string()),
       .path = fmt::format("{0}/empty/bin:{0}/venv/bin", root_.string()),
       .home = root_ / "home",
       .root = root_});
  EXPECT_THAT(folders, ElementsAre(listed, chosen, cuda, old, environment, original, user, newer,
                                   wheel, debian));
}

TEST_F(DeviceSearch, FindsNothingOnAnEmptyMachine) {
  EXPECT_THAT(device_folders({.listed = "", .path = "", .home = "", .root = root_}),
              testing::IsEmpty());
}

TEST_F(DeviceSearch, LoadsWhatALibraryNeedsFromSeveralFolders) {
  const path here = copy(first, "here");
  copy(second, "one");
  copy(third, "other");
  EXPECT_EQ(count_from(here, {root_ / "none", root_ / "other", root_ / "one"}), 3);
}

TEST_F(DeviceSearch, TakesTheFirstFolderThatHasTheName) {
  const path here = copy(first, "here");
  copy(second, "good");
  copy(third, "good");
  folder("bad");
  text("bad" / second.filename());
  EXPECT_EQ(count_from(here, {root_ / "good", root_ / "bad"}), 3);
  EXPECT_THAT(refusal(here, {root_ / "bad", root_ / "good"}),
              AllOf(HasSubstr(here.string()), HasSubstr("bad/libsearch_second.so.7")));
}

TEST_F(DeviceSearch, NamesTheLibraryThatIsMissing) {
  const path here = copy(first, "here");
  copy(second, "one");
  EXPECT_THAT(refusal(here, {}), HasSubstr("libsearch_second.so.7 is not found"));
  const std::string message = refusal(here, {root_ / "one"});
  EXPECT_THAT(message, AllOf(HasSubstr("libsearch_third.so.7 is not found"),
                             HasSubstr("UNLATCH_CUDA_PATH"), HasSubstr("--device cpu works")));
  copy(third, "one");
  EXPECT_EQ(count_from(here, {root_ / "one"}), 3);
}

/// The loader would ask for it for ever.
TEST_F(DeviceSearch, RefusesAFileThatIsAnotherLibrary) {
  const path here = copy(first, "here");
  std::filesystem::copy_file(third, folder("wrong") / second.filename());
  EXPECT_THAT(refusal(here, {root_ / "wrong"}),
              AllOf(HasSubstr("libsearch_second.so.7"), HasSubstr("cannot open")));
}

TEST_F(DeviceSearch, SaysWhatTheLoaderSaysOfTheLibraryItself) {
  EXPECT_THAT(refusal(root_ / "none.so", {root_}),
              AllOf(HasSubstr("none.so cannot be loaded"), HasSubstr("No such file")));
}

}  // namespace
}  // namespace unlatch::exec
