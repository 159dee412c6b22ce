// The program on stand-ins for CUDA's libraries.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/tools/program.h"

namespace unlatch::test {

inline const std::string network =
    "--model lenet --data digits --batch-size 16 --lr 0.05 --optimizer momentum:momentum=0.9";
inline const std::string lenet = fmt::format("{} --partition uniform", network);
inline const std::string on_one = "--device cuda --share-device yes";

/// A device for each of so many ranks.
inline std::string apart(int ranks) {
  std::string text = "--device cuda:0";
  for (int r = 1; r < ranks; ++r) text += fmt::format(",{}", r);
  return text;
}

/// `settings` are those of tests/cuda/standin/settings.h.
inline Outcome run(const Folder& folder, const std::string& settings,
                   const std::string& arguments) {
  return folder.run(arguments, fmt::format("UNLATCH_STANDIN='{}'", settings));
}

/// The file of the weights, which is the same to the bit or not.
inline std::string trained(const std::string& settings, const std::string& arguments,
                           std::string* said = nullptr) {
  const Folder folder;
  const Outcome outcome = run(folder, settings, fmt::format("train {} --save w", arguments));
  EXPECT_EQ(outcome.code, 0) << arguments << "\n" << outcome.err;
  if (said != nullptr) *said = outcome.err;
  return folder.read("w");
}

}  // namespace unlatch::test
