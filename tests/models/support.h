// What the tests of models share: messages of errors, files in a directory that goes away again.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/error.h"

namespace unlatch::models {

using Bytes = std::vector<std::uint8_t>;

/// The message of the Error that a call throws; fails the test if it throws none.
template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return {};
}

/// A fresh directory, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// "mnist:" and the directory, for instance.
  std::string as_data(std::string_view name) const;
  std::filesystem::path write(std::string_view name, const Bytes& bytes) const;

 private:
  std::filesystem::path path_;
};

/// The bytes as a gzip file.
Bytes gzipped(const Bytes& bytes);
Bytes first_bytes(Bytes bytes, std::size_t count);
Bytes operator+(Bytes a, const Bytes& b);

}  // namespace unlatch::models
